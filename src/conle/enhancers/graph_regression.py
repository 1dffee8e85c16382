"""What GLLE and LESC share: kernel regression of the logical labels with a smoothness term."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize
from scipy.special import softmax

from conle.enhancers.base import Features, LogicalLabels, Recovered
from conle.enhancers.geometry import distances, gaussian, kept_by_content

Predictions = Float[np.ndarray, "samples labels"]


@kept_by_content(most=1)
def kernel_design(standardised: Features) -> Float[np.ndarray, "samples columns"]:
    """Phi = [K, 1]: the kernel exp(-distance^2 / (2 w^2)), w the mean distance, and ones."""
    distance, width = distances(standardised)
    design = np.ones((len(standardised), len(standardised) + 1))
    design[:, :-1] = gaussian(distance, width)
    design.setflags(write=False)
    return design


def regress(
    design: Float[np.ndarray, "samples columns"],
    logical_labels: LogicalLabels,
    smoothness: Callable[[Predictions], tuple[float, Predictions]],
    weight: float,
    iterations: int,
    tolerance: float,
    seed: int,
) -> Recovered:
    """Minimise |Phi W - L|^2 + weight x smoothness(Phi W) over W and take the softmax of Phi W.

    W starts uniform on [0, 1) and L-BFGS-B runs until `iterations` or `tolerance` end it: where
    it stops is part of the method.

    Args:
        design: Phi.
        logical_labels: L.
        smoothness: value and gradient of the penalty of predictions Phi W.
        weight: of the penalty.
        iterations: at most so many.
        tolerance: relative decrease of the objective, and projected gradient, to stop at.
        seed: of the initial W.

    Returns:
        Recovered distributions.
    """
    shape = (design.shape[1], logical_labels.shape[1])

    def objective(flat: Float[np.ndarray, " weights"]) -> tuple[float, np.ndarray]:
        predictions = design @ flat.reshape(shape)
        residual = predictions - logical_labels
        penalty, penalty_gradient = smoothness(predictions)
        value = (residual**2).sum() + weight * penalty
        return value, (design.T @ (2 * residual + weight * penalty_gradient)).ravel()

    start = np.random.default_rng(seed).random(shape)
    found = minimize(
        objective,
        start.ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": iterations, "ftol": tolerance, "gtol": tolerance},
    )
    return softmax(design @ found.x.reshape(shape), axis=1)
