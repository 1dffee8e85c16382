"""Folds of a cross-validation as a table: columns repeat, fold, sample."""

import numpy as np
import pandas as pd

from conle.methods.contract import Split


def splits_of(folds: pd.DataFrame, samples: int) -> list[Split]:
    """Training rows and test rows of every fold, in the order of the table.

    Args:
        folds: the test rows; columns repeat, fold, sample.
        samples: number of all rows.
    """
    everything = np.arange(samples)
    return [
        (np.delete(everything, test), test.to_numpy())
        for _, test in folds.groupby(["repeat", "fold"], sort=False)["sample"]
    ]


def folds_of(folds: pd.DataFrame) -> list[tuple[int, int]]:
    """Repeat and fold of every test fold, in the order of the table."""
    return list(folds[["repeat", "fold"]].drop_duplicates().itertuples(index=False, name=None))
