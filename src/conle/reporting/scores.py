"""The results table of many cells, its summary, and published values beside it."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from conle.core.measures import MEASURES
from conle.errors import DataError

logger = logging.getLogger(__name__)

RESULT_COLUMNS = [
    "dataset",
    "method",
    "protocol",
    "fitted_on",
    "repeat",
    "fold",
    "measure",
    "value",
    "scored_on",
]
NOTHING_RECOVERED = "nothing was recovered: every method has failed, the log says why"
NOT_RECOVERED = "no run of this protocol has recovered them"
MISSING_COLUMNS = ["dataset", "method", "reason"]
# The published divergences of these methods have the reversed direction. KM recovers exact zeros,
# so its divergences are near 10, but .33 to .63 were published. For LP, reversed divergences differ
# from the published ones by at most .004 on every dataset; divergences of the usual direction
# differ by .003 to .1 on all datasets but SBU-3DFE.
PUBLISHED_REVERSED = ("km", "lp")

COMPARISON_COLUMNS = [
    "dataset",
    "method",
    "measure",
    "compared_with",
    "fitted_on",
    "published",
    "measured",
    "difference",
    "at_least_as_good",
    "suspect",
]


def collect_scores(
    scores: Mapping[tuple[str, str], pd.DataFrame | None],
    costs: Mapping[tuple[str, str], Mapping[str, Any] | None] = {},
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Put the scores of cells into one tidy table, and list the cells without any.

    Args:
        scores: scores by cell (dataset and method); None where no run of this protocol has
            recovered it, empty where the recovery has failed.
        costs: costs by cell; a failed recovery has its reason under `failure`.

    Returns:
        The results table, columns `RESULT_COLUMNS`, and the missing cells: dataset, method, reason.
    """
    found, missing = [], []
    for cell, own in scores.items():
        if own is None:
            missing.append((*cell, NOT_RECOVERED))
        elif own.empty:
            failure = (costs.get(cell) or {}).get("failure", "the log says why")
            missing.append((*cell, f"failed: {failure}"))
        else:
            found.append(own)
    empty = pd.DataFrame(columns=RESULT_COLUMNS).astype({"value": float})
    results = pd.concat(found, ignore_index=True) if found else empty
    return results, pd.DataFrame(missing, columns=MISSING_COLUMNS)


def warn_missing(missing: pd.DataFrame, place: str) -> None:
    """Log the cells that are missing in a place, grouped by reason."""
    for reason, rows in missing.groupby("reason", sort=False):
        names = "; ".join(
            f"{dataset}: {', '.join(methods)}"
            for dataset, methods in rows.groupby("dataset", sort=False)["method"]
        )
        logger.warning("Not in the %s, %s: %s", place, reason, names)


def refuse_incomparable(results: pd.DataFrame) -> None:
    """Refuse scores that do not compare, as `--load-versions` can bring them together.

    Raises:
        DataError: methods of one dataset were scored under different protocols, on different folds
            or on different logical labels.
    """
    for dataset, rows in results.groupby("dataset", sort=False):
        runs = {
            method: (
                frozenset(own["protocol"]),
                len(own[["repeat", "fold"]].drop_duplicates()),
                frozenset(own["scored_on"]),
            )
            for method, own in rows.groupby("method", sort=False)
        }
        if len(set(runs.values())) > 1:
            shown = "; ".join(
                f"{method}: {'/'.join(protocols)}, {folds} folds, data {'/'.join(scored_on)}"
                for method, (protocols, folds, scored_on) in runs.items()
            )
            raise DataError(
                f"{dataset}: the catalog holds scores of runs that do not compare ({shown}); "
                "run these methods again with the same parameters (seed and threshold too)"
            )


def scores_of_all(scores: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Put tables of scores into one; a failed cell has no rows.

    Raises:
        DataError: no table has rows.
    """
    found = [own for own in scores if len(own)]
    if not found:
        raise DataError(NOTHING_RECOVERED)
    return pd.concat(found, ignore_index=True)


def summarise(results: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard deviation over the folds, per dataset, method and measure.

    Returns:
        Columns dataset, method, protocol, fitted_on, measure, mean, std, folds. The standard
        deviation has the divisor n - 1 and is empty for a single fold.
    """
    keys = ["dataset", "method", "protocol", "fitted_on", "measure"]
    values = results.groupby(keys, sort=False)["value"]
    return values.agg(mean="mean", std="std", folds="count").reset_index()


def compare_with_published(summary: pd.DataFrame, published_recovery: pd.DataFrame) -> pd.DataFrame:
    """Put every published value beside the measured mean.

    The divergences of KM and LP were published as KL(recovered || true) and are compared with
    measured ones of this direction.

    Args:
        summary: the result of `summarise`.
        published_recovery: the paper's Table 3 or 4: columns dataset, method, measure, value and
            suspect.

    Returns:
        Columns dataset, method, measure, compared_with (the measure of the mean), fitted_on,
        published, measured, difference, at_least_as_good (for the mean rounded to three decimals,
        as the paper prints it) and suspect. Empty if the paper has none of the datasets and
        methods.
    """
    measured = summary.set_index(["dataset", "method", "measure"])
    rows = []
    for row in published_recovery.itertuples(index=False):
        compared_with = row.measure
        if row.measure == "kl_divergence" and row.method in PUBLISHED_REVERSED:
            compared_with = "kl_divergence_reversed"
        key = (row.dataset, row.method, compared_with)
        if key not in measured.index:
            continue
        mean = measured.loc[key, "mean"]
        rounded = round(mean, 3)
        rows.append(
            {
                "dataset": row.dataset,
                "method": row.method,
                "measure": row.measure,
                "compared_with": compared_with,
                "fitted_on": measured.loc[key, "fitted_on"],
                "published": row.value,
                "measured": mean,
                "difference": mean - row.value,
                "at_least_as_good": rounded >= row.value
                if MEASURES[row.measure].larger_is_better
                else rounded <= row.value,
                "suspect": row.suspect,
            }
        )
    return pd.DataFrame(rows, columns=COMPARISON_COLUMNS)
