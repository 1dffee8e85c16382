"""KM: the kernel method.

Source: Jiang, Yi, Lv, "Fuzzy SVM with a new fuzzy membership function", Neural Computing and
Applications 2006; as a label enhancement method in Xu, Liu, Geng, "Label enhancement for label
distribution learning", TKDE 2021.
"""

import numpy as np

from conle.core.hyperparameters import PositiveFloat
from conle.methods.contract import Features, LogicalLabels, Recovered, TransductiveEnhancer
from conle.methods.geometry import as_distributions, gaussian, raw_distances

# Rows of the kernel in memory at a time.
BLOCK = 1024


class KM(TransductiveEnhancer):
    """Degrees from distances, in kernel space, to the centre of the samples with a label.

    The kernel is exp(-distance^2 / (2 w^2)) on the raw features, w the mean distance of two
    samples. The centre of label j is the mean of its samples, the squared radius the largest
    squared distance of one of them to the centre. A sample with the label has the degree
    1 - sqrt(distance^2 / (radius^2 + delta)), a sample without it exactly 0. Rows are divided by
    their sums.
    """

    delta: PositiveFloat = 0.01
    """Keeps the degree of a sample on the radius above 0."""

    def _fit_transform(self, features: Features, logical_labels: LogicalLabels) -> Recovered:
        distance, width = raw_distances(features)
        centres = logical_labels / np.maximum(logical_labels.sum(axis=0), 1)
        similarity = np.empty_like(logical_labels)
        for start in range(0, len(features), BLOCK):
            rows = slice(start, start + BLOCK)
            similarity[rows] = gaussian(distance[rows], width) @ centres
        # |phi(x) - centre|^2 = K(x, x) - 2 <phi(x), centre> + |centre|^2, and K(x, x) = 1.
        squared_norms = (centres * similarity).sum(axis=0)
        squared = np.maximum(1 - 2 * similarity + squared_norms, 0)
        squared_radius = np.where(logical_labels == 1, squared, 0).max(axis=0)
        degrees = 1 - np.sqrt(squared / (squared_radius + self.delta))
        return as_distributions(np.where(logical_labels == 1, degrees, 0.0))
