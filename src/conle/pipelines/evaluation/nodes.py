"""Scoring what was recovered, and the tables and pictures of it."""

import hashlib
from collections.abc import Sequence
from typing import Any

import pandas as pd

from conle.core.measures import MEASURES, score
from conle.errors import DataError
from conle.methods.registry import TITLES

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
# Columns of the recovered distributions that name a fold and what was fitted for it.
FOLD_COLUMNS = ["protocol", "fitted_on", "repeat", "fold"]
# KM recovers exact zeros: its published divergences, .33 to .63, can only be reversed ones (the
# others are near 10). Those of LP are reproduced to .004 on every dataset reversed; the other way
# they are .003 to .1 off on all but SBU-3DFE.
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
    *,
    dataset: str,
    cell: str,
) -> pd.DataFrame:
    """Score the recovered distributions of every test fold against the true ones.

    Args:
        label_distributions: the true ones, samples x labels.
        logical_labels: that they were recovered from.
        recovered: columns protocol, fitted_on, repeat, fold, sample and one per label.
        dataset: its name.
        cell: name of the method.

    Returns:
        One row per fold and measure, with the columns of the results table. `scored_on` is a
        digest of both kinds of labels and of the folds: scores of others do not compare.
    """
    labels = list(label_distributions.columns)
    true = label_distributions.loc[recovered["sample"], labels].to_numpy()
    distributions = recovered[labels].to_numpy()
    positions = recovered.reset_index(drop=True).groupby(FOLD_COLUMNS, sort=False)["sample"]
    content = hashlib.blake2b(digest_size=8)
    for table in (label_distributions, logical_labels, recovered[["repeat", "fold", "sample"]]):
        content.update(pd.util.hash_pandas_object(table, index=False).to_numpy().tobytes())
    scored_on = content.hexdigest()
    rows = [
        (dataset, cell, *fold, measure, value, scored_on)
        for fold, test in positions
        for measure, value in score(true[test.index], distributions[test.index]).items()
    ]
    return pd.DataFrame(rows, columns=RESULT_COLUMNS)


def collect_results(*scores: pd.DataFrame) -> pd.DataFrame:
    """Put the scores of all datasets and methods into the one results table.

    Raises:
        DataError: every method has failed; scores are of an earlier version; or methods of one
            dataset were scored under different protocols, on different folds or on other logical
            labels, as earlier runs with other parameters leave them; they do not compare.
    """
    results = scores_of_all(scores)
    if "scored_on" not in results or results["scored_on"].isna().any():
        raise DataError(
            "the catalog holds scores of an earlier version of this project; run all methods again"
        )
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
    return results


def scores_of_all(scores: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The scores of all cells but those that failed, which have none.

    Raises:
        DataError: all have failed.
    """
    found = [own for own in scores if len(own)]
    if not found:
        raise DataError("nothing was recovered: every method has failed, the log says why")
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
    """Put every published cell beside what was measured.

    The divergences of KM and LP were published as KL(recovered || true), and are compared with
    that.

    Args:
        summary: means per dataset, method and measure.
        published_recovery: the paper's Table 3 or 4: dataset, method, measure, value, suspect.

    Returns:
        Columns dataset, method, measure, compared_with (the measure measured), fitted_on,
        published, measured, difference, at_least_as_good (of the mean rounded to three decimals,
        as the paper prints it) and suspect. Empty where no dataset or method is the paper's.
    """
    measured = summary.set_index(["dataset", "method", "measure"])
    rows = []
    for cell in published_recovery.itertuples(index=False):
        compared_with = cell.measure
        if cell.measure == "kl_divergence" and cell.method in PUBLISHED_REVERSED:
            compared_with = "kl_divergence_reversed"
        key = (cell.dataset, cell.method, compared_with)
        if key not in measured.index:
            continue
        mean = measured.loc[key, "mean"]
        rounded = round(mean, 3)
        rows.append(
            {
                "dataset": cell.dataset,
                "method": cell.method,
                "measure": cell.measure,
                "compared_with": compared_with,
                "fitted_on": measured.loc[key, "fitted_on"],
                "published": cell.value,
                "measured": mean,
                "difference": mean - cell.value,
                "at_least_as_good": rounded >= cell.value
                if MEASURES[cell.measure].larger_is_better
                else rounded <= cell.value,
                "suspect": cell.suspect,
            }
        )
    return pd.DataFrame(rows, columns=COMPARISON_COLUMNS)


def draw_training_curves(curves: pd.DataFrame, *, dataset: str, method: str) -> Any:
    """Draw the loss of every step, and the agreement of every check where there is one.

    Returns:
        A Matplotlib figure.
    """
    # Imported where it is used, as below: matplotlib takes long to load.
    from conle import figures

    return figures.training_curves(curves, f"{TITLES[method]} on {dataset}")


def draw_recovery(
    features: pd.DataFrame,
    label_distributions: pd.DataFrame,
    *recovered: pd.DataFrame,
    dataset: str,
    methods: Sequence[str],
) -> Any:
    """Draw the true distributions next to what each method recovered in the first repeat.

    Three labels are drawn as the red, green and blue of each sample over a plane, the field's
    customary picture; any other number as bars for a few samples.

    Returns:
        A Matplotlib figure.
    """
    from conle import figures

    labels = list(label_distributions.columns)
    panels = {"true": label_distributions.to_numpy()}
    for method, rows in zip(methods, recovered, strict=True):
        # Of one that has failed.
        if rows.empty:
            continue
        first = rows[rows["repeat"] == 1].sort_values("sample")
        panels[TITLES[method]] = first[labels].to_numpy()
    if len(labels) == 3:
        return figures.recovery_as_colours(features.to_numpy(), panels, dataset)
    return figures.recovery_as_bars(panels, labels, dataset)
