"""Stacking: weights of models by what they predict of held-out data."""

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize

Probabilities = Float[np.ndarray, "models samples events"]


def log_score(probabilities: Float[np.ndarray, "samples events"]) -> float:
    """The mean log probability of held-out logical labels.

    Args:
        probabilities: of each sample, that of its number of relevant labels, then that of the value
            of each label (`PosteriorDecoder.label_probabilities`).

    Returns:
        The mean over the samples of log P(k) + the mean over the labels of log P(L_j).
    """
    logs = np.log(probabilities)
    return float((logs[:, 0] + logs[:, 1:].mean(axis=1)).mean())


def stacking_weights(probabilities: Probabilities) -> Float[np.ndarray, " models"]:
    """The weights whose mixture of the models has the highest log score.

    A mixture's probability of an event is the weighted mean of the models' (Yao et al., "Using
    stacking to average Bayesian predictive distributions", Bayesian Analysis 2018). The score is a
    concave function of the weights.

    Args:
        probabilities: of every model, as `log_score` takes them.

    Returns:
        Weights of the models, at least 0; they sum to 1.
    """
    models, _, events = probabilities.shape
    importance = np.r_[1.0, np.full(events - 1, 1 / (events - 1))]

    def negative_score(weights: np.ndarray) -> tuple[float, np.ndarray]:
        mixture = np.tensordot(weights, probabilities, axes=1)
        gradient = (probabilities / mixture).mean(axis=1) @ importance
        return -log_score(mixture), -gradient

    result = minimize(
        negative_score,
        np.full(models, 1 / models),
        jac=True,
        method="SLSQP",
        bounds=[(0, 1)] * models,
        constraints={"type": "eq", "fun": lambda weights: weights.sum() - 1},
    )
    weights = result.x.clip(0)
    return weights / weights.sum()
