"""The limit: a recovery that is shown the true distributions of the training rows.

It is no method, because no method may see them. It estimates how near anybody could come to the
true distributions of other rows from their features and logical labels, if the relation between
these and the distributions were known as well as the training rows show it. It is the mean of two
recoveries, which is nearer than either on SJAFFE and SBU-3DFE:

- the posterior decoder on principal components, its W and Sigma fitted to the true log degrees;
- the mean distribution of the training rows with the same logical labels; where there are none,
  the recovery of the decoder.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike

from conle.methods.contract import LogicalLabels, ProgressCallback, RecoveredRows, Rows, Split
from conle.methods.posterior.inference import Inference, Represented, with_intercept
from conle.methods.posterior.sampler import Coefficients, CoefficientUpdates
from conle.methods.posterior.variants import PosteriorPCA
from conle.methods.references import LabelPosterior
from conle.methods.seeds import spawned

Distributions = Float[np.ndarray, "samples labels"]
# Degrees of zero count as this share of the smallest positive degree.
SHARE_OF_SMALLEST = 0.5


class InformedPosterior(PosteriorPCA):
    """The posterior decoder with W and Sigma fitted to true distributions instead of L.

    The hyperparameters are those of `PosteriorPCA`; the label posterior has no share.
    `recover_folds` needs the attribute `label_distributions`; of its rows, only the training rows
    of a fold are read in the fold.
    """

    # No hyperparameter, so it has no annotation.
    label_distributions = None

    def _effective_share(self, label_posterior: LabelPosterior | None) -> float:
        """The true distributions say more than the label posterior."""
        return 0.0

    def _warn_of_unidentified_scale(self, logical_labels: LogicalLabels) -> None:
        """The true distributions say how far the degrees are apart."""

    def _fit_chunk(
        self,
        inference: Inference,
        representations: Sequence[Represented],
        logical_labels: Float[np.ndarray, "all_samples labels"],
        training: Sequence[Rows],
        start_variances: Sequence[float],
        seeds: Sequence[np.random.SeedSequence],
        on_sweep: Callable[[], None],
    ) -> Iterator[Coefficients]:
        own = [spawned(seed, 2) for seed in inference.seeds_of_chains(seeds)]
        logs = [
            log_weights(self.label_distributions[rows], np.random.default_rng(seed))
            for rows, (seed, _) in zip(inference.for_each_chain(training), own, strict=True)
        ]
        u = torch.from_numpy(np.stack(logs)).mT.contiguous().to(inference.device)
        updates = CoefficientUpdates(
            with_intercept(inference.for_each_chain(representations)).to(inference.device),
            logical_labels.shape[1],
            inference.scale_prior,
            [np.random.default_rng(seed) for _, seed in own],
            inference.sweeps,
        )
        variances = u.new_tensor(inference.for_each_chain(start_variances))
        present = updates.start(u, variances)
        for sweep in range(inference.sweeps):
            present = updates.draw(sweep, u, present)
            on_sweep()
            yield present


def log_weights(distributions: Distributions, generator: np.random.Generator) -> Distributions:
    """Log weights whose shares are the distributions, at random levels.

    A distribution does not say at which level its log weights are. Normal levels, as far apart as
    the log degrees, keep Sigma regular.

    Args:
        distributions: D, samples x labels; degrees may be 0.
        generator: draws the levels.
    """
    smallest = distributions[distributions > 0].min()
    logs = np.log(np.maximum(distributions, SHARE_OF_SMALLEST * smallest))
    logs -= logs.mean(axis=1, keepdims=True)
    return logs + logs.std() * generator.standard_normal((len(logs), 1))


def recover_limit(
    decoder: InformedPosterior,
    features: ArrayLike,
    logical_labels: ArrayLike,
    label_distributions: ArrayLike,
    splits: Sequence[Split],
    on_progress: ProgressCallback | None = None,
) -> list[RecoveredRows]:
    """Recover the test rows of every fold with the true distributions of its training rows.

    Args:
        decoder: an unfitted decoder; its threshold, seed and device count.
        features: X, samples x features.
        logical_labels: L, samples x labels.
        label_distributions: D, samples x labels.
        splits: training rows and test rows of every fold.
        on_progress: called as the work advances.

    Raises:
        ValueError, NotApplicableError: as `PosteriorDecoder.recover_folds`.
    """
    L, D = np.asarray(logical_labels), np.asarray(label_distributions, dtype=np.float64)
    decoder.label_distributions = D
    by_decoder = decoder.recover_folds(features, L, splits, on_progress).recovered
    return [
        (own + means_of_same_labels(D, L, training, test, own)) / 2
        for (training, test), own in zip(splits, by_decoder, strict=True)
    ]


def means_of_same_labels(
    label_distributions: Distributions,
    logical_labels: LogicalLabels,
    training: Rows,
    test: Rows,
    otherwise: RecoveredRows,
) -> RecoveredRows:
    """The mean distribution of the training rows with the same logical labels as each test row.

    Args:
        label_distributions: D; only its training rows are read.
        logical_labels: L.
        training: training rows.
        test: test rows.
        otherwise: the distributions of test rows whose labels no training row has.
    """
    known: dict[bytes, list[int]] = {}
    for row in training:
        known.setdefault(logical_labels[row].tobytes(), []).append(row)
    means = {labels: label_distributions[rows].mean(axis=0) for labels, rows in known.items()}
    return np.stack(
        [
            means.get(logical_labels[row].tobytes(), own)
            for row, own in zip(test, otherwise, strict=True)
        ]
    )
