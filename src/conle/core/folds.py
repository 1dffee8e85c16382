"""Folds of a cross-validation as a table: columns repeat, fold, sample."""

import numpy as np
import pandas as pd
from sklearn.model_selection import RepeatedKFold

from conle.methods.contract import Split


def make_folds(logical_labels: pd.DataFrame, repeats: int, folds: int, seed: int) -> pd.DataFrame:
    """Put every sample into one test fold of each repeat.

    Args:
        logical_labels: one row per sample; only their number matters.
        repeats: number of random splits.
        folds: number of folds in each split; their sizes differ by at most one.
        seed: seed of all splits.

    Returns:
        Columns repeat and fold (from 1) and sample (row number from 0), in that order.
    """
    samples = len(logical_labels)
    splits = RepeatedKFold(n_splits=folds, n_repeats=repeats, random_state=seed)
    tests = [test for _, test in splits.split(np.empty((samples, 0)))]
    return pd.concat(
        [
            pd.DataFrame(
                {"repeat": number // folds + 1, "fold": number % folds + 1, "sample": test}
            )
            for number, test in enumerate(tests)
        ],
        ignore_index=True,
    )


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
