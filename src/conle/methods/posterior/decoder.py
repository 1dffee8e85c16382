"""The posterior decoder: label distributions inferred from how logical labels are made.

Logical labels that were made by binarising distributions at T say more about the degrees than which
are relevant. The decoder models the degrees given a representation of the features (`sampler`) and
conditions on exactly the observed logical labels. Several chains fit the model, and the label
posterior, which models the degrees in another way, counts as one chain more: the recovered
distribution is the mean over all of them. The decoder is this project's own; the contrastive
representation is ConLE's (Wang et al., "Contrastive label enhancement", IJCAI 2023).

There is one decoder. Its subclasses differ only in the representation that they give to it: none,
principal components, or ConLE's Z.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.special import polygamma

from conle.core.hyperparameters import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Share,
    Threshold,
)
from conle.methods.contract import (
    Features,
    FoldRecovery,
    InductiveEnhancer,
    LogicalLabels,
    NotApplicableError,
    ProgressCallback,
    Recovered,
    RecoveredRows,
    Rows,
    Split,
    check_inputs,
    progress,
)
from conle.methods.posterior.inference import (
    Draw,
    Inference,
    Represented,
    chunks_of_folds,
    parts_of_progress,
    recorded,
)
from conle.methods.posterior.label_checks import (
    check_labels,
    warn_of_climbing_deviation,
    warn_of_unidentified_scale,
)
from conle.methods.posterior.representations import RepresentationLearner
from conle.methods.posterior.sampler import (
    Coefficients,
    by_sweep,
    coefficients_from_arrays,
    coefficients_to_arrays,
    collected,
)
from conle.methods.references import LabelPosterior
from conle.methods.seeds import fold_seeds, spawned
from conle.methods.training.default_settings import default_settings
from conle.methods.training.scheduling import (
    StepCounter,
    on_all_cores,
    resolve_device,
    threads_for,
)

# Samples times chains times labels of one fit that are recovered at once, which take some 60 MB.
CHUNK_DEGREES = 500_000
# Variance of the log weights at the start where no threshold says more.
START_VARIANCE = 0.1
# To draw one log weight takes as long as so many multiply-adds.
DRAW = 3000


class PosteriorDecoder(InductiveEnhancer):
    """Base of the decoders; a subclass names the representation that the degrees depend on.

    Attributes:
        coefficients_: W, Sigma and lambda after every sweep, of every chain; the sweeps first.
        label_posterior_: the fitted label posterior; None where labels only order the degrees.
        representation_: the learned function of the features.
    """

    threshold: Threshold = 0.5
    """T of the binarisation that made the logical labels."""
    threshold_model: bool = True
    """False: logical labels only order the degrees, for labels that were not made by binarising."""
    degree_floor: NonNegativeFloat = 0.0
    """Floor phi of the weights; 1 where degrees have a positive minimum (ratings from 1 up)."""
    start_level: PositiveFloat | None = None
    """Factor of the weights around which the chains start; None: 2 with a floor, 1 without.

    With a floor the factor must exceed 1. The level then hardly moves in any practical number of
    sweeps, so chains start at levels that are far apart.
    """
    scale_prior: PositiveFloat = 1.0
    """Scale tau of the half-normal prior on the overall deviation of log weights."""
    label_posterior_share: Share = 0.2
    """Weight of the label posterior, as one of five chains; no weight without a threshold model."""
    sweeps: PositiveInt = 120
    """Sweeps of the Gibbs sampler."""
    burn_in: NonNegativeInt = 40
    """Number of first sweeps that are discarded."""
    chains: PositiveInt = 4
    """Independent chains, each with a W and a Sigma of its own."""
    chain_rows: PositiveInt = 1000
    """Largest number of training rows that a chain is fitted to, chosen at random for each."""
    device: str = "auto"
    """Device: "auto" (the GPU where there is one), "cpu" or "cuda"."""
    seed: NonNegativeInt = 0
    """Seed of all draws."""

    @abstractmethod
    def _learner(self) -> RepresentationLearner:
        """The learner of the representation."""

    def check_hyperparameters(self) -> None:
        """Check each hyperparameter and their combinations; see `Hyperparameters`."""
        super().check_hyperparameters()
        resolve_device(self.device)
        if self.burn_in >= self.sweeps:
            raise ValueError(
                f"{type(self).__name__}: burn_in ({self.burn_in}) must be below sweeps "
                f"({self.sweeps})"
            )
        if self.degree_floor and self.effective_start_level <= 1:
            raise ValueError(
                f"{type(self).__name__}: start_level ({self.start_level:g}) must exceed 1 with a "
                "degree_floor: chains start at start_level times the floor"
            )

    @property
    def effective_start_level(self) -> float:
        """`start_level`, or the level that None stands for."""
        if self.start_level is not None:
            return self.start_level
        return 2.0 if self.degree_floor else 1.0

    @default_settings()
    def recover_folds(
        self,
        features: ArrayLike,
        logical_labels: ArrayLike,
        splits: Sequence[Split],
        on_progress: ProgressCallback | None = None,
    ) -> FoldRecovery:
        """Sample the folds together, chunk by chunk; see `LabelEnhancer.recover_folds`.

        Raises:
            NotApplicableError: no distribution can give a row of logical labels at T.
        """
        self.check_hyperparameters()
        features, logical_labels = check_inputs(features, logical_labels)
        self._check_labels(logical_labels)
        self._warn_of_unidentified_scale(logical_labels)
        learning, count = parts_of_progress(on_progress, len(splits) * 2 * self.sweeps)
        counter = StepCounter(count)
        inference = self._inference()
        representations = self._learner()(features, logical_labels, splits, learning)
        seeds = [spawned(seed, 2) for seed in fold_seeds(self.seed, len(splits))]
        climbing = np.zeros(len(splits), dtype=bool)

        def recover(chunk: Rows) -> dict[int, RecoveredRows]:
            training = [splits[fold][0] for fold in chunk]
            test = [splits[fold][1] for fold in chunk]
            label_posteriors = [self._label_posterior(logical_labels[rows]) for rows in training]

            def represented(rows: Sequence[Rows]) -> list[np.ndarray]:
                own = zip(chunk, rows, strict=True)
                return [representations[fold](features[rows]) for fold, rows in own]

            variances = []
            threads = self._threads(max(sum(map(len, training)), sum(map(len, test))))
            with counter.attempt(len(chunk)) as count_sweep, threads:
                coefficients = self._fit_chunk(
                    inference,
                    represented(training),
                    logical_labels,
                    training,
                    [self._start_variance(own) for own in label_posteriors],
                    [seeds[fold][0] for fold in chunk],
                    count_sweep,
                )
                draws = inference.draws(
                    represented(test),
                    [logical_labels[rows] for rows in test],
                    recorded(coefficients, variances),
                    [seeds[fold][1] for fold in chunk],
                    count_sweep,
                )
                means = inference.mean(draws)
            climbing[chunk] = inference.is_climbing(variances)
            own = zip(chunk.tolist(), means, label_posteriors, test, strict=True)
            return {
                fold: self._recovered(mean, label_posterior, logical_labels[rows])
                for fold, mean, label_posterior, rows in own
            }

        recovered: dict[int, RecoveredRows] = {}
        for side_by_side in chunks_of_folds(splits, inference):
            for part in on_all_cores(recover, side_by_side, inference.device, counter.stop):
                recovered |= part
        warn_of_climbing_deviation(type(self).__name__, climbing)
        return FoldRecovery([recovered[fold] for fold in range(len(splits))])

    @default_settings()
    def sample(
        self, features: ArrayLike, logical_labels: ArrayLike
    ) -> Float[np.ndarray, "draws samples labels"]:
        """Draw from the posterior of the distributions of any samples.

        Args:
            features: X, samples x features.
            logical_labels: L, samples x labels.

        Returns:
            The draws of all chains (`sample_chains`), and the share of the label posterior.

        Raises:
            ValueError, sklearn.exceptions.NotFittedError: as `transform`.
        """
        chains = self.sample_chains(features, logical_labels)
        return self.with_label_posterior(chains, np.asarray(logical_labels))

    @default_settings()
    def sample_chains(
        self, features: ArrayLike, logical_labels: ArrayLike
    ) -> Float[np.ndarray, "chains draws samples labels"]:
        """Draw distributions of any samples along each of the independent chains of the fit.

        Args:
            features: X, samples x features.
            logical_labels: L, samples x labels.

        Returns:
            sweeps - burn_in distributions of each sample for every chain.

        Raises:
            ValueError, sklearn.exceptions.NotFittedError: as `transform`.
        """
        features, logical_labels = self._checked_for_transform(features, logical_labels)
        self._check_labels(logical_labels)
        draws = self._draws(features, logical_labels, self._seeds_of_a_fit()[1])
        return torch.stack([drawn.mT for drawn in draws], dim=1).cpu().numpy()

    def with_label_posterior(
        self, chains: Float[np.ndarray, "chains sweeps samples labels"], logical_labels: Recovered
    ) -> Float[np.ndarray, "draws samples labels"]:
        """Put the draws of all chains together, and add the share of the label posterior.

        Args:
            chains: the result of `sample_chains`.
            logical_labels: L of the samples.
        """
        drawn = chains.reshape(-1, *chains.shape[2:])
        share = self._effective_share(self.label_posterior_)
        if not share:
            return drawn
        generator = np.random.default_rng(np.random.SeedSequence(self.seed).spawn(4)[3])
        number = round(share / (1 - share) * len(drawn))
        by_labels = self.label_posterior_.sample(logical_labels, number, generator)
        return np.concatenate([drawn, by_labels])

    @default_settings()
    def credible_intervals(
        self, features: ArrayLike, logical_labels: ArrayLike, level: float = 0.9
    ) -> tuple[Recovered, Recovered]:
        """Per-label intervals that hold the degree with a given posterior probability.

        Args:
            features: X, samples x features.
            logical_labels: L, samples x labels.
            level: the probability; the rest is split evenly to both sides.

        Returns:
            Lower and upper limits, both samples x labels.

        Raises:
            ValueError: the level is not between 0 and 1; otherwise as `transform`.
        """
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1, not {level}")
        draws = self.sample(features, logical_labels)
        low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return low, high

    @default_settings()
    def label_probabilities(
        self, features: ArrayLike, logical_labels: ArrayLike, draws: int = 1000
    ) -> Float[np.ndarray, "samples events"]:
        """How probable the model makes logical labels, given the features alone.

        Args:
            features: X, samples x features.
            logical_labels: L, samples x labels.
            draws: draws of logical labels for each sample.

        Returns:
            For each sample, the probability of its number of relevant labels, then that of the
            value of each label; counts of draws plus a half.

        Raises:
            NotApplicableError: labels only order the degrees (threshold_model is false).
            ValueError, sklearn.exceptions.NotFittedError: as `transform`.
        """
        features, logical_labels = self._checked_for_transform(features, logical_labels)
        if not self.threshold_model:
            raise NotApplicableError(
                "without a threshold model there is no probability of logical labels"
            )
        generator = np.random.default_rng(np.random.SeedSequence(self.seed).spawn(3)[2])
        relevant, counts = self._inference().draw_labels(
            self.representation_(features), self.coefficients_, draws, generator
        )
        agreeing = np.where(logical_labels == 1, relevant, draws - relevant)
        own = counts[np.arange(len(features)), logical_labels.sum(axis=1).astype(int)]
        return np.column_stack(
            [(own + 0.5) / (draws + 0.5 * logical_labels.shape[1]), (agreeing + 0.5) / (draws + 1)]
        )

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
        """Sample the coefficients of some folds given the logical labels of their training rows."""
        return inference.fit(
            representations,
            [logical_labels[rows] for rows in training],
            start_variances,
            seeds,
            on_sweep,
        )

    @default_settings()
    def _fit(self, features: Features, logical_labels: LogicalLabels) -> None:
        self._check_labels(logical_labels)
        self._warn_of_unidentified_scale(logical_labels)
        rows = np.arange(len(features))
        (representation,) = self._learner()(
            features, logical_labels, [(rows, rows[:0])], progress.get()
        )
        label_posterior = self._label_posterior(logical_labels)
        inference = self._inference()
        with self._threads(min(self.chain_rows, len(features))):
            fitted = inference.fit(
                [representation(features)],
                [logical_labels],
                [self._start_variance(label_posterior)],
                [self._seeds_of_a_fit()[0]],
            )
            self.coefficients_ = collected(fitted, self.sweeps)
        self.representation_, self.label_posterior_ = representation, label_posterior
        variances = list(self.coefficients_.variance)
        warn_of_climbing_deviation(type(self).__name__, inference.is_climbing(variances))

    @default_settings()
    def _transform(self, features: Features, logical_labels: LogicalLabels) -> Recovered:
        self._check_labels(logical_labels)
        inference = self._inference()
        at_once = max(1, CHUNK_DEGREES // (self.chains * logical_labels.shape[1]))
        starts = range(0, len(features), at_once)
        on_sweep = inference.sweep_counter(len(starts))
        # Later chunks have seeds of their own. Those of a sample do not depend on samples after it.
        first = self._seeds_of_a_fit()[1]
        seeds = [first, *spawned(first, len(starts) - 1)]
        means = []
        with self._threads(min(at_once, len(features))):
            for start, seed in zip(starts, seeds, strict=True):
                rows = slice(start, start + at_once)
                draws = self._draws(features[rows], logical_labels[rows], seed, on_sweep)
                means.append(inference.mean(draws)[0])
        return self._recovered(np.concatenate(means), self.label_posterior_, logical_labels)

    def _get_weights(self) -> dict[str, np.ndarray]:
        parts = {
            "coefficients": coefficients_to_arrays(self.coefficients_),
            "representation": self.representation_.get_weights(),
        }
        if self.label_posterior_ is not None:
            parts["label_posterior"] = self.label_posterior_.get_weights()
        return {
            f"{part}.{name}": value
            for part, arrays in parts.items()
            for name, value in arrays.items()
        }

    @default_settings()
    def _set_weights(self, weights: Mapping[str, np.ndarray], features: int, labels: int) -> None:
        def part(prefix: str) -> dict[str, np.ndarray]:
            return {
                name.removeprefix(prefix): value
                for name, value in weights.items()
                if name.startswith(prefix)
            }

        self.representation_ = self._learner().restore(part("representation."), labels)
        self.coefficients_ = coefficients_from_arrays(
            part("coefficients."), resolve_device(self.device)
        )
        self.label_posterior_ = None
        if self.threshold_model:
            self.label_posterior_ = LabelPosterior(threshold=self.threshold).set_weights(
                part("label_posterior."), labels, labels
            )

    def _inference(self) -> Inference:
        return Inference(
            self._threshold(),
            self.degree_floor,
            self.effective_start_level,
            self.scale_prior,
            self.sweeps,
            self.burn_in,
            self.chains,
            self.chain_rows,
            resolve_device(self.device),
        )

    def _threads(self, samples: int) -> AbstractContextManager[None]:
        """The threads for sweeps over so many samples; see `threads_for`."""
        return threads_for(DRAW * self.chains * samples, resolve_device(self.device))

    def _threshold(self) -> float | None:
        """T, or None where labels only order the degrees."""
        return self.threshold if self.threshold_model else None

    def _seeds_of_a_fit(self) -> list[np.random.SeedSequence]:
        """The seeds of the coefficients and of the draws: those of the first fold."""
        return spawned(fold_seeds(self.seed, 1)[0], 2)

    def _draws(
        self,
        features: Features,
        logical_labels: LogicalLabels,
        seed: np.random.SeedSequence,
        on_sweep: Callable[[], None] | None = None,
    ) -> Iterator[Draw]:
        """Draws of the distributions of samples along the coefficients of the fit."""
        representation, coefficients = self.representation_(features), by_sweep(self.coefficients_)
        return self._inference().draws(
            [representation], [logical_labels], coefficients, [seed], on_sweep
        )

    def _label_posterior(self, logical_labels: LogicalLabels) -> LabelPosterior | None:
        """The label posterior, fitted to training rows; None where labels only order degrees."""
        if not self.threshold_model:
            return None
        # It takes features, as every method does, and does not look at them.
        return LabelPosterior(threshold=self.threshold).fit(logical_labels, logical_labels)

    def _start_variance(self, label_posterior: LabelPosterior | None) -> float:
        """The variance of the log weights that the label posterior assumes."""
        if label_posterior is None:
            return START_VARIANCE
        return float(polygamma(1, label_posterior.concentration_))

    def _effective_share(self, label_posterior: LabelPosterior | None) -> float:
        """The weight of the label posterior."""
        return 0.0 if label_posterior is None else self.label_posterior_share

    def _recovered(
        self, means: Recovered, label_posterior: LabelPosterior | None, logical_labels: Recovered
    ) -> Recovered:
        """The mean of the chains' and the label posterior; rows sum to 1.

        Raises:
            DivergenceError: a value is not finite.
        """
        self._refuse_not_finite(means)
        share = self._effective_share(label_posterior)
        if share:
            by_labels = label_posterior.transform(logical_labels, logical_labels)
            means = (1 - share) * means + share * by_labels
        return means / means.sum(axis=1, keepdims=True)

    def _check_labels(self, logical_labels: LogicalLabels) -> None:
        check_labels(type(self).__name__, logical_labels, self._threshold())

    def _warn_of_unidentified_scale(self, logical_labels: LogicalLabels) -> None:
        warn_of_unidentified_scale(type(self).__name__, logical_labels, self._threshold())
