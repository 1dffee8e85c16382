"""GLLE: graph Laplacian label enhancement.

Source: Xu, Liu, Geng, "Label enhancement for label distribution learning", TKDE 2021.
"""

from numbers import Integral, Real
from typing import ClassVar

import numpy as np
import scipy.sparse
from sklearn.neighbors import NearestNeighbors
from sklearn.utils._param_validation import Interval

from conle.methods.contract import Features, LogicalLabels, Recovered, TransductiveEnhancer
from conle.methods.geometry import kept_by_content, standardised
from conle.methods.graph_regression import kernel_design, regress


class GLLE(TransductiveEnhancer):
    """Kernel regression of the logical labels, smooth over the graph of nearest neighbours.

    With the standardised features' Phi = [exp(-distance^2 / (2 w^2)), 1], w the mean distance of
    two samples, minimises |Phi W - L|^2 + lambda tr((Phi W)' G (Phi W)) and recovers the softmax
    of Phi W. G is the Laplacian of the symmetrised graph of the c + 1 nearest neighbours (the
    sample itself among them, its loop removed), weights exp(-distance^2 / (2 sigma^2)).

    Args:
        lambda_: weight of the smoothness over the graph.
        sigma: width of the graph's weights.
        iterations: of L-BFGS at most.
        tolerance: relative decrease of the objective, and projected gradient, to stop at.
        seed: of the initial W.
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "lambda_": [Interval(Real, 0, None, closed="left")],
        "sigma": [Interval(Real, 0, None, closed="neither")],
        "iterations": [Interval(Integral, 1, None, closed="left")],
        "tolerance": [Interval(Real, 0, None, closed="left")],
        "seed": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        *,
        lambda_: float = 0.01,
        sigma: float = 10.0,
        iterations: int = 200,
        tolerance: float = 1e-6,
        seed: int = 0,
    ) -> None:
        self.lambda_ = lambda_
        self.sigma = sigma
        self.iterations = iterations
        self.tolerance = tolerance
        self.seed = seed

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


@kept_by_content(most=8)
def graph_laplacian(features: Features, neighbours: int, sigma: float) -> scipy.sparse.csr_array:
    """Laplacian of the symmetrised graph of nearest neighbours, the sample itself counted."""
    graph = (
        NearestNeighbors(n_neighbors=neighbours)
        .fit(features)
        .kneighbors_graph(features, mode="distance")
    )
    graph.data = np.exp(-(graph.data**2) / (2 * sigma**2))
    graph = graph.maximum(graph.T).tolil()
    graph.setdiag(0)
    return scipy.sparse.csr_array(scipy.sparse.csgraph.laplacian(graph.tocsr()))
