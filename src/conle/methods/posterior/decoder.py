"""The posterior decoder: label distributions inferred from how logical labels are made.

Logical labels that were made by binarising distributions at T say more about the degrees than which
are relevant. The decoder models the degrees given a representation of the features (`sampler`),
conditions on exactly the observed logical labels, and recovers the posterior mean. It is this
project's own; the contrastive representation is ConLE's (Wang et al., "Contrastive label
enhancement", IJCAI 2023).

There is one decoder. Its subclasses differ only in the representation that they give to it: none,
principal components, or ConLE's Z.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike

from conle.core.binarisation import binarise
from conle.core.hyperparameters import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
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
from conle.methods.posterior.inference import Draw, Inference, Represented, with_intercept
from conle.methods.posterior.label_checks import check_labels, warn_of_unidentified_scale
from conle.methods.posterior.representations import (
    RepresentationLearner,
)
from conle.methods.posterior.sampler import (
    Coefficients,
    coefficients_from_arrays,
    coefficients_to_arrays,
)
from conle.methods.seeds import fold_seeds, spawned
from conle.methods.training.default_settings import default_settings
from conle.methods.training.scheduling import (
    StepCounter,
    on_all_cores,
    resolve_device,
    threads_for,
)

# Samples of all folds that are sampled at once. With fewer, the overhead of calls dominates; more
# do not fit into a CPU's cache.
CHUNK_SAMPLES_ON_CPU = 40_000
CHUNK_SAMPLES_ON_GPU = 1_000_000
# Samples times chains times labels of one fit that are recovered at once, which take some 120 MB.
CHUNK_DEGREES = 1_500_000
# Fewer samples are not worth sharing between two cores.
SHARED_SAMPLES = 20_000
# To draw one log weight takes as long as so many multiply-adds.
DRAW = 3000
# Parts of the progress in all, and parts for learning the representations.
PROGRESS_PARTS, LEARNING_PARTS = 1000, 300


class PosteriorDecoder(InductiveEnhancer):
    """Base of the decoders; a subclass names the representation that the degrees depend on.

    Attributes:
        coefficients_: W, Sigma and lambda after every sweep.
        representation_: the learned function of the features.
    """

    threshold: Threshold = 0.5
    """T of the binarisation that made the logical labels."""
    threshold_model: bool = True
    """False: logical labels only order the degrees, for labels that were not made by binarising."""
    degree_floor: NonNegativeFloat = 0.0
    """Floor phi of the weights; 1 where degrees have a positive minimum (ratings from 1 up)."""
    start_level: PositiveFloat | None = None
    """Factor of the weights that the sampler starts from; None: 2 with a floor, 1 without.

    With a floor the factor must exceed 1. The level then hardly moves in any practical number of
    sweeps, so the results depend on this choice.
    """
    scale_prior: PositiveFloat = 1.0
    """Scale tau of the half-normal prior on the overall deviation of log weights."""
    sweeps: PositiveInt = 200
    """Sweeps of the Gibbs sampler."""
    burn_in: NonNegativeInt = 80
    """Number of first sweeps that are discarded."""
    chains: PositiveInt = 4
    """Chains for each sample that is recovered."""
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
        self._check_start_level(self.effective_start_level)

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
            NotApplicableError: no distribution can give a row of logical labels at T, or a fold has
                fewer training rows than labels.
        """
        self.check_hyperparameters()
        features, logical_labels = check_inputs(features, logical_labels)
        self._check_labels(logical_labels)
        self._warn_of_unidentified_scale(logical_labels)
        whole = len(splits) * 2 * self.sweeps

        def learning(done: int, of: int, status: str) -> None:
            if on_progress is not None:
                on_progress(LEARNING_PARTS * done // of, PROGRESS_PARTS, status)

        def count(done: int) -> None:
            if on_progress is not None:
                part = LEARNING_PARTS + (PROGRESS_PARTS - LEARNING_PARTS) * done // whole
                on_progress(part, PROGRESS_PARTS, f"{done} of {whole} sweeps")

        counter = StepCounter(count)
        inference = self._inference()
        representations = self._learner()(features, logical_labels, splits, learning)
        seeds = [spawned(seed, 2) for seed in fold_seeds(self.seed, len(splits))]

        def recover(chunk: Rows) -> dict[int, RecoveredRows]:
            training = [splits[fold][0] for fold in chunk]
            test = [splits[fold][1] for fold in chunk]

            def represented(rows: Sequence[Rows]) -> list[np.ndarray]:
                return [
                    representations[fold](features[own])
                    for fold, own in zip(chunk, rows, strict=True)
                ]

            with counter.attempt(len(chunk)) as count_sweep:
                coefficients = self._fit_chunk(
                    inference,
                    represented(training),
                    logical_labels,
                    training,
                    [seeds[fold][0] for fold in chunk],
                    count_sweep,
                )
                draws = inference.draws(
                    represented(test),
                    [logical_labels[rows] for rows in test],
                    coefficients,
                    [seeds[fold][1] for fold in chunk],
                    count_sweep,
                )
                means = self._normalised(inference.mean(draws))
            return dict(zip(chunk.tolist(), means, strict=True))

        recovered: dict[int, RecoveredRows] = {}
        chunks = list(self._chunks(splits))
        for part in on_all_cores(recover, chunks, inference.device, counter.stop):
            recovered |= part
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
            (sweeps - burn_in) * chains distributions of each sample; `transform` gives their mean.

        Raises:
            ValueError, sklearn.exceptions.NotFittedError: as `transform`.
        """
        features, logical_labels = self._checked_for_transform(features, logical_labels)
        self._check_labels(logical_labels)
        draws = [
            drawn[0].reshape(logical_labels.shape[1], len(features), self.chains)
            for drawn in self._draws(features, logical_labels, self._seeds_of_a_fit()[1])
        ]
        drawn = torch.stack(draws).permute(0, 3, 2, 1).cpu().numpy()
        return drawn.reshape(-1, *logical_labels.shape)

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
    def sample_chains(
        self,
        features: ArrayLike,
        logical_labels: ArrayLike,
        split: Split,
        start_levels: Sequence[float],
    ) -> Float[np.ndarray, "chains draws samples labels"]:
        """Draw from the posterior of held-out distributions along independent chains.

        `sample` draws along the one chain of W and Sigma that `fit` ran. Here each chain has a W
        and a Sigma of its own, on one representation, so that diagnostics can compare the chains.
        A held-out sample has one chain each time, whatever `chains` is.

        Args:
            features: X, samples x features.
            logical_labels: L, samples x labels.
            split: training rows and held-out rows.
            start_levels: the `start_level` of every chain.

        Raises:
            ValueError, NotApplicableError: as `recover_folds`.
        """
        self.check_hyperparameters()
        for level in start_levels:
            self._check_start_level(level)
        features, logical_labels = check_inputs(features, logical_labels)
        self._check_labels(logical_labels)
        (representation,) = self._learner()(features, logical_labels, [split], None)
        training, held_out = split
        number = len(start_levels)
        seeds = [spawned(seed, 2) for seed in fold_seeds(self.seed, number)]
        inference = replace(self._inference(), start_level=start_levels, chains=1)
        coefficients = inference.fit(
            [representation(features[training])] * number,
            [logical_labels[training]] * number,
            [seed for seed, _ in seeds],
        )
        draws = inference.draws(
            [representation(features[held_out])] * number,
            [logical_labels[held_out]] * number,
            coefficients,
            [seed for _, seed in seeds],
        )
        return torch.stack(list(draws), dim=1).mT.cpu().numpy()

    @default_settings()
    def log_likelihood(
        self, features: ArrayLike, logical_labels: ArrayLike, draws: int = 1000
    ) -> float:
        """Score how well the fitted model predicts logical labels from the features alone.

        Args:
            features: X, samples x features.
            logical_labels: L, samples x labels.
            draws: draws of logical labels for each sample.

        Returns:
            The mean over the samples of log P(k | x) + the mean over the labels of
            log P(L_j | x), k being the number of relevant labels; probabilities are counts of
            draws plus a half.

        Raises:
            NotApplicableError: labels only order the degrees (threshold_model is false).
            ValueError, sklearn.exceptions.NotFittedError: as `transform`.
        """
        features, logical_labels = self._checked_for_transform(features, logical_labels)
        if not self.threshold_model:
            raise NotApplicableError(
                "without a threshold model there is no probability of logical labels"
            )
        labels = logical_labels.shape[1]
        columns = with_intercept([self.representation_(features)])[0].numpy()
        kept = self.coefficients_[self.burn_in :]
        generator = np.random.default_rng(np.random.SeedSequence(self.seed).spawn(3)[2])
        relevant = np.zeros(logical_labels.shape)
        counts = np.zeros((len(features), labels + 1))
        for draw in range(draws):
            present = kept[draw % len(kept)]
            noise = generator.standard_normal(logical_labels.shape)
            u = columns @ present.weights[0].cpu().numpy() + noise @ present.root[0].cpu().numpy().T
            w = self.degree_floor + np.exp(u)
            drawn = binarise(w / w.sum(axis=1, keepdims=True), self.threshold)
            relevant += drawn
            counts[np.arange(len(features)), drawn.sum(axis=1)] += 1
        agreeing = np.where(logical_labels == 1, relevant, draws - relevant)
        own = counts[np.arange(len(features)), logical_labels.sum(axis=1).astype(int)]
        of_labels = np.log((agreeing + 0.5) / (draws + 1)).mean(axis=1)
        of_counts = np.log((own + 0.5) / (draws + 0.5 * labels))
        return float((of_labels + of_counts).mean())

    def _fit_chunk(
        self,
        inference: Inference,
        representations: Sequence[Represented],
        logical_labels: Float[np.ndarray, "all_samples labels"],
        training: Sequence[Rows],
        seeds: Sequence[np.random.SeedSequence],
        on_sweep: Callable[[], None],
    ) -> list[Coefficients]:
        """Sample the coefficients of some folds given the logical labels of their training rows."""
        return inference.fit(
            representations, [logical_labels[rows] for rows in training], seeds, on_sweep
        )

    @default_settings()
    def _fit(self, features: Features, logical_labels: LogicalLabels) -> None:
        self._check_labels(logical_labels)
        self._warn_of_unidentified_scale(logical_labels)
        rows = np.arange(len(features))
        (representation,) = self._learner()(
            features, logical_labels, [(rows, rows[:0])], progress.get()
        )
        with threads_for(DRAW * len(features), resolve_device(self.device)):
            self.coefficients_ = self._inference().fit(
                [representation(features)], [logical_labels], [self._seeds_of_a_fit()[0]]
            )
        self.representation_ = representation

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
        with threads_for(DRAW * self.chains * min(at_once, len(features)), inference.device):
            for start, seed in zip(starts, seeds, strict=True):
                rows = slice(start, start + at_once)
                draws = self._draws(features[rows], logical_labels[rows], seed, on_sweep)
                means.append(inference.mean(draws)[0])
        return self._normalised(np.concatenate(means))

    def _get_weights(self) -> dict[str, np.ndarray]:
        parts = {
            "coefficients": coefficients_to_arrays(self.coefficients_),
            "representation": self.representation_.get_weights(),
        }
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

    def _inference(self) -> Inference:
        return Inference(
            self._threshold(),
            self.degree_floor,
            self.effective_start_level,
            self.scale_prior,
            self.sweeps,
            self.burn_in,
            self.chains,
            resolve_device(self.device),
        )

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
        return self._inference().draws(
            [self.representation_(features)], [logical_labels], self.coefficients_, [seed], on_sweep
        )

    def _normalised(
        self, means: Float[np.ndarray, "*folds samples labels"]
    ) -> Float[np.ndarray, "*folds samples labels"]:
        """Make rows sum to 1 exactly; refuse values that are not finite."""
        self._refuse_not_finite(means)
        return means / means.sum(axis=-1, keepdims=True)

    def _check_start_level(self, level: float) -> None:
        if level <= (1 if self.degree_floor else 0):
            rule = (
                "1 with a degree_floor: the sampler starts at start_level times the floor"
                if self.degree_floor
                else "0"
            )
            raise ValueError(f"{type(self).__name__}: start_level ({level:g}) must exceed {rule}")

    def _check_labels(self, logical_labels: LogicalLabels) -> None:
        check_labels(type(self).__name__, logical_labels, self._threshold())

    def _warn_of_unidentified_scale(self, logical_labels: LogicalLabels) -> None:
        warn_of_unidentified_scale(type(self).__name__, logical_labels, self._threshold())

    def _chunks(self, splits: Sequence[Split]) -> Iterator[Rows]:
        """Folds with equal numbers of training rows and of test rows, not too many at once."""
        on_cpu = resolve_device(self.device).type == "cpu"
        most = CHUNK_SAMPLES_ON_CPU if on_cpu else CHUNK_SAMPLES_ON_GPU
        sizes = np.array([(len(training), len(test)) for training, test in splits])
        for size in np.unique(sizes, axis=0):
            folds = np.flatnonzero((sizes == size).all(axis=1))
            at_once = max(1, most // max(size[0], size[1] * self.chains))
            worth_sharing = len(folds) > 1 and len(folds) * size[0] >= SHARED_SAMPLES
            parts = max(-(-len(folds) // at_once), 2 if worth_sharing else 1)
            yield from np.array_split(folds, parts)
