"""FCM: fuzzy c-means.

Source: El Gayar, Schwenker, Palm, "A study of the robustness of KNN classifiers trained using
soft labels", ANNPR 2006; as a label enhancement method in Xu, Liu, Geng, "Label enhancement for
label distribution learning", TKDE 2021.
"""

from typing import Annotated, Literal

import numpy as np
from jaxtyping import Float
from pydantic import Field
from scipy.spatial.distance import cdist

from conle.core.hyperparameters import NonNegativeFloat, NonNegativeInt, PositiveInt
from conle.methods.contract import Features, LogicalLabels, Recovered, TransductiveEnhancer
from conle.methods.geometry import as_distributions

Memberships = Float[np.ndarray, "samples clusters"]
# Samples composed at a time; the composition has samples x labels x clusters terms.
BLOCK = 512


class FCM(TransductiveEnhancer):
    """Degrees from the labels of the fuzzy clusters that a sample belongs to.

    Fuzzy c-means on the features gives memberships m (samples x clusters). The association of
    label j with a cluster is the sum of the memberships of the samples with label j; its columns
    and then its rows are divided by their sums. Its composition with the memberships gives the
    degrees, whose rows are divided by their sums.
    """

    clusters_per_label: PositiveInt = 10
    """Clusters for each label; there are never more clusters in all than samples."""
    fuzzifier: Annotated[float, Field(gt=1)] = 2.0
    """Exponent of the memberships."""
    composition: Literal["max_min", "max_product", "sum_product"] = "max_min"
    """Composition of the fuzzy relations; the papers leave it open, max_min is the usual one."""
    iterations: PositiveInt = 300
    """Largest number of iterations of fuzzy c-means."""
    tolerance: NonNegativeFloat = 1e-5
    """Fuzzy c-means stops when no membership changes by more."""
    seed: NonNegativeInt = 0
    """Seed of the initial memberships."""

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
        memberships: initial memberships, rows sum to 1.
        fuzzifier: exponent of the memberships, above 1.
        iterations: largest number of iterations.
        tolerance: the method stops when no membership changes by more.

    Returns:
        The memberships, rows sum to 1. A sample at a centre belongs only to the clusters there.
    """
    centres = np.zeros((memberships.shape[1], features.shape[1]))
    for _ in range(iterations):
        # Memberships are relative to the largest one of a cluster, so that no power underflows.
        largest = memberships.max(axis=0)
        weights = (memberships / np.where(largest > 0, largest, 1)) ** fuzzifier
        # A cluster without members stays where it is.
        np.divide(
            weights.T @ features,
            weights.sum(axis=0)[:, None],
            out=centres,
            where=(largest > 0)[:, None],
        )
        distance = cdist(features, centres)
        nearest = distance.min(axis=1, keepdims=True)
        # Distances are relative to the nearest centre, so that no power overflows.
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
    """Associate labels with clusters and compose the association with the memberships.

    Args:
        memberships: samples x clusters.
        logical_labels: samples x labels.
        composition: a value of `FCM.composition`.

    Returns:
        Recovered distributions, samples x labels.
    """
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
