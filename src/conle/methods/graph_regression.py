"""Kernel regression of the logical labels with a smoothness term, for GLLE and LESC."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import scipy
from jaxtyping import Float
from scipy.optimize import minimize
from scipy.special import softmax
from threadpoolctl import ThreadpoolController

from conle.methods.contract import Features, LogicalLabels, Recovered
from conle.methods.geometry import cached_by_content, distances, gaussian

# Labels are the rows, because products of few rows with large matrices are twice as fast.
Predictions = Float[np.ndarray, "labels samples"]


@cached_by_content(maxsize=1)
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

    W starts uniform on [0, 1), and `iterations` or `tolerance` end L-BFGS-B. The stopping rule is
    part of the method.

    Args:
        design: Phi, samples x columns.
        logical_labels: L, samples x labels.
        smoothness: value and gradient of the penalty, given the predictions (Phi W)'.
        weight: weight of the penalty.
        iterations: largest number of iterations.
        tolerance: relative decrease of the objective, and projected gradient, at which it stops.
        seed: seed of the initial W.

    Returns:
        Recovered distributions.
    """
    shape = (logical_labels.shape[1], design.shape[1])
    relevant = np.ascontiguousarray(logical_labels.T)

    def objective(flat: Float[np.ndarray, " weights"]) -> tuple[float, np.ndarray]:
        predictions = flat.reshape(shape) @ design.T
        residual = predictions - relevant
        penalty, penalty_gradient = smoothness(predictions)
        value = (residual**2).sum() + weight * penalty
        return value, ((2 * residual + weight * penalty_gradient) @ design).ravel()

    start = np.random.default_rng(seed).random(shape[::-1]).T
    with _scipy_on_one_core():
        found = minimize(
            objective,
            start.ravel(),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": iterations, "ftol": tolerance, "gtol": tolerance},
        )
    return softmax(design @ found.x.reshape(shape).T, axis=1)


def _scipy_on_one_core() -> AbstractContextManager:
    """Limit SciPy's BLAS to one core if NumPy has a BLAS of its own.

    L-BFGS uses SciPy's BLAS and the objective uses NumPy's, in turns. Their threads would wait for
    work on the same cores and slow each other down.
    """
    site = Path(scipy.__file__).parents[1]
    own = [
        library["filepath"]
        for library in ThreadpoolController().info()
        if Path(library["filepath"]).parent in (site / "scipy.libs", site / "scipy" / ".dylibs")
    ]
    return ThreadpoolController().select(filepath=own).limit(limits=1)
