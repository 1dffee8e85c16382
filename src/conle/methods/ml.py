"""ML: multi-label manifold learning.

Source: Hou, Geng, Zhang, "Multi-label manifold learning", AAAI 2016; as a label enhancement method
in Xu, Liu, Geng, "Label enhancement for label distribution learning", TKDE 2021.
"""

import numpy as np
import scipy.sparse.linalg
from jaxtyping import Bool, Float
from scipy.optimize import minimize
from scipy.special import softmax
from sklearn.neighbors import NearestNeighbors

from conle.core.hyperparameters import NonNegativeFloat, PositiveFloat, PositiveInt
from conle.methods.contract import Features, LogicalLabels, Recovered, TransductiveEnhancer

# Samples whose differences from their neighbours are in memory at a time.
BLOCK = 256
# L-BFGS remembers so many steps; with its usual ten it takes several times as many iterations.
REMEMBERED_STEPS = 50


class ML(TransductiveEnhancer):
    """Numerical labels on the manifold of the features, at least lambda from 0.

    W holds the weights, with sum one, that reconstruct each sample from its c + 1 nearest
    neighbours. The numerical labels mu of a label minimise |mu - W mu|^2 where mu >= lambda for the
    samples with the label and mu <= -lambda for the others, a quadratic programme per label.
    Recovers the softmax of the numerical labels. They are negative for irrelevant labels, so a
    division by their sum would give no distribution.
    """

    lambda_: PositiveFloat = 1.0
    """Smallest size of a numerical label; all of them are proportional to it."""
    regularisation: PositiveFloat = 1e-3
    """Added to the diagonal of the Gram matrix of a sample's neighbours, relative to its trace."""
    iterations: PositiveInt = 5000
    """Largest number of iterations of L-BFGS-B for a label."""
    tolerance: NonNegativeFloat = 1e-12
    """Relative decrease of the objective, and projected gradient, at which L-BFGS-B stops."""

    def _fit_transform(self, features: Features, logical_labels: LogicalLabels) -> Recovered:
        neighbours = min(logical_labels.shape[1] + 1, len(features) - 1)
        weights = reconstruction_weights(features, neighbours, self.regularisation)
        numerical = [
            numerical_labels(weights, relevant, self.iterations, self.tolerance)
            for relevant in logical_labels.T == 1
        ]
        return softmax(self.lambda_ * np.column_stack(numerical), axis=1)


def reconstruction_weights(
    features: Features, neighbours: int, regularisation: float
) -> scipy.sparse.csr_array:
    """Weights that reconstruct each sample from its nearest neighbours, as in LLE.

    With G the Gram matrix of the neighbours' differences from the sample, the weights solve
    (G / tr G + regularisation I) w = 1 and are divided by their sum.

    Args:
        features: X, samples x features.
        neighbours: number of neighbours of a sample, itself not included; from 0.
        regularisation: added to the diagonal, relative to the trace.

    Returns:
        W, samples x samples; rows sum to one, or are zero without neighbours.
    """
    samples = len(features)
    if neighbours == 0:
        return scipy.sparse.csr_array((samples, samples))
    nearest = (
        NearestNeighbors(n_neighbors=neighbours).fit(features).kneighbors(return_distance=False)
    )
    weights = np.empty((samples, neighbours))
    for start in range(0, samples, BLOCK):
        rows = slice(start, start + BLOCK)
        difference = features[nearest[rows]] - features[rows, None]
        gram = difference @ difference.mT
        trace = np.trace(gram, axis1=1, axis2=2)[:, None, None]
        # The trace is zero where all neighbours equal the sample; their weights are then equal.
        gram /= np.where(trace > 0, trace, 1.0)
        gram += regularisation * np.eye(neighbours)
        weights[rows] = np.linalg.solve(gram, np.ones((len(gram), neighbours, 1)))[..., 0]
    weights /= weights.sum(axis=1, keepdims=True)
    starts = np.arange(0, samples * neighbours + 1, neighbours)
    return scipy.sparse.csr_array((weights.ravel(), nearest.ravel(), starts), (samples, samples))


def numerical_labels(
    weights: scipy.sparse.csr_array,
    relevant: Bool[np.ndarray, " samples"],
    iterations: int,
    tolerance: float,
) -> Float[np.ndarray, " samples"]:
    """Minimise |mu - W mu|^2 with mu >= 1 for relevant samples and mu <= -1 for the others.

    Args:
        weights: W, samples x samples, with a zero diagonal.
        relevant: samples that have the label, as booleans.
        iterations: largest number of iterations of L-BFGS-B.
        tolerance: relative decrease of the objective, and projected gradient, at which it stops.

    Returns:
        mu of each sample, for lambda = 1 in constraint 3 of the paper.
    """
    residual = scipy.sparse.eye_array(len(relevant), format="csr") - weights
    # With columns of length one, L-BFGS takes fewer iterations. No column is zero.
    lengths = scipy.sparse.linalg.norm(residual, axis=0)
    residual = scipy.sparse.csr_array(residual / lengths)
    transposed = residual.T.tocsr()

    def objective(scaled: Float[np.ndarray, " samples"]) -> tuple[float, np.ndarray]:
        error = residual @ scaled
        return error @ error, 2 * (transposed @ error)

    start = np.where(relevant, lengths, -lengths)
    found = minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=np.column_stack(
            [np.where(relevant, start, -np.inf), np.where(relevant, np.inf, start)]
        ),
        options={
            "maxiter": iterations,
            "ftol": tolerance,
            "gtol": tolerance,
            "maxcor": REMEMBERED_STEPS,
        },
    )
    return found.x / lengths
