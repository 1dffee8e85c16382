"""Reference rows: methods that learn nothing from the features.

A method that cannot beat them has not shown that the features help it.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated

import numpy as np
from jaxtyping import Float
from pydantic import Field
from scipy.special import softmax

from conle.core.binarisation import binarise
from conle.core.hyperparameters import NonNegativeInt, PositiveFloat, PositiveInt, Threshold
from conle.methods.contract import Features, InductiveEnhancer, LogicalLabels, Recovered

# Degrees of the label posterior that are drawn at once; they stay in the cache.
DEGREES_AT_ONCE = 250_000


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

    D has a symmetric Dirichlet(a) prior. The value of a maximises the likelihood of the observed
    numbers of relevant labels under the binarisation; among several maxima, for example if
    all samples have one number, it is the one nearest to 1, the uniform Dirichlet. A sample with k
    relevant labels is recovered as M_k / k for each of them and (1 - M_k) / (c - k) for each other,
    where M_k = E[mass of the k largest degrees | binarising gives k relevant labels].

    Both expectations come from the same Monte Carlo draws for every fit with one seed. Where no
    draw at the chosen a has k relevant labels, M_k comes from the nearest a at which one has. A
    k that no draw has at any a (none or nearly all labels relevant) carries no information and
    is recovered as uniform.

    Attributes:
        concentration_: the chosen a.
        relevant_mass_: M_k for k = 0 to c (shape c + 1; k / c where k carries no information).
    """

    threshold: Threshold = 0.5
    """T of the binarisation."""
    draws: PositiveInt = 20_000
    """Monte Carlo draws for each value of a."""
    smallest_concentration: PositiveFloat = 0.1
    """Smallest value of a that is tried."""
    largest_concentration: PositiveFloat = 1000.0
    """Largest value of a that is tried."""
    concentrations: Annotated[int, Field(ge=2)] = 61
    """Number of values of a that are tried, evenly spaced in log a."""
    seed: NonNegativeInt = 0
    """Seed of the Monte Carlo draws."""

    def check_hyperparameters(self) -> None:
        """Check each hyperparameter and their combinations; see `Hyperparameters`."""
        super().check_hyperparameters()
        if not self.smallest_concentration < self.largest_concentration:
            raise ValueError(
                f"{type(self).__name__}: smallest_concentration ({self.smallest_concentration}) "
                f"must be below largest_concentration ({self.largest_concentration})"
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
        # Half a draw is added, so that a k that was not drawn stays possible but unlikely.
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

    def sample(
        self, logical_labels: LogicalLabels, number: int, generator: np.random.Generator
    ) -> Float[np.ndarray, "draws samples labels"]:
        """Draw distributions given logical labels.

        Args:
            logical_labels: L, samples x labels.
            number: draws for each sample.
            generator: draws them.

        Returns:
            Draws of Dirichlet(a) whose binarisation gives the labels. Where none of the Monte Carlo
            draws has as many relevant labels, all draws are the posterior mean.
        """
        means = self._transform(logical_labels, logical_labels)
        labels = means.shape[1]
        drawn = np.sort(
            generator.dirichlet(np.full(labels, self.concentration_), size=self.draws), axis=1
        )[:, ::-1]
        counts = binarise(drawn, self.threshold).sum(axis=1)
        result = np.repeat(means[None], number, axis=0)
        for row, relevant in enumerate(logical_labels == 1):
            k = int(relevant.sum())
            possible = np.flatnonzero(counts == k)
            if len(possible):
                own = drawn[generator.choice(possible, number)]
                result[:, row, relevant] = generator.permuted(own[:, :k], axis=1)
                result[:, row, ~relevant] = generator.permuted(own[:, k:], axis=1)
        return result

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
        # A row whose labels are all relevant (or irrelevant) has no label to divide the rest among.
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
    """Count draws with k relevant labels and sum their relevant mass, for each concentration.

    The result is cached: it depends on the number of labels, not on the samples.
    """
    generator = np.random.default_rng(seed)
    counts = np.zeros((len(concentrations), labels + 1))
    masses = np.zeros_like(counts)
    at_once = max(1, DEGREES_AT_ONCE // labels)
    for row, concentration in enumerate(concentrations):
        for begin in range(0, draws, at_once):
            degrees = generator.dirichlet(
                np.full(labels, concentration), size=min(at_once, draws - begin)
            )
            # `binarise` finds which labels are relevant; how many needs a faster sort.
            degrees.sort(axis=1)
            mass = degrees[:, ::-1].cumsum(axis=1)
            k = 1 + (mass[:, :-1] <= threshold).sum(axis=1)
            relevant_mass = mass[np.arange(len(k)), k - 1]
            counts[row] += np.bincount(k, minlength=labels + 1)
            masses[row] += np.bincount(k, weights=relevant_mass, minlength=labels + 1)
    return counts, masses
