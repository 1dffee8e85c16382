"""The predictive setting: recover the training folds, learn from them, predict the test folds."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from conle.errors import DataError
from conle.methods.geometry import as_distributions
from conle.pipelines.evaluation.nodes import scores_of_all, summarise
from conle.pipelines.recovery.nodes import (
    RECOVERED_COLUMNS,
    cell_enhancer,
    named_errors,
    progress_bar,
    splits_of,
)

PREDICTIVE_COLUMNS = ["dataset", "method", "fitted_on", "measure", "mean", "std", "folds"]


def predict_from_recovered(
    features: pd.DataFrame,
    logical_labels: pd.DataFrame,
    folds: pd.DataFrame,
    hyperparameters: Mapping[str, Any],
    repeats: int,
    l2: float,
    threshold: float,
    device: str,
    seed: int,
    degree_floors: Mapping[str, float],
    *,
    dataset: str,
    method: str,
) -> pd.DataFrame:
    """Learn from what a method recovers of the training rows, and predict the test rows.

    Args:
        features: samples x features.
        logical_labels: samples x labels.
        folds: columns repeat, fold, sample.
        hyperparameters: of the method.
        repeats: of the folds that are taken, from the first.
        l2: penalty of the learner.
        threshold: T of the binarisation.
        device: "auto", "cpu" or "cuda".
        seed: of the method.
        degree_floors: of the datasets that declare one.
        dataset: its name.
        method: its name.

    Returns:
        Columns protocol, fitted_on, repeat, fold, sample and one per label: the predicted test
        rows.

    Raises:
        ParameterError: the training diverged, or the method cannot be used with these labels.
    """
    enhancer = cell_enhancer(
        dataset, method, hyperparameters, threshold, device, seed, degree_floors
    )
    folds = folds[folds["repeat"] <= repeats]
    description = f"{dataset} predictive {method}"
    with named_errors(description), progress_bar(description) as on_progress:
        recovery = enhancer.recover_folds(
            features.to_numpy(),
            logical_labels.to_numpy(),
            [(training, training) for training, _ in splits_of(folds, len(features))],
            on_progress,
        )
    return _predict(features, recovery.recovered, folds, l2, list(logical_labels.columns))


def predict_from_distributions(
    features: pd.DataFrame,
    label_distributions: pd.DataFrame,
    folds: pd.DataFrame,
    repeats: int,
    l2: float,
) -> pd.DataFrame:
    """Learn from the true distributions of the training rows, for reference."""
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
    """Learn from the logical labels, divided by their number: what enhancement has to beat."""
    normalised = pd.DataFrame(
        as_distributions(logical_labels.to_numpy(float)), columns=logical_labels.columns
    )
    return predict_from_distributions(features, normalised, folds, repeats, l2)


def nothing_predicted(
    features: pd.DataFrame, targets: pd.DataFrame, *_: Any, **__: Any
) -> tuple[pd.DataFrame]:
    """No rows: of a method that has failed."""
    return (pd.DataFrame(columns=[*RECOVERED_COLUMNS, *targets.columns]),)


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
    # Imported where it is used: SciPy's optimisers take long to load.
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
