"""LESC: label enhancement with sample correlations.

Source: Tang, Zhu, Zheng, Wang, Pang, Li, "Label enhancement with sample correlations via low-rank
representation", AAAI 2020.
"""

from typing import Annotated

import numpy as np
from jaxtyping import Float
from pydantic import Field

from conle.core.hyperparameters import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
)
from conle.methods.contract import Features, LogicalLabels, Recovered, TransductiveEnhancer
from conle.methods.geometry import cached_by_content, standardised
from conle.methods.graph_regression import kernel_design, regress

Basis = Float[np.ndarray, "samples rank"]
Coefficients = Float[np.ndarray, "rank samples"]

# With a larger penalty the constraints hold up to rounding.
LARGEST_PENALTY = 1e8
# The representation has converged at this residual relative to the features.
RESIDUAL = 1e-8
# Singular values below this share of the largest one are rounding errors.
RANK_TOLERANCE = 1e-10


class LESC(TransductiveEnhancer):
    """Kernel regression of the logical labels, smooth over the samples' low-rank representation.

    The standardised features, one sample a column, represent each other: X' = X' C + E with
    min |C|_* + beta |E|_{2,1}. Then LESC minimises |Phi W - L|^2 + lambda |Phi W - C' Phi W|^2,
    with the Phi of GLLE, and recovers the softmax of Phi W.
    """

    beta: PositiveFloat = 1.0
    """Weight of the error of the representation."""
    lambda_: NonNegativeFloat = 1.0
    """Weight of the smoothness over the representation."""
    representation_iterations: PositiveInt = 50
    """Largest number of iterations of the augmented Lagrangian method."""
    penalty: PositiveFloat = 0.01
    """Penalty of the augmented Lagrangian method at its start."""
    penalty_growth: Annotated[float, Field(gt=1)] = 1.5
    """Factor by which the penalty grows in an iteration."""
    iterations: PositiveInt = 200
    """Largest number of iterations of L-BFGS."""
    tolerance: NonNegativeFloat = 1e-6
    """Relative decrease of the objective, and projected gradient, at which L-BFGS stops."""
    seed: NonNegativeInt = 0
    """Seed of the initial W."""

    def _fit_transform(self, features: Features, logical_labels: LogicalLabels) -> Recovered:
        features = standardised(features)
        basis, coefficients, _ = low_rank_representation(
            features, self.beta, self.representation_iterations, self.penalty, self.penalty_growth
        )

        def smoothness(predictions: np.ndarray) -> tuple[float, np.ndarray]:
            # C = V Z, and the gradient of |P' - P' C|^2 is 2 (P' - P' C) (I - C)'.
            difference = predictions - (predictions @ basis) @ coefficients
            gradient = difference - (difference @ coefficients.T) @ basis.T
            return (difference**2).sum(), 2 * gradient

        return regress(
            kernel_design(features),
            logical_labels,
            smoothness,
            self.lambda_,
            self.iterations,
            self.tolerance,
            self.seed,
        )


@cached_by_content(maxsize=1)
def low_rank_representation(
    features: Features, beta: float, iterations: int, penalty: float, penalty_growth: float
) -> tuple[Basis, Coefficients, float]:
    """Represent the samples by each other: min |C|_* + beta |E|_{2,1} with X' = X' C + E.

    The minimiser lies in the row space of X' = U S V': C = V Z and E = U E2, where |C|_* = |Z|_*
    and the columns of E and E2 have the same length. So Z and E2 (rank x samples) solve
    S V' = S Z + E2, by the inexact augmented Lagrangian method with the copy J of Z.

    Args:
        features: X, samples x features.
        beta: weight of the error.
        iterations: largest number of iterations.
        penalty: penalty of the constraints at the start.
        penalty_growth: factor by which it grows in an iteration.

    Returns:
        V (samples x rank), Z (rank x samples), and the largest residual of the constraints
        relative to the largest feature.
    """
    left, singular, _ = np.linalg.svd(features, full_matrices=False)
    rank = max(1, int((singular > RANK_TOLERANCE * singular[0]).sum()))
    basis, s = left[:, :rank], singular[:rank, None]
    data = s * basis.T
    size = np.abs(data).max() or 1.0
    z, error, dual_data, dual_copy = (np.zeros_like(data) for _ in range(4))
    residual = np.inf
    for _ in range(iterations):
        copy = _shrink_singular_values(z + dual_copy / penalty, 1 / penalty)
        z = (s * (data - error + dual_data / penalty) + copy - dual_copy / penalty) / (s**2 + 1)
        error = _shrink_columns(data - s * z + dual_data / penalty, beta / penalty)
        gap_data, gap_copy = data - s * z - error, z - copy
        residual = max(np.abs(gap_data).max(), np.abs(gap_copy).max()) / size
        if residual <= RESIDUAL:
            break
        dual_data += penalty * gap_data
        dual_copy += penalty * gap_copy
        penalty = min(penalty_growth * penalty, LARGEST_PENALTY)
    return basis, z, float(residual)


def _shrink_singular_values(matrix: Coefficients, by: float) -> Coefficients:
    """The proximal map of the nuclear norm, from the rank x rank Gram matrix."""
    squared, vectors = np.linalg.eigh(matrix @ matrix.T)
    values = np.sqrt(np.maximum(squared, 0))
    kept = values > by
    vectors, values = vectors[:, kept], values[kept]
    return (vectors * (1 - by / values)) @ (vectors.T @ matrix)


def _shrink_columns(matrix: Coefficients, by: float) -> Coefficients:
    """The proximal map of the sum of the columns' lengths."""
    lengths = np.linalg.norm(matrix, axis=0)
    factor = np.divide(by, lengths, out=np.ones_like(lengths), where=lengths > by)
    return matrix * (1 - factor)
