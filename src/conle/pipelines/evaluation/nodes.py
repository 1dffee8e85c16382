"""Scoring what was recovered, and the tables and pictures of it."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from conle.enhancers.registry import METHODS
from conle.measures import score

RESULT_COLUMNS = [
    "dataset",
    "method",
    "protocol",
    "fitted_on",
    "repeat",
    "fold",
    "measure",
    "value",
]


def score_folds(
    label_distributions: pd.DataFrame,
    recovered: pd.DataFrame,
    protocol: str,
    *,
    dataset: str,
    method: str,
) -> pd.DataFrame:
    """Score the recovered distributions of every test fold against the true ones.

    Args:
        label_distributions: the true ones, samples x labels.
        recovered: columns repeat, fold, sample and one per label.
        protocol: of the run.
        dataset: its name.
        method: its name.

    Returns:
        One row per fold and measure, with the columns of the results table.
    """
    labels = list(label_distributions.columns)
    on_all = protocol == "transductive" or not METHODS[method].enhancer_class.inductive
    rows = [
        (dataset, method, protocol, "all" if on_all else "training_folds", *fold, measure, value)
        for fold, test in recovered.groupby(["repeat", "fold"], sort=False)
        for measure, value in score(
            label_distributions.loc[test["sample"], labels].to_numpy(), test[labels].to_numpy()
        ).items()
    ]
    return pd.DataFrame(rows, columns=RESULT_COLUMNS)


def collect_results(*scores: pd.DataFrame) -> pd.DataFrame:
    """Put the scores of all datasets and methods into the one results table."""
    return pd.concat(scores, ignore_index=True)


def summarise(results: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard deviation over the folds, per dataset, method and measure.

    Returns:
        Columns dataset, method, protocol, fitted_on, measure, mean, std, folds. The standard
        deviation has the divisor n - 1 and is empty for a single fold.
    """
    keys = ["dataset", "method", "protocol", "fitted_on", "measure"]
    values = results.groupby(keys, sort=False)["value"]
    return values.agg(mean="mean", std="std", folds="count").reset_index()


def draw_training_curves(curves: pd.DataFrame, *, dataset: str, method: str) -> Any:
    """Draw the loss of every step, and the agreement of every check where there is one.

    Returns:
        A Matplotlib figure.
    """
    # Imported where it is used, as below: matplotlib takes long to load.
    from conle import figures

    return figures.training_curves(curves, f"{METHODS[method].title} on {dataset}")


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
        first = rows[rows["repeat"] == 1].sort_values("sample")
        panels[METHODS[method].title] = first[labels].to_numpy()
    if len(labels) == 3:
        return figures.recovery_as_colours(features.to_numpy(), panels, dataset)
    return figures.recovery_as_bars(panels, labels, dataset)
