"""The predictive setting: recover the training folds, learn from them, predict the test folds."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from conle.enhancers.base import DivergenceError, NotApplicableError
from conle.enhancers.geometry import as_distributions
from conle.enhancers.registry import make_enhancer
from conle.errors import ParameterError
from conle.pipelines.evaluation.nodes import summarise
from conle.pipelines.recovery.nodes import progress_bar

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
    enhancer = make_enhancer(
        method,
        hyperparameters,
        threshold=threshold,
        device=device,
        seed=seed,
        degree_floor=degree_floors.get(dataset, 0.0),
    )
    training = [rows for *_, rows, _ in _splits(folds, repeats, len(features))]
    try:
        with progress_bar(f"{dataset} predictive {method}") as on_progress:
            recovery = enhancer.recover_folds(
                features.to_numpy(),
                logical_labels.to_numpy(),
                [(rows, rows) for rows in training],
                on_progress,
            )
    except (DivergenceError, NotApplicableError) as error:
        raise ParameterError(f"{dataset} {method}: {error}") from error
    targets = iter(recovery.recovered)
    return _predict(
        features, lambda rows: next(targets), folds, repeats, l2, list(logical_labels.columns)
    )


def predict_from_distributions(
    features: pd.DataFrame,
    label_distributions: pd.DataFrame,
    folds: pd.DataFrame,
    repeats: int,
    l2: float,
) -> pd.DataFrame:
    """Learn from the true distributions of the training rows: the most that could be hoped for."""
    true = label_distributions.to_numpy()
    return _predict(
        features, lambda rows: true[rows], folds, repeats, l2, list(label_distributions.columns)
    )


def predict_from_logical_labels(
    features: pd.DataFrame,
    logical_labels: pd.DataFrame,
    folds: pd.DataFrame,
    repeats: int,
    l2: float,
) -> pd.DataFrame:
    """Learn from the logical labels, divided by their number: what enhancement has to beat."""
    normalised = as_distributions(logical_labels.to_numpy(float))
    return _predict(
        features, lambda rows: normalised[rows], folds, repeats, l2, list(logical_labels.columns)
    )


def collect_predictive(*scores: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard deviation over the folds, per dataset, method and measure."""
    return summarise(pd.concat(scores, ignore_index=True))[PREDICTIVE_COLUMNS]


def _splits(folds: pd.DataFrame, repeats: int, samples: int) -> list[tuple]:
    """Repeat, fold, training rows and test rows."""
    kept = folds[folds["repeat"] <= repeats]
    return [
        (repeat, fold, np.setdiff1d(np.arange(samples), test), test.to_numpy())
        for (repeat, fold), test in kept.groupby(["repeat", "fold"], sort=False)["sample"]
    ]


def _predict(
    features: pd.DataFrame,
    targets_of: Callable[[np.ndarray], np.ndarray],
    folds: pd.DataFrame,
    repeats: int,
    l2: float,
    labels: list[str],
) -> pd.DataFrame:
    # Imported where it is used: SciPy's optimisers take long to load.
    from conle.learners import SABFGS

    X = features.to_numpy()
    parts = []
    for repeat, fold, training, test in _splits(folds, repeats, len(X)):
        learner = SABFGS(l2=l2).fit(X[training], targets_of(training))
        predicted = pd.DataFrame(learner.predict(X[test]), columns=labels)
        predicted.insert(0, "protocol", "predictive")
        predicted.insert(1, "fitted_on", "training_folds")
        predicted.insert(2, "repeat", repeat)
        predicted.insert(3, "fold", fold)
        predicted.insert(4, "sample", test)
        parts.append(predicted)
    return pd.concat(parts, ignore_index=True)
