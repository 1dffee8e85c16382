"""The posterior decoder: label distributions inferred from how logical labels are made.

Where logical labels were made by binarising distributions at T, they say more of the degrees
than which are relevant. The decoder models the degrees given a representation of the features
(`posterior_sampler`), conditions on exactly the observed logical labels, and recovers the
posterior mean. It is this project's own; the contrastive representation is ConLE's (Wang et al.,
"Contrastive label enhancement", IJCAI 2023).
"""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from conle.core.binarisation import binarise
from conle.core.hyperparameters import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Threshold,
)
from conle.methods.conle import ConLE, ObjectiveHyperparameters
from conle.methods.contract import (
    Features,
    FoldRecovery,
    InductiveEnhancer,
    LogicalLabels,
    NotApplicableError,
    ProgressCallback,
    Recovered,
    Split,
    check_inputs,
)
from conle.methods.posterior.representations import (
    ContrastiveLearner,
    NoLearner,
    PrincipalComponentsLearner,
    RepresentationLearner,
)
from conle.methods.posterior.sampler import (
    Coefficients,
    CovariancePrior,
    LatentDegrees,
    fit_coefficients,
    sample_distributions,
)
from conle.methods.posterior.threshold_model import possible_counts, start_ratios
from conle.methods.seeds import fold_seeds, spawned
from conle.methods.training.scheduling import StepCounter, on_all_cores, resolve_device

# Samples of all folds that are sampled at once: fewer spend their time between the operations of
# the program, more fall out of a CPU's cache.
CHUNK_SAMPLES_ON_CPU = 40_000
CHUNK_SAMPLES_ON_GPU = 1_000_000
# Fewer are not worth sharing between two cores.
SHARED_SAMPLES = 20_000
# With fewer samples than this share of another number of relevant labels, L hardly says how far
# the degrees are apart.
SHARE_OF_OTHER_COUNTS = 0.01
ROWS_SHOWN = 5
# Learning the representations and sampling are shown as one progress.
PARTS_OF_PROGRESS, LEARNING = 1000, 300


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

    With a floor the level hardly moves in any practical number of sweeps, so the factor must
    exceed 1, and it matters.
    """
    scale_prior: PositiveFloat = 1.0
    """Scale tau of the half-normal prior on the overall deviation of log weights."""
    sweeps: PositiveInt = 200
    """Sweeps of the Gibbs sampler."""
    burn_in: NonNegativeInt = 80
    """Sweeps before the first draw that counts."""
    chains: PositiveInt = 4
    """Chains for each sample that is recovered."""
    device: str = "auto"
    """Device: "auto" (the GPU where there is one), "cpu" or "cuda"."""
    seed: NonNegativeInt = 0
    """Seed of all draws."""

    def check_hyperparameters(self) -> None:
        """See `LabelEnhancer.check_hyperparameters`."""
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
        """`start_level`, or what None stands for."""
        if self.start_level is not None:
            return self.start_level
        return 2.0 if self.degree_floor else 1.0

    def _check_start_level(self, level: float) -> None:
        if level <= (1 if self.degree_floor else 0):
            raise ValueError(
                f"start_level ({level:g}) must exceed "
                + (
                    "1 with a degree_floor: the sampler starts at start_level times the floor"
                    if self.degree_floor
                    else "0"
                )
            )

    @abstractmethod
    def _learner(self) -> RepresentationLearner:
        """What learns the representation."""

    def recover_folds(
        self,
        features: Features,
        logical_labels: LogicalLabels,
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
                on_progress(LEARNING * done // of, PARTS_OF_PROGRESS, status)

        def count(done: int) -> None:
            if on_progress is not None:
                part = LEARNING + (PARTS_OF_PROGRESS - LEARNING) * done // whole
                on_progress(part, PARTS_OF_PROGRESS, f"{done} of {whole} sweeps")

        report = StepCounter(count)
        representations = self._learner()(features, logical_labels, splits, learning)
        seeds = [spawned(seed, 2) for seed in fold_seeds(self.seed, len(splits))]

        def recover(chunk: np.ndarray) -> dict[int, Recovered]:
            own = [splits[fold] for fold in chunk]
            with report.attempt(len(chunk)) as count_sweep:
                coefficients = self._fit_folds(
                    [
                        representations[fold](features[training])
                        for fold, (training, _) in zip(chunk, own, strict=True)
                    ],
                    [logical_labels[training] for training, _ in own],
                    [seeds[fold][0] for fold in chunk],
                    count_sweep,
                )
                draws = self._draws(
                    [
                        representations[fold](features[test])
                        for fold, (_, test) in zip(chunk, own, strict=True)
                    ],
                    [logical_labels[test] for _, test in own],
                    coefficients,
                    [seeds[fold][1] for fold in chunk],
                    count_sweep,
                )
                return dict(zip(chunk.tolist(), self._mean(draws), strict=True))

        recovered: dict[int, Recovered] = {}
        chunks = list(self._chunks(splits))
        for part in on_all_cores(recover, chunks, resolve_device(self.device), report.stop):
            recovered |= part
        return FoldRecovery([recovered[fold] for fold in range(len(splits))])

    def sample(
        self, features: Features, logical_labels: LogicalLabels
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
            for drawn in self._draws_of(features, logical_labels)
        ]
        drawn = torch.stack(draws).permute(0, 3, 2, 1).cpu().numpy()
        return drawn.reshape(-1, *logical_labels.shape)

    def credible_intervals(
        self, features: Features, logical_labels: LogicalLabels, level: float = 0.9
    ) -> tuple[Recovered, Recovered]:
        """Per-label intervals that hold the degree with a given posterior probability.

        Args:
            features: X, samples x features.
            logical_labels: L, samples x labels.
            level: the probability, split evenly to both sides.

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

    def sample_chains(
        self,
        features: Features,
        logical_labels: LogicalLabels,
        split: Split,
        start_levels: Sequence[float],
    ) -> Float[np.ndarray, "chains draws samples labels"]:
        """Draw from the posterior of held-out distributions along independent chains.

        `sample` draws along the one chain of W and Sigma that `fit` ran. Here each chain has its
        own, on one representation, so that their agreement tells how far the sampler has
        converged. Whatever `chains` is, a held-out sample has one.

        Args:
            features: X, samples x features.
            logical_labels: L, samples x labels.
            split: training rows and held-out rows.
            start_levels: of every chain; see `start_level`.

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
        chains = len(start_levels)
        seeds = [spawned(seed, 2) for seed in fold_seeds(self.seed, chains)]
        device = resolve_device(self.device)
        coefficients = fit_coefficients(
            self._degrees([logical_labels[training]] * chains, 1, device, start_levels),
            _with_intercept([representation(features[training])] * chains).to(device),
            CovariancePrior(self.scale_prior),
            [seed for seed, _ in seeds],
            self.sweeps,
            _nothing,
        )
        draws = sample_distributions(
            self._degrees([logical_labels[held_out]] * chains, 1, device, start_levels),
            _with_intercept([representation(features[held_out])] * chains).to(device),
            coefficients,
            [seed for _, seed in seeds],
            self.burn_in,
            _nothing,
        )
        return torch.stack(list(draws), dim=1).mT.cpu().numpy()

    def log_likelihood(
        self, features: Features, logical_labels: LogicalLabels, draws: int = 1000
    ) -> float:
        """How well the fitted model predicts logical labels from the features alone.

        Args:
            features: X, samples x features.
            logical_labels: L, samples x labels.
            draws: of logical labels for each sample.

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
        columns = _with_intercept([self.representation_(features)])[0].numpy()
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

    def _fit(self, features: Features, logical_labels: LogicalLabels) -> None:
        self._check_labels(logical_labels)
        self._warn_of_unidentified_scale(logical_labels)
        rows = np.arange(len(features))
        (representation,) = self._learner()(features, logical_labels, [(rows, rows[:0])], None)
        seed = spawned(fold_seeds(self.seed, 1)[0], 2)[0]
        self.coefficients_ = self._fit_folds(
            [representation(features)], [logical_labels], [seed], _nothing
        )
        self.representation_ = representation

    def _transform(self, features: Features, logical_labels: LogicalLabels) -> Recovered:
        self._check_labels(logical_labels)
        return self._mean(self._draws_of(features, logical_labels))[0]

    def _get_weights(self) -> dict[str, np.ndarray]:
        stacked = {
            f"coefficients.{part}": torch.stack(
                [getattr(coefficients, part) for coefficients in self.coefficients_]
            )
            .cpu()
            .numpy()
            for part in ("weights", "root", "inverse_root", "precision")
        }
        learned = self.representation_.get_weights()
        return stacked | {f"representation.{name}": value for name, value in learned.items()}

    def _set_weights(self, weights: Mapping[str, np.ndarray], features: int, labels: int) -> None:
        device = resolve_device(self.device)
        learned = {
            name.removeprefix("representation."): value
            for name, value in weights.items()
            if name.startswith("representation.")
        }
        self.representation_ = self._learner().restore(learned, labels)
        self.coefficients_ = [
            Coefficients(*(torch.from_numpy(part.copy()).to(device) for part in parts))
            for parts in zip(
                *(
                    weights[f"coefficients.{part}"]
                    for part in ("weights", "root", "inverse_root", "precision")
                ),
                strict=True,
            )
        ]

    def _draws_of(self, features: Features, logical_labels: LogicalLabels) -> Iterator[Tensor]:
        return self._draws(
            [self.representation_(features)],
            [logical_labels],
            self.coefficients_,
            [spawned(fold_seeds(self.seed, 1)[0], 2)[1]],
            _nothing,
        )

    def _mean(self, draws: Iterator[Tensor]) -> list[Recovered]:
        """The mean over draws and chains, for each fold."""
        total = next(draws).clone()
        number = 1
        for drawn in draws:
            total += drawn
            number += 1
        folds, labels, _ = total.shape
        means = total.reshape(folds, labels, -1, self.chains).mean(dim=-1) / number
        means = means.mT.cpu().numpy()
        self._refuse_not_finite(means)
        return list(means / means.sum(axis=2, keepdims=True))

    def _fit_folds(
        self,
        representations: Sequence[Float[np.ndarray, "samples dimensions"]],
        logical_labels: Sequence[LogicalLabels],
        seeds: Sequence[np.random.SeedSequence],
        on_sweep: Callable[[], None],
    ) -> list[Coefficients]:
        device = resolve_device(self.device)
        return fit_coefficients(
            self._degrees(logical_labels, 1, device),
            _with_intercept(representations).to(device),
            CovariancePrior(self.scale_prior),
            seeds,
            self.sweeps,
            on_sweep,
        )

    def _draws(
        self,
        representations: Sequence[Float[np.ndarray, "samples dimensions"]],
        logical_labels: Sequence[LogicalLabels],
        coefficients: Sequence[Coefficients],
        seeds: Sequence[np.random.SeedSequence],
        on_sweep: Callable[[], None],
    ) -> Iterator[Float[Tensor, "folds labels samples_x_chains"]]:
        device = resolve_device(self.device)
        columns = _with_intercept(representations).to(device)
        return sample_distributions(
            self._degrees(logical_labels, self.chains, device),
            columns.repeat_interleave(self.chains, dim=1),
            coefficients,
            seeds,
            self.burn_in,
            on_sweep,
        )

    def _degrees(
        self,
        logical_labels: Sequence[LogicalLabels],
        chains: int,
        device: torch.device,
        start_levels: Sequence[float] | None = None,
    ) -> LatentDegrees:
        """The start of the sampler, the chains of a sample side by side.

        Levels are those of the folds, `effective_start_level` if None.
        """
        threshold = self.threshold if self.threshold_model else None
        stacked = np.stack(logical_labels)
        folds, samples, labels = stacked.shape
        flat = stacked.reshape(-1, labels)
        ordering_only = self._uniform_rows(flat)
        ratios = start_ratios(flat, threshold)
        if ordering_only.any():
            ratios[ordering_only] = start_ratios(flat[ordering_only], None)
        levels = (
            np.full(folds, self.effective_start_level) if start_levels is None else start_levels
        )
        start = ratios * np.repeat(levels, samples)[:, None] * (self.degree_floor or 1.0)

        def tensor(values: np.ndarray) -> Tensor:
            stacked = torch.from_numpy(values.reshape(folds, samples, labels)).to(device)
            return stacked.mT.repeat_interleave(chains, dim=2).contiguous()

        return LatentDegrees(
            tensor(flat == 1),
            tensor(start),
            self.degree_floor,
            threshold,
            torch.from_numpy(ordering_only.reshape(folds, samples))
            .to(device)
            .repeat_interleave(chains, dim=1)
            if ordering_only.any()
            else None,
        )

    def _uniform_rows(self, logical_labels: LogicalLabels) -> np.ndarray:
        """The rows that only an exactly uniform distribution gives."""
        _, uniform = possible_counts(logical_labels.shape[1], self.threshold)
        if not self.threshold_model or uniform is None:
            return np.zeros(len(logical_labels), dtype=bool)
        return logical_labels.sum(axis=1) == uniform

    def _check_labels(self, logical_labels: LogicalLabels) -> None:
        if not self.threshold_model:
            return
        labels = logical_labels.shape[1]
        possible, uniform = possible_counts(labels, self.threshold)
        counts = logical_labels.sum(axis=1).astype(int)
        impossible = np.flatnonzero(~possible[counts] & (counts != uniform))
        if len(impossible):
            shown = ", ".join(
                f"row {row} with {counts[row]}" for row in impossible[:ROWS_SHOWN]
            ) + (", ..." if len(impossible) > ROWS_SHOWN else "")
            raise NotApplicableError(
                f"no distribution of {labels} labels binarised at {self.threshold:g} gives the "
                f"relevant labels of {len(impossible)} rows ({shown} relevant): if the logical "
                "labels were not made by binarising, set threshold_model to false, so that they "
                "only order the degrees"
            )
        if (counts == uniform).any():
            warnings.warn(
                f"{type(self).__name__}: {(counts == uniform).sum()} rows have {uniform} relevant "
                "labels, which only an exactly uniform distribution gives; their labels only order "
                "the degrees",
                stacklevel=3,
            )

    def _warn_of_unidentified_scale(self, logical_labels: LogicalLabels) -> None:
        counts = np.bincount(logical_labels.sum(axis=1).astype(int))
        others = 1 - counts.max() / counts.sum()
        if (
            not self.threshold_model
            or logical_labels.shape[1] == 2
            or others < SHARE_OF_OTHER_COUNTS
        ):
            warnings.warn(
                f"{type(self).__name__}: the logical labels hardly say how far the degrees are "
                f"apart ({1 - others:.1%} of the samples have {counts.argmax()} of "
                f"{logical_labels.shape[1]} labels relevant); the prior (scale_prior) decides",
                stacklevel=3,
            )

    def _chunks(self, splits: Sequence[Split]) -> Iterator[np.ndarray]:
        """Folds of equal numbers of training and of test rows, not too many at once."""
        on_cpu = resolve_device(self.device).type == "cpu"
        most = CHUNK_SAMPLES_ON_CPU if on_cpu else CHUNK_SAMPLES_ON_GPU
        sizes = np.array([(len(training), len(test)) for training, test in splits])
        for size in np.unique(sizes, axis=0):
            folds = np.flatnonzero((sizes == size).all(axis=1))
            at_once = max(1, most // max(size[0], size[1] * self.chains))
            worth_sharing = len(folds) > 1 and len(folds) * size[0] >= SHARED_SAMPLES
            parts = max(-(-len(folds) // at_once), 2 if worth_sharing else 1)
            yield from np.array_split(folds, parts)


class PosteriorFeatureless(PosteriorDecoder):
    """The posterior decoder without features: every sample has the same mean."""

    def _learner(self) -> RepresentationLearner:
        return NoLearner()


class PosteriorPCA(PosteriorDecoder):
    """The posterior decoder on principal components of the standardised features.

    The other hyperparameters are those of `PosteriorDecoder`.
    """

    dimensions: PositiveInt = 30
    """Number of principal components."""
    clip: PositiveFloat = 5.0
    """Largest absolute value of a standardised feature."""

    def _learner(self) -> RepresentationLearner:
        return PrincipalComponentsLearner(self.dimensions, self.clip, self.seed)


class ConLEPosterior(ObjectiveHyperparameters, PosteriorDecoder):
    """The posterior decoder on ConLE's contrastive representation Z.

    The other hyperparameters are those of `PosteriorDecoder` and, for the training of the
    representation, of `ConLE`.
    """

    epochs: PositiveInt = 11
    """Largest number of passes over the training rows in the training of ConLE."""
    steps: PositiveInt = 100
    """Largest number of steps in the training of ConLE."""

    def _learner(self) -> RepresentationLearner:
        shared = {
            field.name: getattr(self, field.name) for field in fields(ObjectiveHyperparameters)
        }
        return ContrastiveLearner(
            ConLE(
                reading="softmax",
                stopping="fixed",
                epochs=self.epochs,
                steps=self.steps,
                device=self.device,
                seed=self.seed,
                **shared,
            )
        )


def _with_intercept(
    representations: Sequence[Float[np.ndarray, "samples dimensions"]],
) -> Float[Tensor, "folds samples columns"]:
    """[1, f] of the samples of every fold."""
    stacked = np.stack(representations)
    ones = np.ones((*stacked.shape[:2], 1))
    return torch.from_numpy(np.concatenate([ones, stacked], axis=2))


def _nothing() -> None:
    """Nobody wants to know of the progress."""
