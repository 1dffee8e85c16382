"""ConLE: contrastive label enhancement.

Source: Wang, Zhou, Zhu, Liu, Yan, Tian, "Contrastive label enhancement", IJCAI 2023. The paper
fixes the networks' kind, the losses and lambda1, lambda2, tau; it gives no widths, learning
rate, batch size, number of epochs or margin. Those are hyperparameters here.
"""

from collections.abc import Callable, Iterator, Sequence
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Tensor, nn

from conle.enhancers.base import (
    Curves,
    Features,
    FoldRecovery,
    LabelEnhancer,
    LogicalLabels,
    ProgressCallback,
    Recovered,
    Split,
    check_inputs,
)
from conle.enhancers.batched import (
    Batch,
    Standardization,
    batched_mlp,
    fold_batches,
    fold_chunks,
    fold_seeds,
    resolve_device,
)
from conle.enhancers.losses import contrastive_loss, distance_loss, threshold_loss
from conle.enhancers.losses.contrastive import SMALLEST_TEMPERATURE

ObjectiveTerms = dict[str, Float[Tensor, " folds"]]


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
        self,
        features: Float[Tensor, "folds batch features"],
        logical_labels: Float[Tensor, "folds batch labels"],
    ) -> tuple[
        Float[Tensor, "folds batch embedding"],
        Float[Tensor, "folds batch embedding"],
        Float[Tensor, "folds batch labels"],
    ]:
        """Z, Q and the output of F3."""
        z, q = self.f1(features), self.f2(logical_labels)
        return z, q, self.f3(torch.cat([z, q], dim=-1))


class ConLE(LabelEnhancer):
    """Contrastive label enhancement.

    Minimises l_con + lambda1 l_dis + lambda2 l_thr by stochastic gradient descent. The features
    are standardised on the training rows, clipped, and constant columns set to zero.

    Args:
        lambda1: weight of the distance loss (paper: 0.5).
        lambda2: weight of the threshold loss (paper: 1).
        temperature: tau of the contrastive loss (paper: 0.5).
        epsilon: margin of the threshold loss.
        hidden: width of the hidden layer of each network.
        embedding: width of Z and Q.
        learning_rate: of the gradient descent.
        momentum: of the gradient descent.
        batch_size: samples in a step.
        reading: where the softmax of "normalised by the softmax form" stands: "raw", the losses
            see F3's output and its softmax is recovered; "softmax", the losses see the softmax
            and it is recovered; "double", the losses see the softmax and the softmax of that is
            recovered.
        reduction: of the distance loss over a batch, "mean" or "sum" (paper: sum).
        stopping: "fixed", train `steps` steps; "agreement", train `steps` steps and keep the
            weights of the first maximum of the share of training rows whose recovered
            distribution, binarised, gives back the whole L.
        steps: of the gradient descent.
        check_every: steps between two checks of the agreement.
        use_contrastive_loss: without it the method is the paper's ablation ConLE_h.
        use_threshold_loss: without it the method is the paper's ablation ConLE_l.
        clip: largest absolute value of a standardised feature.
        threshold: T of the binarisation that the agreement is checked with.
        device: "auto" (the GPU where there is one), "cpu" or "cuda".
        seed: of the initial weights and the order of the samples.

    Attributes:
        weights_: learned arrays by name, their first axis of length one.
        curves_: loss terms by step and agreement by check, as in `FoldRecovery.curves`.
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "lambda1": [Interval(Real, 0, None, closed="left")],
        "lambda2": [Interval(Real, 0, None, closed="left")],
        "temperature": [Interval(Real, SMALLEST_TEMPERATURE, None, closed="left")],
        "epsilon": [Interval(Real, 0, None, closed="left")],
        "hidden": [Interval(Integral, 1, None, closed="left")],
        "embedding": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "momentum": [Interval(Real, 0, 1, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "reading": [StrOptions({"raw", "softmax", "double"})],
        "reduction": [StrOptions({"mean", "sum"})],
        "stopping": [StrOptions({"agreement", "fixed"})],
        "steps": [Interval(Integral, 1, None, closed="left")],
        "check_every": [Interval(Integral, 1, None, closed="left")],
        "use_contrastive_loss": ["boolean"],
        "use_threshold_loss": ["boolean"],
        "clip": [Interval(Real, 0, None, closed="neither")],
        "threshold": [Interval(Real, 0, 1, closed="neither")],
        "device": [str],
        "seed": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        *,
        lambda1: float = 0.5,
        lambda2: float = 1.0,
        temperature: float = 0.5,
        epsilon: float = 0.1,
        hidden: int = 64,
        embedding: int = 64,
        learning_rate: float = 0.01,
        momentum: float = 0.9,
        batch_size: int = 256,
        reading: str = "double",
        reduction: str = "mean",
        stopping: str = "agreement",
        steps: int = 200,
        check_every: int = 10,
        use_contrastive_loss: bool = True,
        use_threshold_loss: bool = True,
        clip: float = 5.0,
        threshold: float = 0.5,
        device: str = "auto",
        seed: int = 0,
    ) -> None:
        self.lambda1 = lambda1
        self.lambda2 = lambda2
        self.temperature = temperature
        self.epsilon = epsilon
        self.hidden = hidden
        self.embedding = embedding
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.batch_size = batch_size
        self.reading = reading
        self.reduction = reduction
        self.stopping = stopping
        self.steps = steps
        self.check_every = check_every
        self.use_contrastive_loss = use_contrastive_loss
        self.use_threshold_loss = use_threshold_loss
        self.clip = clip
        self.threshold = threshold
        self.device = device
        self.seed = seed

    def recover_folds(
        self,
        features: Features,
        logical_labels: LogicalLabels,
        splits: Sequence[Split],
        on_progress: ProgressCallback | None = None,
    ) -> FoldRecovery:
        """Train all folds as one batched program, chunk by chunk; see `LabelEnhancer`."""
        features, logical_labels = check_inputs(features, logical_labels)
        self.check_hyperparameters()
        device = resolve_device(self.device)
        seeds = fold_seeds(self.seed, len(splits))
        chunks = fold_chunks(len(splits), *features.shape, device)
        parts = []
        for chunk in chunks:

            def report(step: int, chunk: range = chunk) -> None:
                on_progress(
                    chunk.start * self.steps + len(chunk) * step,
                    len(splits) * self.steps,
                    f"folds {chunk.start + 1}-{chunk.stop} of {len(splits)}, "
                    f"step {step} of {self.steps}",
                )

            parts.append(
                self._recover_chunk(
                    features,
                    logical_labels,
                    [splits[fold] for fold in chunk],
                    [seeds[fold] for fold in chunk],
                    device,
                    report if on_progress is not None else None,
                )
            )
        return FoldRecovery(
            recovered=[rows for part in parts for rows in part.recovered],
            weights={
                name: np.concatenate([part.weights[name] for part in parts])
                for name in parts[0].weights
            },
            curves={
                name: (steps, np.concatenate([part.curves[name][1] for part in parts]))
                for name, (steps, _) in parts[0].curves.items()
            },
        )

    def _fit(self, features: Features, logical_labels: LogicalLabels) -> None:
        rows = np.arange(len(features))
        recovery = self.recover_folds(features, logical_labels, [(rows, rows[:0])])
        self.weights_, self.curves_ = recovery.weights, recovery.curves

    def _transform(self, features: Features, logical_labels: LogicalLabels) -> Recovered:
        device = resolve_device(self.device)
        networks = self._networks([torch.Generator()], features.shape[1], logical_labels.shape[1])
        networks.load_state_dict(
            {name: torch.from_numpy(self.weights_[name]) for name in networks.state_dict()}
        )
        networks.to(device)
        standardization = Standardization(
            self.weights_["feature_mean"], self.weights_["feature_scale"], self.clip
        )
        with torch.no_grad():
            outputs = networks(
                standardization.apply(features, device), _labels_tensor(logical_labels, 1, device)
            )[2]
        return _as_distributions(self._recovered(outputs)[0])

    def _recover_chunk(
        self,
        features: Features,
        logical_labels: LogicalLabels,
        splits: Sequence[Split],
        seeds: Sequence[np.random.SeedSequence],
        device: torch.device,
        on_step: Callable[[int], None] | None,
    ) -> FoldRecovery:
        standardization = Standardization.fit(features, splits, self.clip)
        all_features = standardization.apply(features, device)
        all_labels = _labels_tensor(logical_labels, len(splits), device)
        is_training = torch.zeros(all_labels.shape[:2], dtype=torch.bool)
        for fold, (training, _) in enumerate(splits):
            is_training[fold, training] = True
        is_training = is_training.to(device)

        streams = [seed.spawn(2) for seed in seeds]
        networks = self._networks(
            [
                torch.Generator().manual_seed(int(weights.generate_state(1, np.uint64)[0] >> 1))
                for weights, _ in streams
            ],
            features.shape[1],
            logical_labels.shape[1],
        ).to(device)
        batches = fold_batches(
            [training for training, _ in splits],
            self.batch_size,
            self.steps,
            [np.random.default_rng(order) for _, order in streams],
        )
        curves = self._train(networks, batches, all_features, all_labels, is_training, on_step)

        with torch.no_grad():
            recovered = _as_distributions(self._recovered(networks(all_features, all_labels)[2]))
        weights = {name: value.cpu().numpy() for name, value in networks.state_dict().items()}
        weights |= {"feature_mean": standardization.mean, "feature_scale": standardization.scale}
        return FoldRecovery(
            [rows[test] for rows, (_, test) in zip(recovered, splits, strict=True)],
            weights,
            curves,
        )

    def _train(
        self,
        networks: ConLENetworks,
        batches: Iterator[Batch],
        features: Float[Tensor, "folds samples features"],
        logical_labels: Float[Tensor, "folds samples labels"],
        is_training: Bool[Tensor, "folds samples"],
        on_step: Callable[[int], None] | None,
    ) -> Curves:
        """The paper's Algorithm 1 for all folds at once; leaves the kept weights in `networks`."""
        optimizer = torch.optim.SGD(
            networks.parameters(), lr=self.learning_rate, momentum=self.momentum
        )
        fold = torch.arange(len(features), device=features.device)[:, None]
        terms_by_step, agreement_by_check = [], []
        best = torch.full((len(features),), -1.0, device=features.device)
        kept = {name: weights.clone() for name, weights in networks.state_dict().items()}
        for step, (rows, present) in enumerate(batches, start=1):
            rows = rows.to(features.device)
            present = None if present is None else present.to(features.device)
            terms = self._objective(
                networks, features[fold, rows], logical_labels[fold, rows], present
            )
            optimizer.zero_grad()
            terms["loss"].sum().backward()
            optimizer.step()
            terms_by_step.append(torch.stack([term.detach() for term in terms.values()]))

            if self.stopping == "agreement" and step % self.check_every == 0:
                agreement = self._agreement(networks, features, logical_labels, is_training)
                agreement_by_check.append(agreement)
                improved = agreement > best
                best = torch.where(improved, agreement, best)
                for name, weights in networks.state_dict().items():
                    kept[name][improved] = weights[improved]
            if on_step is not None:
                on_step(step)

        values = torch.stack(terms_by_step, dim=-1).cpu().numpy()
        steps = np.arange(1, self.steps + 1)
        curves = {name: (steps, values[index]) for index, name in enumerate(terms)}
        if agreement_by_check:
            networks.load_state_dict(kept)
            checks = steps[self.check_every - 1 :: self.check_every]
            curves["agreement"] = (checks, torch.stack(agreement_by_check, dim=-1).cpu().numpy())
        return curves

    def _objective(
        self,
        networks: ConLENetworks,
        features: Float[Tensor, "folds batch features"],
        logical_labels: Float[Tensor, "folds batch labels"],
        present: Bool[Tensor, "folds batch"] | None,
    ) -> ObjectiveTerms:
        """The terms of the objective, and their weighted sum "loss", for each fold."""
        z, q, outputs = networks(features, logical_labels)
        recovered = outputs if self.reading == "raw" else outputs.softmax(dim=-1)
        terms = {}
        if self.use_contrastive_loss:
            terms["contrastive_loss"] = contrastive_loss(z, q, self.temperature, present)
        terms["distance_loss"] = distance_loss(recovered, logical_labels, self.reduction, present)
        loss = terms.get("contrastive_loss", 0.0) + self.lambda1 * terms["distance_loss"]
        if self.use_threshold_loss:
            terms["threshold_loss"] = threshold_loss(
                recovered, logical_labels, self.epsilon, present
            )
            loss = loss + self.lambda2 * terms["threshold_loss"]
        return {"loss": loss} | terms

    def _recovered(
        self, outputs: Float[Tensor, "folds samples labels"]
    ) -> Float[Tensor, "folds samples labels"]:
        """The recovered distributions from F3's output."""
        recovered = outputs.softmax(dim=-1)
        return recovered.softmax(dim=-1) if self.reading == "double" else recovered

    @torch.no_grad()
    def _agreement(
        self,
        networks: ConLENetworks,
        features: Float[Tensor, "folds samples features"],
        logical_labels: Float[Tensor, "folds samples labels"],
        is_training: Bool[Tensor, "folds samples"],
    ) -> Float[Tensor, " folds"]:
        """Share of a fold's training rows whose recovered distribution binarises to their L."""
        recovered = self._recovered(networks(features, logical_labels)[2])
        agrees = binarises_to(recovered, logical_labels, self.threshold) & is_training
        return agrees.sum(dim=-1) / is_training.sum(dim=-1)

    def _networks(
        self, generators: Sequence[torch.Generator], features: int, labels: int
    ) -> ConLENetworks:
        return ConLENetworks(generators, features, labels, self.hidden, self.embedding)

    def check_hyperparameters(self) -> None:
        """See `LabelEnhancer.check_hyperparameters`."""
        super().check_hyperparameters()
        resolve_device(self.device)
        if self.stopping == "agreement" and self.check_every > self.steps:
            raise ValueError(
                f"check_every ({self.check_every}) must not exceed steps ({self.steps}): the "
                "agreement would never be checked"
            )


def binarises_to(
    distributions: Float[Tensor, "*folds samples labels"],
    logical_labels: Float[Tensor, "*folds samples labels"],
    threshold: float,
) -> Bool[Tensor, "*folds samples"]:
    """Whether binarising each distribution gives its logical labels, without sorting.

    It does when every relevant degree exceeds every irrelevant one, the relevant mass exceeds T,
    and without the smallest relevant degree it does not. Equal degrees of a relevant and an
    irrelevant label count as not giving them back.
    """
    relevant = logical_labels > 0.5
    smallest_relevant = distributions.masked_fill(~relevant, torch.inf).amin(dim=-1)
    largest_irrelevant = distributions.masked_fill(relevant, -torch.inf).amax(dim=-1)
    mass = (distributions * relevant).sum(dim=-1)
    return (
        (smallest_relevant > largest_irrelevant)
        & (mass > threshold)
        & (mass - smallest_relevant <= threshold)
    )


def _labels_tensor(
    logical_labels: LogicalLabels, folds: int, device: torch.device
) -> Float[Tensor, "folds samples labels"]:
    labels = torch.from_numpy(logical_labels.astype(np.float32)).to(device)
    return labels.expand(folds, *labels.shape)


def _as_distributions(
    recovered: Float[Tensor, "*folds samples labels"],
) -> Float[np.ndarray, "*folds samples labels"]:
    """float64, and rows that sum to 1 to its precision."""
    recovered = recovered.cpu().numpy().astype(np.float64)
    return recovered / recovered.sum(axis=-1, keepdims=True)
