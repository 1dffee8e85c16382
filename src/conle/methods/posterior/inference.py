"""Posterior inference for several folds, given representations of the features."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from conle.core.binarisation import binarise
from conle.methods.contract import LogicalLabels, ProgressCallback, Rows, Split, progress
from conle.methods.posterior.label_checks import uniform_rows
from conle.methods.posterior.sampler import (
    Coefficients,
    LatentDegrees,
    fit_coefficients,
    sample_distributions,
)
from conle.methods.posterior.threshold_model import start_ratios
from conle.methods.seeds import spawned

Represented = Float[np.ndarray, "samples dimensions"]
# The chains of a fold are side by side.
Draw = Float[Tensor, "folds_x_chains labels samples"]
T = TypeVar("T")

# Neighbouring chains start apart by this factor, in the variance of their log weights and in the
# distance of their level from the lowest one.
DISPERSION = 2.0
# Increase of log s between the halves of the kept sweeps.
CLIMB = 0.1
# Samples of all chains that are sampled at once. With fewer, the overhead of calls dominates; more
# do not fit into a CPU's cache.
CHUNK_SAMPLES_ON_CPU = 40_000
CHUNK_SAMPLES_ON_GPU = 1_000_000
# Parts of the progress in all, and parts for learning the representations.
PROGRESS_PARTS, LEARNING_PARTS = 1000, 300
# Fewer samples are not worth sharing between two cores: threads then mostly wait for each other.
SHARED_SAMPLES = 20_000


@dataclass(frozen=True)
class Inference:
    """Runs the decoder's two Gibbs samplers, one for its coefficients and one for distributions.

    Every fold has independent chains, which start apart. Each chain has a W and a Sigma of its own,
    fitted to its own choice of training samples. All folds have equal numbers of samples.
    Representations, logical labels and seeds are given as one per fold.

    Attributes:
        threshold: T, or None where labels only order the degrees.
        degree_floor: phi.
        start_level: factor of the weights around which the chains start.
        scale_prior: tau of the half-normal prior.
        sweeps: sweeps of the Gibbs sampler.
        burn_in: number of first sweeps that are discarded.
        chains: chains of each fold.
        chain_rows: largest number of training samples of a chain.
        device: samples are drawn there.
    """

    threshold: float | None
    degree_floor: float
    start_level: float
    scale_prior: float
    sweeps: int
    burn_in: int
    chains: int
    chain_rows: int
    device: torch.device

    def fit(
        self,
        representations: Sequence[Represented],
        logical_labels: Sequence[LogicalLabels],
        start_variances: Sequence[float],
        seeds: Sequence[np.random.SeedSequence],
        on_sweep: Callable[[], None] | None = None,
    ) -> Iterator[Coefficients]:
        """Sample the coefficients given the training samples; one result per sweep.

        Args:
            representations: of the training samples.
            logical_labels: of the training samples.
            start_variances: around which the log weights of the chains start.
            seeds: of the folds.
            on_sweep: called after each sweep.
        """
        seeds_of_rows, own = zip(
            *(spawned(seed, 2) for seed in self.seeds_of_chains(seeds)), strict=True
        )
        samples = len(logical_labels[0])
        rows = [
            np.sort(np.random.default_rng(seed).permutation(samples)[: self.chain_rows])
            for seed in seeds_of_rows
        ]

        def chosen(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
            repeated = self.for_each_chain(arrays)
            return [array[choice] for array, choice in zip(repeated, rows, strict=True)]

        variances = np.outer(start_variances, self._factors()).ravel()
        return fit_coefficients(
            self._start(chosen(logical_labels)),
            with_intercept(chosen(representations)).to(self.device),
            self.scale_prior,
            torch.from_numpy(variances).to(self.device),
            own,
            self.sweeps,
            on_sweep or self.sweep_counter(),
        )

    def draws(
        self,
        representations: Sequence[Represented],
        logical_labels: Sequence[LogicalLabels],
        coefficients: Iterable[Coefficients],
        seeds: Sequence[np.random.SeedSequence],
        on_sweep: Callable[[], None] | None = None,
    ) -> Iterator[Draw]:
        """Sample the distributions of any samples along the coefficients of every sweep."""
        return sample_distributions(
            self._start(self.for_each_chain(logical_labels)),
            with_intercept(self.for_each_chain(representations)).to(self.device),
            coefficients,
            self.seeds_of_chains(seeds),
            self.sweeps,
            self.burn_in,
            on_sweep or self.sweep_counter(),
        )

    def mean(self, draws: Iterator[Draw]) -> Float[np.ndarray, "folds samples labels"]:
        """The mean over draws and chains; rows sum to 1 up to rounding."""
        total = next(draws).clone()
        number = 1
        for drawn in draws:
            total += drawn
            number += 1
        means = total.reshape(-1, self.chains, *total.shape[1:]).mean(dim=1) / number
        return means.mT.cpu().numpy()

    def draw_labels(
        self,
        representation: Represented,
        coefficients: Coefficients,
        draws: int,
        generator: np.random.Generator,
    ) -> tuple[Float[np.ndarray, "samples labels"], Float[np.ndarray, "samples counts"]]:
        """Draw logical labels of samples of one fold from their features alone.

        Args:
            representation: of the samples.
            coefficients: of the fit, the sweeps first; the draws take the kept ones in turn.
            draws: draws for each sample.
            generator: draws the log weights.

        Returns:
            In how many draws each label is relevant, and in how many 0 to c labels are relevant.
        """
        columns = with_intercept([representation])[0].numpy()
        kept_weights, kept_roots = (
            part[self.burn_in :].cpu().numpy()
            for part in (coefficients.weights, coefficients.inverse_root)
        )
        samples, labels = len(columns), kept_weights.shape[-1]
        relevant, counts = np.zeros((samples, labels)), np.zeros((samples, labels + 1))
        for draw in range(draws):
            present = draw // self.chains % len(kept_weights), draw % self.chains
            noise = generator.standard_normal((samples, labels))
            u = columns @ kept_weights[present]
            u += np.linalg.solve(kept_roots[present].T, noise.T).T
            w = self.degree_floor + np.exp(u)
            drawn = binarise(w / w.sum(axis=1, keepdims=True), self.threshold)
            relevant += drawn
            counts[np.arange(samples), drawn.sum(axis=1)] += 1
        return relevant, counts

    def is_climbing(
        self, variances: Sequence[Float[Tensor, " folds_x_chains"]]
    ) -> Bool[np.ndarray, " folds"]:
        """Whether the overall deviation still climbs in every chain of a fold.

        It climbs if the mean of log s is higher in the second half of the kept sweeps than in the
        first half, by more than 10 %.

        Args:
            variances: s^2 of every chain after every sweep.
        """
        kept = torch.stack(variances[self.burn_in :])
        first, second = (half.log().mean(dim=0) / 2 for half in kept.tensor_split(2))
        climbs = (second - first).reshape(-1, self.chains) > CLIMB
        return climbs.all(dim=1).cpu().numpy()

    def for_each_chain(self, folds: Sequence[T]) -> list[T]:
        """Repeat what belongs to a fold for each of its chains."""
        return [own for own in folds for _ in range(self.chains)]

    def seeds_of_chains(
        self, seeds: Sequence[np.random.SeedSequence]
    ) -> list[np.random.SeedSequence]:
        """The seeds of all chains of the folds."""
        return [own for seed in seeds for own in spawned(seed, self.chains)]

    def sweep_counter(self, chunks: int = 1) -> Callable[[], None]:
        """What reports the sweeps of one fit, or of its draws, if a caller follows the progress.

        Args:
            chunks: parts of the samples, each with all sweeps.
        """
        on_progress, numbers, whole = progress.get(), count(1), chunks * self.sweeps

        def on_sweep() -> None:
            number = next(numbers)
            if on_progress is not None:
                on_progress(number, whole, f"{number} of {whole} sweeps")

        return on_sweep

    def _factors(self) -> Float[np.ndarray, " chains"]:
        """How far the chains of a fold start apart; a single chain has the factor 1."""
        return DISPERSION ** (np.arange(self.chains) - self.chains // 2)

    def _start(self, logical_labels: Sequence[LogicalLabels]) -> LatentDegrees:
        """The start of the sampler for every chain.

        Args:
            logical_labels: one per fold and chain.
        """
        stacked = np.stack(logical_labels)
        folds_and_chains, samples, labels = stacked.shape
        flat = stacked.reshape(-1, labels)
        ordering_only = uniform_rows(flat, self.threshold)
        ratios = start_ratios(flat, self.threshold)
        if ordering_only.any():
            ratios[ordering_only] = start_ratios(flat[ordering_only], None)
        # Below the floor there is no weight, so levels start apart above it. Without a floor the
        # level does not matter.
        lowest = 1.0 if self.degree_floor else 0.0
        levels = lowest + (self.start_level - lowest) * self._factors()
        levels = np.repeat(np.tile(levels, folds_and_chains // self.chains), samples)
        start = ratios * levels[:, None] * (self.degree_floor or 1.0)

        def tensor(values: np.ndarray) -> Tensor:
            stacked = torch.from_numpy(values.reshape(folds_and_chains, samples, labels))
            return stacked.to(self.device).mT.contiguous()

        return LatentDegrees(
            tensor(flat == 1),
            tensor(start),
            self.degree_floor,
            self.threshold,
            torch.from_numpy(ordering_only.reshape(folds_and_chains, samples)).to(self.device)
            if ordering_only.any()
            else None,
        )


def with_intercept(
    representations: Sequence[Represented],
) -> Float[Tensor, "folds samples columns"]:
    """[1, f] of the samples of every fold."""
    stacked = np.stack(representations)
    ones = np.ones((*stacked.shape[:2], 1))
    return torch.from_numpy(np.concatenate([ones, stacked], axis=2))


def parts_of_progress(
    on_progress: ProgressCallback | None, sweeps: int
) -> tuple[ProgressCallback, Callable[[int], None]]:
    """What reports the learning of representations, and what reports the sweeps after it.

    Args:
        on_progress: follows both as one progress; None follows nothing.
        sweeps: number of sweeps in all.
    """

    def learning(done: int, of: int, status: str) -> None:
        if on_progress is not None:
            on_progress(LEARNING_PARTS * done // of, PROGRESS_PARTS, status)

    def count(done: int) -> None:
        if on_progress is not None:
            part = LEARNING_PARTS + (PROGRESS_PARTS - LEARNING_PARTS) * done // sweeps
            on_progress(part, PROGRESS_PARTS, f"{done} of {sweeps} sweeps")

    return learning, count


def recorded(
    coefficients: Iterable[Coefficients], variances: list[Tensor]
) -> Iterator[Coefficients]:
    """Pass on coefficients and keep their variances alone, which take little memory."""
    for present in coefficients:
        variances.append(present.variance)
        yield present


def chunks_of_folds(splits: Sequence[Split], inference: Inference) -> list[list[Rows]]:
    """Chunks of folds with equal numbers of training rows and of test rows.

    Args:
        splits: training rows and test rows of every fold.
        inference: samples the folds.

    Returns:
        Chunks to sample side by side, each the numbers of its folds.
    """
    on_cpu = inference.device.type == "cpu"
    most = CHUNK_SAMPLES_ON_CPU if on_cpu else CHUNK_SAMPLES_ON_GPU
    sizes = np.reshape([(len(training), len(test)) for training, test in splits], (-1, 2))
    sampled = inference.chains * np.minimum(sizes, [inference.chain_rows, np.inf])
    worth_sharing = on_cpu and sampled.sum() >= SHARED_SAMPLES
    chunks = []
    for size in np.unique(sizes, axis=0):
        folds = np.flatnonzero((sizes == size).all(axis=1))
        parts = -(-len(folds) // max(1, int(most // sampled[folds[0]].max())))
        if worth_sharing and len(folds) == len(splits):
            parts = max(parts, min(2, len(folds)))
        chunks += np.array_split(folds, parts)
    return [chunks] if worth_sharing else [[chunk] for chunk in chunks]
