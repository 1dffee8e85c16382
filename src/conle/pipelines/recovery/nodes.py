"""Recover label distributions with a method, fold by fold."""

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from conle.cells import Cell, on_failure
from conle.core.folds import folds_of, splits_of
from conle.cost import measured_cost
from conle.methods.contract import FoldRecovery, LabelEnhancer, ProgressCallback, Split
from conle.methods.registry import METHODS
from conle.progress import progress_bar

logger = logging.getLogger(__name__)

# Columns of the recovered rows, before one column per label.
RECOVERED_COLUMNS = ["protocol", "fitted_on", "repeat", "fold", "sample"]
CURVE_COLUMNS = ["quantity", "repeat", "fold", "step", "value"]
# Repeat and fold of a fit to all rows, which belongs to no fold.
ALL_ROWS = (0, 0)


def empty_recovery(
    features: pd.DataFrame,
    logical_labels: pd.DataFrame,
    *_: Any,
    cell: Cell,
    failure: str,
) -> tuple:
    """The outputs of `recover` without rows; the cost holds why it failed."""
    recovered = pd.DataFrame(columns=[*RECOVERED_COLUMNS, *logical_labels.columns])
    cost = {"failure": failure}
    if not METHODS[cell.method].trained:
        return recovered, cost
    return recovered, cost, {}, pd.DataFrame(columns=CURVE_COLUMNS)


@on_failure(empty_recovery)
def recover(
    features: pd.DataFrame,
    logical_labels: pd.DataFrame,
    folds: pd.DataFrame,
    protocol: str,
    *,
    cell: Cell,
) -> tuple:
    """Recover the distributions of every test fold.

    Args:
        features: samples x features.
        logical_labels: samples x labels, 0 or 1.
        folds: columns repeat, fold, sample.
        protocol: "cross_validation" fits inductive methods to the training rows of each fold,
            "transductive" fits every method once to all rows.
        cell: the method and its hyperparameters.

    Returns:
        Recovered rows of every test fold: columns protocol, fitted_on ("training_folds" or "all"),
        repeat, fold, sample and one per label; and the cost (`measured_cost`). A method that is
        trained adds its weights by name, their first axis over the folds, and its curves: columns
        quantity, repeat, fold, step, value (repeat and fold are 0 for a fit to all rows).

    Raises:
        ParameterError: the training diverged, or the method cannot use these logical labels.
    """
    X, L = features.to_numpy(), logical_labels.to_numpy()
    splits = splits_of(folds, len(X))
    enhancer = cell.make_enhancer()
    with measured_cost() as cost, progress_bar(cell.title) as on_progress:
        recovery, rows = _recover_tests(enhancer, X, L, splits, protocol, on_progress)
    on_all = protocol == "transductive" or not enhancer.inductive
    recovered = recovered_table(folds, logical_labels, np.concatenate(rows), protocol, on_all)
    if not METHODS[cell.method].trained:
        return recovered, cost
    if "reading" in recovery.weights:
        counts = Counter(enhancer.kept_readings(recovery.weights)).most_common()
        shown = ", ".join(f"{reading} {count}" for reading, count in counts)
        logger.info("%s: kept readings by number of folds: %s", cell.title, shown)
    fitted = [ALL_ROWS] if protocol == "transductive" else folds_of(folds)
    return recovered, cost, recovery.weights, curves_table(recovery, fitted)


def recovered_table(
    folds: pd.DataFrame,
    logical_labels: pd.DataFrame,
    rows: np.ndarray,
    protocol: str,
    on_all: bool = False,
) -> pd.DataFrame:
    """The recovered rows of every test fold: `RECOVERED_COLUMNS`, and one column per label.

    Args:
        folds: columns repeat, fold, sample.
        logical_labels: its columns name the labels.
        rows: the recovered distributions, in the order of the folds.
        protocol: "cross_validation" or "transductive".
        on_all: whether the method was fitted to all rows.
    """
    recovered = folds[["repeat", "fold", "sample"]].reset_index(drop=True)
    recovered.insert(0, "protocol", protocol)
    recovered.insert(1, "fitted_on", "all" if on_all else "training_folds")
    recovered[list(logical_labels.columns)] = rows
    return recovered


def _recover_tests(
    enhancer: LabelEnhancer,
    X: np.ndarray,
    L: np.ndarray,
    splits: Sequence[Split],
    protocol: str,
    on_progress: ProgressCallback,
) -> tuple[FoldRecovery, list[np.ndarray]]:
    if protocol == "transductive" or not enhancer.inductive:
        everything = np.arange(len(X))
        recovery = enhancer.recover_folds(X, L, [(everything, everything)], on_progress)
        return recovery, [recovery.recovered[0][test] for _, test in splits]
    recovery = enhancer.recover_folds(X, L, splits, on_progress)
    return recovery, recovery.recovered


def curves_table(recovery: FoldRecovery, fitted: Sequence[tuple[int, int]]) -> pd.DataFrame:
    """The training curves of every fit.

    Args:
        recovery: holds the curves of every fit.
        fitted: repeat and fold of every fit.

    Returns:
        Columns quantity, repeat, fold, step, value.
    """
    curves = [
        (quantity, *fold, *curve)
        for fold, followed in zip(fitted, recovery.curves, strict=True)
        for quantity, curve in followed.items()
    ]
    quantities, repeats, folds, steps, values = zip(*curves, strict=True)
    lengths = [len(curve) for curve in steps]
    columns = [np.repeat(names, lengths) for names in (quantities, repeats, folds)]
    columns += [np.concatenate(steps), np.concatenate(values).astype(np.float64)]
    return pd.DataFrame(dict(zip(CURVE_COLUMNS, columns, strict=True)))
