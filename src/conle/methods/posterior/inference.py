"""Posterior inference for several folds, given representations of the features."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from conle.methods.contract import LogicalLabels, progress
from conle.methods.posterior.label_checks import uniform_rows
from conle.methods.posterior.sampler import (
    Coefficients,
    CovariancePrior,
    LatentDegrees,
    fit_coefficients,
    sample_distributions,
)
from conle.methods.posterior.threshold_model import start_ratios

Represented = Float[np.ndarray, "samples dimensions"]
# The chains of a sample are side by side.
Draw = Float[Tensor, "folds labels samples_x_chains"]


@dataclass(frozen=True)
class Inference:
    """Runs the decoder's two Gibbs samplers, one for its coefficients and one for distributions.

    All folds have equal numbers of samples. Representations, logical labels and seeds are given as
    one per fold.

    Attributes:
        threshold: T, or None where labels only order the degrees.
        degree_floor: phi.
        start_level: factor of the weights that the sampler starts from, one or one per fold.
        scale_prior: tau of the half-normal prior.
        sweeps: sweeps of the Gibbs sampler.
        burn_in: number of first sweeps that are discarded.
        chains: chains for each sample whose distribution is drawn.
        device: samples are drawn there.
    """

    threshold: float | None
    degree_floor: float
    start_level: float | Sequence[float]
    scale_prior: float
    sweeps: int
    burn_in: int
    chains: int
    device: torch.device

    def fit(
        self,
        representations: Sequence[Represented],
        logical_labels: Sequence[LogicalLabels],
        seeds: Sequence[np.random.SeedSequence],
        on_sweep: Callable[[], None] | None = None,
    ) -> list[Coefficients]:
        """Sample the coefficients given the training samples; one result per sweep."""
        return fit_coefficients(
            self._start(logical_labels, 1),
            with_intercept(representations).to(self.device),
            CovariancePrior(self.scale_prior),
            seeds,
            self.sweeps,
            on_sweep or self.sweep_counter(),
        )

    def draws(
        self,
        representations: Sequence[Represented],
        logical_labels: Sequence[LogicalLabels],
        coefficients: Sequence[Coefficients],
        seeds: Sequence[np.random.SeedSequence],
        on_sweep: Callable[[], None] | None = None,
    ) -> Iterator[Draw]:
        """Sample the distributions of any samples along the coefficients of every sweep."""
        columns = with_intercept(representations).to(self.device)
        return sample_distributions(
            self._start(logical_labels, self.chains),
            columns.repeat_interleave(self.chains, dim=1),
            coefficients,
            seeds,
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
        folds, labels, _ = total.shape
        means = total.reshape(folds, labels, -1, self.chains).mean(dim=-1) / number
        return means.mT.cpu().numpy()

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

    def _start(self, logical_labels: Sequence[LogicalLabels], chains: int) -> LatentDegrees:
        """The start of the sampler, the chains of a sample side by side."""
        stacked = np.stack(logical_labels)
        folds, samples, labels = stacked.shape
        flat = stacked.reshape(-1, labels)
        ordering_only = uniform_rows(flat, self.threshold)
        ratios = start_ratios(flat, self.threshold)
        if ordering_only.any():
            ratios[ordering_only] = start_ratios(flat[ordering_only], None)
        levels = np.broadcast_to(self.start_level, folds)
        start = ratios * np.repeat(levels, samples)[:, None] * (self.degree_floor or 1.0)

        def tensor(values: np.ndarray) -> Tensor:
            stacked = torch.from_numpy(values.reshape(folds, samples, labels)).to(self.device)
            return stacked.mT.repeat_interleave(chains, dim=2).contiguous()

        return LatentDegrees(
            tensor(flat == 1),
            tensor(start),
            self.degree_floor,
            self.threshold,
            torch.from_numpy(ordering_only.reshape(folds, samples))
            .to(self.device)
            .repeat_interleave(chains, dim=1)
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
