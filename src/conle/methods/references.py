"""Reference rows: what is recovered without learning anything from the features.

A method that cannot beat them has not shown that its features help.
"""

from collections.abc import Mapping
from functools import lru_cache
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from scipy.special import softmax
from sklearn.utils._param_validation import Interval

from conle.core.binarisation import binarise
from conle.methods.contract import Features, InductiveEnhancer, LogicalLabels, Recovered


class Uniform(InductiveEnhancer):
    """Every label describes every sample equally: 1/c."""

    def _fit(self, features: Features, logical_labels: LogicalLabels) -> None:
        pass

    def _transform(self, features: Features, logical_labels: LogicalLabels) -> Recovered:
        return np.full(logical_labels.shape, 1 / logical_labels.shape[1])


class SoftmaxLabels(InductiveEnhancer):
    """The softmax of the logical labels: e for a relevant label against 1 for an irrelevant one."""

    def _fit(self, features: Features, logical_labels: LogicalLabels) -> None:
        pass

    def _transform(self, features: Features, logical_labels: LogicalLabels) -> Recovered:
        return softmax(logical_labels, axis=1)


class LabelPosterior(InductiveEnhancer):
    """Posterior mean of the distribution given only how many labels of a sample are relevant.

    D has a symmetric Dirichlet(a) prior, a chosen by maximum likelihood of the observed numbers
    of relevant labels under the binarisation (of several such a, as where all samples have one
    number, the nearest to 1, the uniform Dirichlet). A sample with k relevant labels is recovered
    as M_k / k for each of them and (1 - M_k) / (c - k) for each other, where
    M_k = E[mass of the k largest degrees | binarising gives k relevant labels].

    Both expectations are taken over the same Monte Carlo draws for every fit with one seed. A k
    that binarising does not produce at the chosen a takes M_k from the nearest a on the grid at
    which it does; one that it cannot produce at all (none or nearly all labels relevant) carries
    no information and is recovered as uniform.

    Args:
        threshold: T of the binarisation, between 0 and 1.
        draws: Monte Carlo draws for each value of a.
        smallest_concentration: smallest a tried.
        largest_concentration: largest a tried.
        concentrations: how many values of a are tried, evenly spaced in log a.
        seed: of the Monte Carlo draws.

    Attributes:
        concentration_: the chosen a.
        relevant_mass_: M_k for k = 0 to c (shape c + 1; k / c where k carries no information).
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "threshold": [Interval(Real, 0, 1, closed="neither")],
        "draws": [Interval(Integral, 1, None, closed="left")],
        "smallest_concentration": [Interval(Real, 0, None, closed="neither")],
        "largest_concentration": [Interval(Real, 0, None, closed="neither")],
        "concentrations": [Interval(Integral, 2, None, closed="left")],
        "seed": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        *,
        threshold: float = 0.5,
        draws: int = 20_000,
        smallest_concentration: float = 0.1,
        largest_concentration: float = 1000.0,
        concentrations: int = 61,
        seed: int = 0,
    ) -> None:
        self.threshold = threshold
        self.draws = draws
        self.smallest_concentration = smallest_concentration
        self.largest_concentration = largest_concentration
        self.concentrations = concentrations
        self.seed = seed

    def check_hyperparameters(self) -> None:
        """See `LabelEnhancer.check_hyperparameters`."""
        super().check_hyperparameters()
        if not self.smallest_concentration < self.largest_concentration:
            raise ValueError(
                f"smallest_concentration ({self.smallest_concentration}) must be below "
                f"largest_concentration ({self.largest_concentration})"
            )

    def _fit(self, features: Features, logical_labels: LogicalLabels) -> None:
        labels = logical_labels.shape[1]
        observed = np.bincount(logical_labels.sum(axis=1).astype(int), minlength=labels + 1)
        concentrations = np.geomspace(
            self.smallest_concentration, self.largest_concentration, self.concentrations
        )
        drawn, mass = _drawn_relevant_counts(
            labels, self.threshold, self.draws, tuple(concentrations), self.seed
        )
        # Half a draw keeps a k that was not drawn possible, and unlikely.
        probabilities = (drawn + 0.5) / (drawn + 0.5).sum(axis=1, keepdims=True)
        likelihood = np.log(probabilities) @ observed
        best = min(
            np.flatnonzero(likelihood == likelihood.max()),
            key=lambda index: abs(np.log(concentrations[index])),
        )
        self.concentration_ = float(concentrations[best])
        self.relevant_mass_ = np.arange(labels + 1) / labels
        for k in range(1, labels):
            possible = np.flatnonzero(drawn[:, k])
            if len(possible):
                nearest = possible[np.argmin(np.abs(possible - best))]
                self.relevant_mass_[k] = mass[nearest, k] / drawn[nearest, k]

    def _get_weights(self) -> dict[str, np.ndarray]:
        return {
            "concentration": np.array(self.concentration_),
            "relevant_mass": self.relevant_mass_,
        }

    def _set_weights(self, weights: Mapping[str, np.ndarray], features: int, labels: int) -> None:
        self.concentration_ = float(weights["concentration"])
        self.relevant_mass_ = weights["relevant_mass"]

    def _transform(self, features: Features, logical_labels: LogicalLabels) -> Recovered:
        labels = logical_labels.shape[1]
        k = logical_labels.sum(axis=1, keepdims=True)
        relevant_mass = self.relevant_mass_[k.astype(int)]
        # Rows of all relevant (or all irrelevant) labels have no label to divide the rest among.
        recovered = np.where(
            logical_labels == 1,
            relevant_mass / np.maximum(k, 1),
            (1 - relevant_mass) / np.maximum(labels - k, 1),
        )
        return recovered / recovered.sum(axis=1, keepdims=True)


@lru_cache(maxsize=32)
def _drawn_relevant_counts(
    labels: int, threshold: float, draws: int, concentrations: tuple[float, ...], seed: int
) -> tuple[Float[np.ndarray, "grid counts"], Float[np.ndarray, "grid counts"]]:
    """How often k labels are relevant, and the summed mass of those, for each concentration.

    Kept from fit to fit: it depends on the number of labels, not on the samples.
    """
    generator = np.random.default_rng(seed)
    counts = np.zeros((len(concentrations), labels + 1))
    masses = np.zeros_like(counts)
    for row, concentration in enumerate(concentrations):
        distributions = generator.dirichlet(np.full(labels, concentration), size=draws)
        relevant = binarise(distributions, threshold)
        k = relevant.sum(axis=1)
        mass = (distributions * relevant).sum(axis=1)
        counts[row] = np.bincount(k, minlength=labels + 1)
        masses[row] = np.bincount(k, weights=mass, minlength=labels + 1)
    return counts, masses
