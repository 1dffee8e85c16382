"""FCM: fuzzy c-means.

Source: El Gayar, Schwenker, Palm, "A study of the robustness of KNN classifiers trained using
soft labels", ANNPR 2006; as a label enhancement method in Xu, Liu, Geng, "Label enhancement for
label distribution learning", TKDE 2021.
"""

from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from scipy.spatial.distance import cdist
from sklearn.utils._param_validation import Interval, StrOptions

from conle.methods.contract import Features, LogicalLabels, Recovered, TransductiveEnhancer
from conle.methods.geometry import as_distributions

Memberships = Float[np.ndarray, "samples clusters"]
# Samples composed at a time: the composition has samples x labels x clusters terms.
BLOCK = 512


class FCM(TransductiveEnhancer):
    """Degrees from the labels of the fuzzy clusters that a sample belongs to.

    Fuzzy c-means on the features gives memberships m (samples x clusters). The association of
    label j with a cluster is the sum of the memberships of the samples with label j; its columns
    and then its rows are divided by their sums. Composed with the memberships it gives the
    degrees, whose rows are divided by their sums.

    Args:
        clusters_per_label: clusters for each label; never more clusters than samples.
        fuzzifier: exponent of the memberships, above 1.
        composition: of the fuzzy relations: "max_min" (the usual one), "max_product" or
            "sum_product". The papers leave it open.
        iterations: at most so many.
        tolerance: stop when no membership changes by more.
        seed: of the initial memberships.
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "clusters_per_label": [Interval(Integral, 1, None, closed="left")],
        "fuzzifier": [Interval(Real, 1, None, closed="neither")],
        "composition": [StrOptions({"max_min", "max_product", "sum_product"})],
        "iterations": [Interval(Integral, 1, None, closed="left")],
        "tolerance": [Interval(Real, 0, None, closed="left")],
        "seed": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        *,
        clusters_per_label: int = 10,
        fuzzifier: float = 2.0,
        composition: str = "max_min",
        iterations: int = 300,
        tolerance: float = 1e-5,
        seed: int = 0,
    ) -> None:
        self.clusters_per_label = clusters_per_label
        self.fuzzifier = fuzzifier
        self.composition = composition
        self.iterations = iterations
        self.tolerance = tolerance
        self.seed = seed

    def _fit_transform(self, features: Features, logical_labels: LogicalLabels) -> Recovered:
        samples, labels = logical_labels.shape
        clusters = min(self.clusters_per_label * labels, samples)
        start = np.random.default_rng(self.seed).random((samples, clusters))
        memberships = fuzzy_c_means(
            features,
            start / start.sum(axis=1, keepdims=True),
            self.fuzzifier,
            self.iterations,
            self.tolerance,
        )
        return associate(memberships, logical_labels, self.composition)


def fuzzy_c_means(
    features: Features,
    memberships: Memberships,
    fuzzifier: float,
    iterations: int,
    tolerance: float,
) -> Memberships:
    """Alternate between the weighted centres of the clusters and the memberships in them.

    Args:
        features: samples x features.
        memberships: to start from, rows sum to 1.
        fuzzifier: exponent of the memberships, above 1.
        iterations: at most so many.
        tolerance: stop when no membership changes by more.

    Returns:
        The memberships, rows sum to 1. A sample at a centre belongs to it (and to others there).
    """
    centres = np.zeros((memberships.shape[1], features.shape[1]))
    for _ in range(iterations):
        # Relative to the largest of a cluster, so that no power is lost.
        largest = memberships.max(axis=0)
        weights = (memberships / np.where(largest > 0, largest, 1)) ** fuzzifier
        # A cluster that has no members stays where it is.
        np.divide(
            weights.T @ features,
            weights.sum(axis=0)[:, None],
            out=centres,
            where=(largest > 0)[:, None],
        )
        distance = cdist(features, centres)
        nearest = distance.min(axis=1, keepdims=True)
        # Relative to the nearest centre, so that no power overflows.
        with np.errstate(invalid="ignore", divide="ignore"):
            closeness = np.where(
                distance == nearest, 1.0, (nearest / distance) ** (2 / (fuzzifier - 1))
            )
        updated = closeness / closeness.sum(axis=1, keepdims=True)
        change = np.abs(updated - memberships).max()
        memberships = updated
        if change <= tolerance:
            break
    return memberships


def associate(
    memberships: Memberships, logical_labels: LogicalLabels, composition: str
) -> Recovered:
    """Associate labels with clusters and compose that with the memberships."""
    association = logical_labels.T @ memberships
    for axis in (0, 1):
        sums = association.sum(axis=axis, keepdims=True)
        association = np.divide(association, sums, out=np.zeros_like(association), where=sums > 0)
    if composition == "sum_product":
        return as_distributions(memberships @ association.T)
    combine = np.minimum if composition == "max_min" else np.multiply
    degrees = np.empty_like(logical_labels)
    for start in range(0, len(memberships), BLOCK):
        rows = slice(start, start + BLOCK)
        degrees[rows] = combine(memberships[rows, None, :], association).max(axis=2)
    return as_distributions(degrees)
