"""Representations of the features: none, principal components, or ConLE's Z.

The posterior decoder regresses log degrees on them. A representation is learned from the features
(and, for Z, the logical labels) of the training rows of a fold.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from sklearn.decomposition import PCA

from conle.methods.conle import ConLE, ConLENetworks
from conle.methods.contract import Features, LogicalLabels, ProgressCallback, Split
from conle.methods.training.scaling import FeatureScaling
from conle.methods.training.scheduling import resolve_device

# Smaller deviations of the vectors Z, whose length is one, are rounding errors.
ROUNDING = 1e-6


@runtime_checkable
class Representation(Protocol):
    """A function of the features of a sample."""

    def __call__(self, features: Features) -> Float[np.ndarray, "samples dimensions"]:
        """Represent samples."""

    def get_weights(self) -> dict[str, np.ndarray]:
        """Return the learned arrays by name."""


@runtime_checkable
class RepresentationLearner(Protocol):
    """Learns a representation for every fold."""

    def __call__(
        self,
        features: Features,
        logical_labels: LogicalLabels,
        splits: Sequence[Split],
        on_progress: ProgressCallback | None,
    ) -> list[Representation]:
        """One function of the features for each fold."""

    def restore(self, weights: Mapping[str, np.ndarray], labels: int) -> Representation:
        """Restore a representation from its weights; labels is the number of labels c."""


class NoRepresentation:
    """The empty representation: every sample has the same mean."""

    def __call__(self, features: Features) -> Float[np.ndarray, "samples 0"]:
        """Represent samples in no dimensions."""
        return np.empty((len(features), 0))

    def get_weights(self) -> dict[str, np.ndarray]:
        """Return no arrays."""
        return {}


class NoLearner:
    """Gives the empty representation."""

    def __call__(
        self, features, logical_labels, splits, on_progress=None
    ) -> list[NoRepresentation]:
        """See `RepresentationLearner`."""
        return [NoRepresentation() for _ in splits]

    def restore(self, weights: Mapping[str, np.ndarray], labels: int) -> NoRepresentation:
        """See `RepresentationLearner`."""
        return NoRepresentation()


@dataclass(frozen=True)
class PrincipalComponents:
    """Principal components of the standardised, clipped features.

    They are divided by the mean of their standard deviations on the training rows.
    """

    scaling: FeatureScaling
    mean: Float[np.ndarray, " features"]
    components: Float[np.ndarray, "dimensions features"]
    divisor: float

    def __call__(self, features: Features) -> Float[np.ndarray, "samples dimensions"]:
        """Project samples."""
        scaled = self.scaling.scale_for(0, features)
        scaled -= self.mean
        return scaled @ self.components.T / self.divisor

    def get_weights(self) -> dict[str, np.ndarray]:
        """Return the learned arrays by name."""
        return self.scaling.get_weights() | {
            "mean": self.mean,
            "components": self.components,
            "divisor": np.array(self.divisor),
        }


@dataclass(frozen=True)
class PrincipalComponentsLearner:
    """Learns `PrincipalComponents`.

    Attributes:
        dimensions: largest number of components; there are no more than features or samples.
        clip: largest absolute value of a standardised feature.
        seed: seed of the randomised decomposition of wide matrices.
    """

    dimensions: int
    clip: float
    seed: int

    def __call__(
        self, features, logical_labels, splits, on_progress=None
    ) -> list[PrincipalComponents]:
        """See `RepresentationLearner`."""
        learned = []
        for number, split in enumerate(splits, start=1):
            scaling = FeatureScaling.standard(features, [split], self.clip)
            training = scaling.scale_for(0, features[split[0]], copy=False)
            pca = PCA(min(self.dimensions, *training.shape), copy=False, random_state=self.seed)
            # With equal samples the shares of the variance, which are not needed, are 0 / 0.
            with np.errstate(invalid="ignore"):
                pca.fit(training)
            variances = pca.explained_variance_ * (len(training) - 1) / len(training)
            spread = float(np.sqrt(variances).mean())
            # A single sample has no variance.
            divisor = spread if spread > 0 else 1.0
            learned.append(PrincipalComponents(scaling, pca.mean_, pca.components_, divisor))
            if on_progress is not None:
                on_progress(number, len(splits), f"principal components of fold {number}")
        return learned

    def restore(self, weights: Mapping[str, np.ndarray], labels: int) -> PrincipalComponents:
        """See `RepresentationLearner`."""
        return PrincipalComponents(
            FeatureScaling.from_weights(weights),
            weights["mean"],
            weights["components"],
            float(weights["divisor"]),
        )


@dataclass(frozen=True)
class ContrastiveEmbedding:
    """ConLE's Z = F1(x): of length one, centred and divided by its overall standard deviation."""

    networks: ConLENetworks
    scaling: FeatureScaling
    centre: Float[np.ndarray, " embedding"]
    divisor: float

    def __call__(self, features: Features) -> Float[np.ndarray, "samples embedding"]:
        """Embed samples."""
        return (self._unit(features) - self.centre) / self.divisor

    def get_weights(self) -> dict[str, np.ndarray]:
        """Return the learned arrays by name."""
        networks = {name: value.cpu().numpy() for name, value in self.networks.state_dict().items()}
        return (
            self.scaling.get_weights()
            | networks
            | {"centre": self.centre, "divisor": np.array(self.divisor)}
        )

    def _unit(self, features: Features) -> Float[np.ndarray, "samples embedding"]:
        device = next(self.networks.parameters()).device
        with torch.no_grad():
            z = self.networks.f1(self.scaling.apply(features, device))[0]
        z = z.cpu().numpy().astype(np.float64)
        return z / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), np.finfo(float).tiny)

    @classmethod
    def centred_on(
        cls, networks: ConLENetworks, scaling: FeatureScaling, features: Features
    ) -> "ContrastiveEmbedding":
        """Centre and scale the embedding on some samples."""
        embedding = cls(networks, scaling, np.zeros(1), 1.0)
        z = embedding._unit(features)
        centre = z.mean(axis=0)
        deviation = float((z - centre).std())
        return cls(networks, scaling, centre, deviation if deviation > ROUNDING else 1.0)


@dataclass(frozen=True)
class ContrastiveLearner:
    """Trains ConLE and keeps F1 as the representation.

    Attributes:
        conle: the unfitted enhancer.
    """

    conle: ConLE

    def __call__(
        self, features, logical_labels, splits, on_progress=None
    ) -> list[ContrastiveEmbedding]:
        """See `RepresentationLearner`."""
        recovery = self.conle.recover_folds(features, logical_labels, splits, on_progress)
        device = resolve_device(self.conle.device)
        learned = []
        for fold, (training, _) in enumerate(splits):
            weights = {name: values[[fold]] for name, values in recovery.weights.items()}
            networks, scaling = self.conle.trained_networks(weights, logical_labels.shape[1])
            learned.append(
                ContrastiveEmbedding.centred_on(networks.to(device), scaling, features[training])
            )
        return learned

    def restore(self, weights: Mapping[str, np.ndarray], labels: int) -> ContrastiveEmbedding:
        """See `RepresentationLearner`."""
        networks, scaling = self.conle.trained_networks(weights, labels)
        return ContrastiveEmbedding(
            networks.to(resolve_device(self.conle.device)),
            scaling,
            weights["centre"],
            float(weights["divisor"]),
        )
