"""LP: label propagation.

Source: Li, Zhang, Geng, "Leveraging implicit relative labeling-importance information for
effective multi-label learning", ICDM 2015; as a label enhancement method in Xu, Liu, Geng,
"Label enhancement for label distribution learning", TKDE 2021.
"""

import numpy as np

from conle.core.hyperparameters import Share
from conle.methods.contract import Features, LogicalLabels, Recovered, TransductiveEnhancer
from conle.methods.geometry import as_distributions, gaussian, raw_distances

# Each step reduces the error by the factor alpha, so this is the fixed point up to rounding.
TOLERANCE = 1e-12


class LP(TransductiveEnhancer):
    """Propagate the logical labels over the graph of all samples.

    With A = exp(-|x_i - x_j|^2 / 2) on the raw features, its diagonal zero, and
    P = R^-1/2 A R^-1/2, R the row sums of A, recovers the fixed point of
    F = alpha P F + (1 - alpha) L, divided by its row sums.
    """

    alpha: Share = 0.5
    """Weight of the neighbours against the sample's own labels."""

    def _fit_transform(self, features: Features, logical_labels: LogicalLabels) -> Recovered:
        propagation = gaussian(raw_distances(features)[0], width=1.0)
        np.fill_diagonal(propagation, 0.0)
        sums = propagation.sum(axis=1)
        # A sample far from all others has a row of zeros and keeps its own labels.
        scale = np.divide(1.0, np.sqrt(sums), out=np.zeros_like(sums), where=sums > 0)
        propagation *= scale[:, None]
        propagation *= scale
        recovered = logical_labels
        while True:
            following = self.alpha * (propagation @ recovered) + (1 - self.alpha) * logical_labels
            change = np.abs(following - recovered).max()
            recovered = following
            if change <= TOLERANCE:
                return as_distributions(recovered)
