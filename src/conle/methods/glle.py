"""GLLE: graph Laplacian label enhancement.

Source: Xu, Liu, Geng, "Label enhancement for label distribution learning", TKDE 2021.
"""

import numpy as np
import scipy.sparse
from sklearn.neighbors import NearestNeighbors

from conle.core.hyperparameters import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
)
from conle.methods.contract import Features, LogicalLabels, Recovered, TransductiveEnhancer
from conle.methods.geometry import cached_by_content, standardised
from conle.methods.graph_regression import kernel_design, regress


class GLLE(TransductiveEnhancer):
    """Kernel regression of the logical labels, smooth over the graph of nearest neighbours.

    With Phi = [exp(-distance^2 / (2 w^2)), 1] of the standardised features, w the mean distance of
    two samples, minimises |Phi W - L|^2 + lambda tr((Phi W)' G (Phi W)) and recovers the softmax
    of Phi W. G is the Laplacian of the symmetrised graph of the c + 1 nearest neighbours (the
    sample itself is one of them, its loop is removed), weights exp(-distance^2 / (2 sigma^2)).
    """

    lambda_: NonNegativeFloat = 0.01
    """Weight of the smoothness over the graph."""
    sigma: PositiveFloat = 10.0
    """Width of the graph's weights."""
    iterations: PositiveInt = 200
    """Largest number of iterations of L-BFGS."""
    tolerance: NonNegativeFloat = 1e-6
    """Relative decrease of the objective, and projected gradient, at which L-BFGS stops."""
    seed: NonNegativeInt = 0
    """Seed of the initial W."""

    def _fit_transform(self, features: Features, logical_labels: LogicalLabels) -> Recovered:
        features = standardised(features)
        neighbours = min(logical_labels.shape[1] + 1, len(features))
        laplacian = graph_laplacian(features, neighbours, self.sigma)

        def smoothness(predictions: np.ndarray) -> tuple[float, np.ndarray]:
            smoothed = predictions @ laplacian
            return (predictions * smoothed).sum(), 2 * smoothed

        return regress(
            kernel_design(features),
            logical_labels,
            smoothness,
            self.lambda_,
            self.iterations,
            self.tolerance,
            self.seed,
        )


@cached_by_content(maxsize=8)
def graph_laplacian(features: Features, neighbours: int, sigma: float) -> scipy.sparse.csr_array:
    """Laplacian of the symmetrised graph of nearest neighbours.

    Args:
        features: samples x features.
        neighbours: number of neighbours of a sample, itself included.
        sigma: width of the weights exp(-distance^2 / (2 sigma^2)).

    Returns:
        The Laplacian, samples x samples.
    """
    graph = (
        NearestNeighbors(n_neighbors=neighbours)
        .fit(features)
        .kneighbors_graph(features, mode="distance")
    )
    graph.data = np.exp(-(graph.data**2) / (2 * sigma**2))
    graph = graph.maximum(graph.T).tolil()
    graph.setdiag(0)
    return scipy.sparse.csr_array(scipy.sparse.csgraph.laplacian(graph.tocsr()))
