"""Scores of recovered distributions, the results table and pictures."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from conle.core.measures import score
from conle.methods.registry import TITLES
from conle.reporting import figures
from conle.reporting.scores import (
    RESULT_COLUMNS,
    collect_scores,
    refuse_incomparable,
    scores_of_all,
    summarise,
    warn_missing,
)

# Columns of the recovered distributions that name a fold and the rows that were fitted for it.
FOLD_COLUMNS = ["protocol", "fitted_on", "repeat", "fold"]


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


def draw_training_curves(curves: pd.DataFrame, *, dataset: str, method: str) -> Figure:
    """Draw the loss of every step, and the score of every check if the method has checks."""
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
