"""The predictive setting: learn from recovered training folds, and predict the test folds."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from conle.cells import Cell, on_failure
from conle.core.folds import splits_of
from conle.cost import measured_cost
from conle.errors import DataError
from conle.methods.geometry import as_distributions
from conle.pipelines.recovery.nodes import RECOVERED_COLUMNS
from conle.progress import progress_bar
from conle.reporting.scores import scores_of_all, summarise

PREDICTIVE_COLUMNS = ["dataset", "method", "fitted_on", "measure", "mean", "std", "folds"]


def empty_prediction(
    features: pd.DataFrame, logical_labels: pd.DataFrame, *_: Any, cell: Cell, failure: str
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The outputs of `predict_from_recovered` without rows; the cost holds why it failed."""
    columns = [*RECOVERED_COLUMNS, *logical_labels.columns]
    return pd.DataFrame(columns=columns), {"failure": failure}


@on_failure(empty_prediction)
def predict_from_recovered(
    features: pd.DataFrame,
    logical_labels: pd.DataFrame,
    folds: pd.DataFrame,
    repeats: int,
    l2: float,
    *,
    cell: Cell,
) -> tuple[pd.DataFrame, dict[str, float]]:
    """Learn from the distributions that a method recovers for training rows; predict test rows.

    Args:
        features: samples x features.
        logical_labels: samples x labels, 0 or 1.
        folds: columns repeat, fold, sample.
        repeats: number of repeats that are used, from the first.
        l2: penalty of the learner.
        cell: the method and its hyperparameters.

    Returns:
        Predicted test rows: columns protocol, fitted_on, repeat, fold, sample and one per label.
        The cost of recovery and learning (`measured_cost`).

    Raises:
        ParameterError: the training diverged, or the method cannot use these labels.
    """
    folds = folds[folds["repeat"] <= repeats]
    with measured_cost() as cost, progress_bar(cell.title) as on_progress:
        recovery = cell.make_enhancer().recover_folds(
            features.to_numpy(),
            logical_labels.to_numpy(),
            [(training, training) for training, _ in splits_of(folds, len(features))],
            on_progress,
        )
        labels = list(logical_labels.columns)
        predicted = _predict(features, recovery.recovered, folds, l2, labels)
    return predicted, cost


def predict_from_distributions(
    features: pd.DataFrame,
    label_distributions: pd.DataFrame,
    folds: pd.DataFrame,
    repeats: int,
    l2: float,
) -> pd.DataFrame:
    """Learn from the true distributions of the training rows, as an upper reference."""
    folds = folds[folds["repeat"] <= repeats]
    true = label_distributions.to_numpy()
    targets = [true[training] for training, _ in splits_of(folds, len(features))]
    return _predict(features, targets, folds, l2, list(label_distributions.columns))


def predict_from_logical_labels(
    features: pd.DataFrame,
    logical_labels: pd.DataFrame,
    folds: pd.DataFrame,
    repeats: int,
    l2: float,
) -> pd.DataFrame:
    """Learn from the logical labels divided by their sum, as a lower reference."""
    normalised = pd.DataFrame(
        as_distributions(logical_labels.to_numpy(float)), columns=logical_labels.columns
    )
    return predict_from_distributions(features, normalised, folds, repeats, l2)


def collect_predictive(*scores: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard deviation over the folds, per dataset, method and measure.

    Raises:
        DataError: there is no dataset, or every method has failed.
    """
    if not scores:
        raise DataError(
            "predictive.without leaves out every dataset of this run: choose other datasets, or "
            'none to leave out (--params "predictive.without=")'
        )
    return summarise(scores_of_all(scores))[PREDICTIVE_COLUMNS]


def _predict(
    features: pd.DataFrame,
    targets: Sequence[np.ndarray],
    folds: pd.DataFrame,
    l2: float,
    labels: list[str],
) -> pd.DataFrame:
    """Learn from the targets of each fold's training rows, and predict its test rows."""
    # Imported here because SciPy's optimisers take long to load.
    from conle.core.learners import SABFGS

    X = features.to_numpy()
    predicted = folds[["repeat", "fold", "sample"]].reset_index(drop=True)
    predicted.insert(0, "protocol", "predictive")
    predicted.insert(1, "fitted_on", "training_folds")
    predicted[labels] = np.concatenate(
        [
            SABFGS(l2=l2).fit(X[training], own).predict(X[test])
            for (training, test), own in zip(splits_of(folds, len(X)), targets, strict=True)
        ]
    )
    return predicted
