"""Put the scores of a grid into one table."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from conle.reporting.scores import scores_of_all, summarise

SENSITIVITY_COLUMNS = ["dataset", "parameter", "setting", "measure", "mean", "std", "folds"]


def collect_sensitivity(
    *scores: pd.DataFrame, settings: Mapping[str, tuple[str, float]]
) -> pd.DataFrame:
    """Mean and standard deviation over the folds of every setting.

    Args:
        scores: scores of the cells of the grid.
        settings: the varied hyperparameter and its value, by the name of the cell.

    Returns:
        Columns dataset, parameter, setting, measure, mean, std, folds.
    """
    summary = summarise(scores_of_all(scores))
    summary["parameter"] = summary["method"].map(lambda cell: settings[cell][0])
    summary["setting"] = summary["method"].map(lambda cell: settings[cell][1])
    return summary[SENSITIVITY_COLUMNS]


def draw_sensitivity(sensitivity: pd.DataFrame) -> Any:
    """Draw the measures against the varied hyperparameters.

    Returns:
        A Matplotlib figure.
    """
    # Imported here because matplotlib takes long to load.
    from conle.reporting import figures

    return figures.sensitivity_curves(sensitivity)
