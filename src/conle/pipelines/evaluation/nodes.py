"""Scores of recovered distributions, the results table and pictures."""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from conle.core.measures import MEASURES, score
from conle.errors import DataError
from conle.methods.registry import TITLES
from conle.reporting import figures

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
MISSING_COLUMNS = ["dataset", "method", "reason"]
# Columns of the recovered distributions that name a fold and the rows that were fitted for it.
FOLD_COLUMNS = ["protocol", "fitted_on", "repeat", "fold"]
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


def score_folds(
    label_distributions: pd.DataFrame,
    logical_labels: pd.DataFrame,
    recovered: pd.DataFrame,
    cost: Mapping[str, Any] | None = None,
    *,
    dataset: str,
    method: str,
) -> pd.DataFrame:
    """Score the recovered distributions of every test fold against the true ones.

    Args:
        label_distributions: the true distributions, samples x labels.
        logical_labels: the labels that the methods saw, samples x labels.
        recovered: columns protocol, fitted_on, repeat, fold, sample and one per label.
        cost: the cost of the recovery; with a `failure`, there are no scores.
        dataset: the value of the column dataset.
        method: the value of the column method: a method, or a setting of one.

    Returns:
        One row per fold and measure, with the columns of the results table. `scored_on` is a
        digest of the labels and the folds: scores with different digests do not compare.
    """
    if cost is not None and "failure" in cost:
        return pd.DataFrame(columns=RESULT_COLUMNS)
    labels = list(label_distributions.columns)
    true = label_distributions.loc[recovered["sample"], labels].to_numpy()
    distributions = recovered[labels].to_numpy()
    positions = recovered.reset_index(drop=True).groupby(FOLD_COLUMNS, sort=False)["sample"]
    content = hashlib.blake2b(digest_size=8)
    for table in (label_distributions, logical_labels, recovered[["repeat", "fold", "sample"]]):
        content.update(pd.util.hash_pandas_object(table, index=False).to_numpy().tobytes())
    scored_on = content.hexdigest()
    rows = [
        (dataset, method, *fold, measure, value, scored_on)
        for fold, test in positions
        for measure, value in score(true[test.index], distributions[test.index]).items()
    ]
    return pd.DataFrame(rows, columns=RESULT_COLUMNS)


def collect_dataset(*scores: pd.DataFrame | None, cells: Sequence[tuple[str, str]]) -> pd.DataFrame:
    """Put the scores of a dataset into one results table, and log which are missing.

    Args:
        scores: scores of every cell; empty if its recovery has failed, None if it was not run.
        cells: dataset and method of every cell.
    """
    results, missing = collect_scores(dict(zip(cells, scores, strict=True)))
    warn_missing(missing, "results")
    return results


def collect_results(*results: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Put the results of all datasets into one table, and summarise it.

    Args:
        results: the results table of every dataset; empty where all cells have failed.

    Returns:
        The results table and its summary (`summarise`).

    Raises:
        DataError: no cell has scores, or scores do not compare (`refuse_incomparable`).
    """
    together = scores_of_all(results)
    refuse_incomparable(together)
    return together, summarise(together)


def collect_scores(
    scores: Mapping[tuple[str, str], pd.DataFrame | None],
    costs: Mapping[tuple[str, str], Mapping[str, Any] | None] = {},
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Put the scores of cells into one tidy table, and list the cells without any.

    Args:
        scores: scores by cell (dataset and method); None where no run has recovered it, empty where
            the recovery has failed.
        costs: costs by cell; a failed recovery has its reason under `failure`.

    Returns:
        The results table, columns `RESULT_COLUMNS`, and the missing cells: dataset, method, reason.
    """
    found, missing = [], []
    for cell, own in scores.items():
        if own is None:
            missing.append((*cell, "no run has recovered them"))
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


def draw_training_curves(curves: pd.DataFrame, *, dataset: str, method: str) -> Figure:
    """Draw the loss of every step, and the agreement of every check if the method has checks."""
    return figures.training_curves(curves, f"{TITLES[method]} on {dataset}")


def draw_recovery(
    features: pd.DataFrame,
    label_distributions: pd.DataFrame,
    folds: pd.DataFrame,
    *recovered: pd.DataFrame,
    dataset: str,
    methods: Sequence[str],
) -> Figure:
    """Draw the true distributions next to what each method recovered in the first repeat.

    Three labels become the red, green and blue of each sample over a plane, as is usual in the
    field; any other number of labels is drawn as bars for a few samples. Methods that have failed
    are left out.
    """
    labels = list(label_distributions.columns)
    first_repeat = folds["repeat"].min()
    panels = {"true": label_distributions.to_numpy()}
    for method, rows in zip(methods, recovered, strict=True):
        if rows.empty:
            continue
        first = rows[rows["repeat"] == first_repeat].sort_values("sample")
        panels[TITLES[method]] = first[labels].to_numpy()
    if len(labels) == 3:
        return figures.recovery_as_colours(features.to_numpy(), panels, dataset)
    return figures.recovery_as_bars(panels, labels, dataset)
