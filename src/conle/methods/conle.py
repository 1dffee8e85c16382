"""ConLE: contrastive label enhancement.

The networks F1, F2 and F3, the objective l_con + lambda1 l_dis + lambda2 l_thr, and its gradient
descent follow the paper's Algorithm 1.

Source: Wang, Zhou, Zhu, Liu, Yan, Tian, "Contrastive label enhancement", IJCAI 2023. The paper
fixes the kind of the networks, the losses and lambda1, lambda2, tau. It gives no widths, learning
rate, batch size, number of epochs or margin; those are hyperparameters here.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Literal

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike
from pydantic import Field
from sklearn.base import clone
from torch import Tensor, nn

from conle.core.hyperparameters import (
    Hyperparameters,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Share,
    Threshold,
)
from conle.methods.contract import (
    Curves,
    DivergenceError,
    Features,
    FoldRecovery,
    LogicalLabels,
    NotApplicableError,
    ProgressCallback,
    Recovered,
    Split,
)
from conle.methods.losses import distance_loss, threshold_loss
from conle.methods.losses.contrastive import SMALLEST_TEMPERATURE
from conle.methods.training.enhancer import BatchedEnhancer
from conle.methods.training.fused_contrast import fused_contrastive_loss
from conle.methods.training.layers import batched_mlp
from conle.methods.training.loop import ObjectiveTerms, TrainingLoop
from conle.methods.training.optimizers import SGD
from conle.methods.training.patterns import apply_to_pairs
from conle.methods.training.samples import Samples
from conle.methods.training.scaling import FeatureScaling
from conle.methods.training.stopping import BestWeights, LabelPosteriorDivergence, agreement

# The readings, the flattest first.
READINGS = ("double", "softmax", "raw")
DIVERGENCE = "kl_to_featureless"


class ConLENetworks(nn.Module):
    """The networks of ConLE, one of each per fold.

    F1 maps features to Z, F2 logical labels to Q, F3 the pair H = [Z, Q] to one value per label.
    """

    def __init__(
        self,
        generators: Sequence[torch.Generator],
        features: int,
        labels: int,
        hidden: int,
        embedding: int,
    ) -> None:
        super().__init__()
        self.f1 = batched_mlp(generators, features, hidden, embedding)
        self.f2 = batched_mlp(generators, labels, hidden, embedding)
        self.f3 = batched_mlp(generators, 2 * embedding, hidden, labels)

    def forward(
        self, samples: Samples
    ) -> tuple[
        Float[Tensor, "folds samples embedding"],
        Float[Tensor, "folds rows embedding"],
        Float[Tensor, "folds samples labels"],
    ]:
        """Z of the samples, Q of their distinct logical labels, and F3(H) of the samples."""
        z = self.f1(samples.features)
        q = self.f2(samples.distinct_labels)
        return z, q, apply_to_pairs(self.f3, z, q, samples.pattern)


class ObjectiveHyperparameters(Hyperparameters):
    """The hyperparameters of the networks, the losses and the gradient descent of ConLE."""

    lambda1: NonNegativeFloat = 0.5
    """Weight of the distance loss (paper: 0.5)."""
    lambda2: NonNegativeFloat = 1.0
    """Weight of the threshold loss (paper: 1)."""
    temperature: Annotated[float, Field(ge=SMALLEST_TEMPERATURE)] = 0.5
    """Temperature tau of the contrastive loss (paper: 0.5)."""
    epsilon: NonNegativeFloat = 0.1
    """Margin of the threshold loss."""
    hidden: PositiveInt = 64
    """Width of the hidden layer of each network."""
    embedding: PositiveInt = 64
    """Width of Z and of Q."""
    learning_rate: PositiveFloat = 0.01
    """Learning rate of the gradient descent."""
    momentum: Share = 0.9
    """Momentum of the gradient descent."""
    batch_size: PositiveInt = 256
    """Largest number of samples in a step."""
    clip: PositiveFloat = 5.0
    """Largest absolute value of a standardised feature."""


class ConLE(ObjectiveHyperparameters, BatchedEnhancer):
    """Contrastive label enhancement.

    Minimises l_con + lambda1 l_dis + lambda2 l_thr by stochastic gradient descent. The features
    are standardised on the training rows, clipped, and constant columns set to zero.

    Attributes:
        weights_: learned arrays by name, their first axis of length one. With `reading="auto"`,
            "reading" is the number of the reading that was kept.
        curves_: by step the terms of the loss, by check the agreement or the divergence from the
            label posterior, as in `FoldRecovery.curves`.
    """

    reading: Literal["raw", "softmax", "double", "auto"] = "double"
    """How the paper's "normalised by the softmax form" is read.

    "raw": the losses see the output of F3, and its softmax is recovered. "softmax": the losses see
    the softmax, and the softmax is recovered. "double": the losses see the softmax, and the softmax
    of the softmax is recovered, so that no degree is more than e times another. "auto": each of the
    three is trained, and the one that comes nearest to the label posterior is kept. One that
    diverges is left out, with a warning.
    """
    reduction: Literal["mean", "sum"] = "mean"
    """Reduction of the distance loss over a batch (paper: sum)."""
    stopping: Literal["agreement", "label_posterior", "fixed"] = "agreement"
    """Choice of the weights that are kept.

    "fixed": the weights after the last step. "agreement": the weights at the first maximum of the
    agreement, which is the share of training rows whose recovered distribution, binarised, gives
    back the whole L. If the agreement is always 0, the last weights are kept, with a warning.
    "label_posterior": the weights whose recovered training rows are nearest, by mean KL divergence,
    to what L alone says of them (`LabelPosterior`).
    """
    steps: PositiveInt = 200
    """Steps of the gradient descent."""
    epochs: PositiveInt | None = None
    """Largest number of passes over the training rows; None sets no limit beyond `steps`."""
    check_every: PositiveInt = 10
    """Steps between two checks of the weights that `stopping` may keep."""
    snapshot_every: PositiveInt | None = None
    """Steps between two recoveries of the test rows that `recover_folds` keeps; None keeps none."""
    use_contrastive_loss: bool = True
    """False gives the paper's ablation ConLE_h."""
    use_threshold_loss: bool = True
    """False gives the paper's ablation ConLE_l."""
    threshold: Threshold = 0.5
    """T of the binarisation in the agreement and in the label posterior."""
    tf32: bool = True
    """Let a GPU round the factors of matrix products in training to ten bits: faster."""
    device: str = "auto"
    """Device: "auto" (the GPU where there is one), "cpu" or "cuda"."""
    seed: NonNegativeInt = 0
    """Seed of the initial weights and the order of the samples."""

    def check_hyperparameters(self) -> None:
        """Check each hyperparameter and their combinations; see `Hyperparameters`."""
        super().check_hyperparameters()
        if self.stopping != "fixed" and self.check_every > self.steps:
            raise ValueError(
                f"{type(self).__name__}: check_every ({self.check_every}) must not exceed steps "
                f"({self.steps}): no weights would ever be checked"
            )
        if self.reading == "auto" and self.stopping != "label_posterior":
            raise ValueError(
                f"{type(self).__name__}: reading 'auto' needs stopping 'label_posterior', not "
                f"{self.stopping!r}"
            )

    def recover_folds(
        self,
        features: ArrayLike,
        logical_labels: ArrayLike,
        splits: Sequence[Split],
        on_progress: ProgressCallback | None = None,
    ) -> FoldRecovery:
        """Train the folds, with each reading if it is "auto"; see `LabelEnhancer.recover_folds`.

        A reading that diverges in any fold is left out of all folds, with a warning.
        """
        if self.reading != "auto" or not splits:
            return super().recover_folds(features, logical_labels, splits, on_progress)
        recoveries, diverged = {}, {}
        for number, reading in enumerate(READINGS):
            report = on_progress and partial(_report_part, on_progress, number)
            try:
                recoveries[number] = self._with(reading).recover_folds(
                    features, logical_labels, splits, report
                )
            except DivergenceError as error:
                diverged[reading] = str(error)
        if not recoveries:
            raise DivergenceError(f"{diverged[READINGS[0]]} (no reading trains without divergence)")
        for reading, reason in diverged.items():
            warnings.warn(
                f"{type(self).__name__}: the reading {reading} is left out: {reason}", stacklevel=2
            )
        return _nearest_to_label_posterior(recoveries)

    @property
    def kept_reading_(self) -> str | None:
        """The reading that the fit has kept; None unless `reading` is "auto"."""
        return self.kept_readings(self.weights_)[0] if "reading" in self.weights_ else None

    @staticmethod
    def kept_readings(weights: Mapping[str, np.ndarray]) -> list[str]:
        """The reading that each fold has kept, if the reading is "auto".

        Args:
            weights: as in `FoldRecovery.weights`.
        """
        return [READINGS[number] for number in weights["reading"].ravel()]

    def _with(self, reading: str) -> "ConLE":
        return clone(self).set_params(reading=reading)

    def _transform(self, features: Features, logical_labels: LogicalLabels) -> Recovered:
        if self.reading != "auto":
            return super()._transform(features, logical_labels)
        kept = self._with(self.kept_reading_)
        kept.weights_ = self.weights_
        return kept._transform(features, logical_labels)

    def _steps(self, training_rows: int) -> int:
        if self.epochs is None:
            return self.steps
        steps = min(self.steps, self.epochs * -(-training_rows // self.batch_size))
        if self.stopping != "fixed" and self.check_every > steps:
            raise NotApplicableError(
                f"{self.epochs} epochs of {training_rows} training rows are {steps} steps, fewer "
                f"than check_every ({self.check_every}): no weights would ever be checked"
            )
        return steps

    def _scaling(self, features: Features, splits: Sequence[Split]) -> FeatureScaling:
        return FeatureScaling.standard(features, splits, self.clip)

    def _networks(
        self, generators: Sequence[torch.Generator], features: int, labels: int
    ) -> ConLENetworks:
        return ConLENetworks(generators, features, labels, self.hidden, self.embedding)

    def _optimizer(self, parameters: Iterator[nn.Parameter]) -> SGD:
        return SGD(parameters, self.learning_rate, self.momentum)

    def _objective(
        self, networks: ConLENetworks, batch: Samples, generators: Sequence[torch.Generator]
    ) -> ObjectiveTerms:
        """The paper's objective: l_con + lambda1 l_dis + lambda2 l_thr."""
        L, present = batch.logical_labels, batch.present
        z, q, outputs = networks(batch)
        recovered = outputs if self.reading == "raw" else outputs.softmax(dim=-1)
        terms = {}
        if self.use_contrastive_loss:
            terms["contrastive_loss"] = fused_contrastive_loss(
                z, q, self.temperature, present, batch.pattern
            )
        terms["distance_loss"] = distance_loss(recovered, L, self.reduction, present)
        loss = terms.get("contrastive_loss", 0.0) + self.lambda1 * terms["distance_loss"]
        if self.use_threshold_loss:
            terms["threshold_loss"] = threshold_loss(recovered, L, self.epsilon, present)
            loss = loss + self.lambda2 * terms["threshold_loss"]
        return {"loss": loss} | terms

    def _train(self, networks: ConLENetworks, loop: TrainingLoop) -> None:
        """Algorithm 1: gradient descent on the objective, and the choice of the weights to keep."""
        optimizer = self._optimizer(networks.parameters())
        L, is_training = loop.samples.logical_labels, loop.is_training
        by_agreement = self.stopping == "agreement"
        best = BestWeights(networks, lowest=0.0 if by_agreement else -torch.inf)
        if self.stopping == "label_posterior":
            divergence = LabelPosteriorDivergence(L, is_training, self.threshold, self.seed)
        # The objective draws no random numbers and never waits for the GPU.
        for step in loop.descend(networks, optimizer, self._objective, cuda_graph=True):
            if self.stopping != "fixed" and step % self.check_every == 0:
                recovered = self._recovered_in_parts(networks, loop.samples)
                best.update(
                    step,
                    agreement(recovered, L, is_training, self.threshold)
                    if by_agreement
                    else -divergence(recovered),
                )
            if self.snapshot_every is not None and step % self.snapshot_every == 0:
                loop.take_snapshot(step, self._recover_all(networks, loop.samples))
        if self.stopping != "fixed":
            best.restore()
            steps, scores = best.scores()
            loop.curves |= (
                {"agreement": (steps, scores)} if by_agreement else {DIVERGENCE: (steps, -scores)}
            )

    def _warn(self, curves: Sequence[Curves]) -> None:
        never = sum("agreement" in own and not own["agreement"][1].any() for own in curves)
        if never:
            warnings.warn(
                f"{type(self).__name__}: in {never} of {len(curves)} folds no recovered training "
                "row ever binarised to its logical labels; their last weights are kept",
                stacklevel=2,
            )

    def _recovered(
        self, networks: ConLENetworks, samples: Samples
    ) -> Float[Tensor, "folds samples labels"]:
        recovered = networks(samples)[2].softmax(dim=-1)
        return recovered.softmax(dim=-1) if self.reading == "double" else recovered


def _report_part(on_progress: ProgressCallback, part: int, done: int, whole: int, _: str) -> None:
    """Report the progress of one reading as a part of that of all."""
    done, whole = part * whole + done, len(READINGS) * whole
    on_progress(done, whole, f"{done} of {whole} steps")


def _nearest_to_label_posterior(recoveries: Mapping[int, FoldRecovery]) -> FoldRecovery:
    """Take each fold from the reading that is nearest to the label posterior; of equals the first.

    Args:
        recoveries: the folds with each reading, by its number in `READINGS`.
    """
    numbers, each = np.array(list(recoveries)), list(recoveries.values())
    divergences = [[curves[DIVERGENCE][1].min() for curves in own.curves] for own in each]
    nearest = np.argmin(divergences, axis=0)

    def taken(of_readings: Sequence[Sequence | np.ndarray]) -> list:
        return [of_readings[reading][fold] for fold, reading in enumerate(nearest)]

    return FoldRecovery(
        recovered=taken([own.recovered for own in each]),
        weights={
            name: np.stack(taken([own.weights[name] for own in each])) for name in each[0].weights
        }
        | {"reading": numbers[nearest][:, None]},
        curves=taken([own.curves for own in each]),
        snapshots=taken([own.snapshots for own in each]),
    )
