"""LEVI-MLP: variational label enhancement with multi-layer perceptrons.

Source: Xu, Shu, Zheng, Geng, Meng, Zhang, "Variational label enhancement", TPAMI 2022 (and ICML
2020).
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from conle.core.hyperparameters import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    Share,
)
from conle.methods.contract import Features, Split
from conle.methods.training.enhancer import AdamEnhancer
from conle.methods.training.layers import BatchedLinear
from conle.methods.training.loop import ObjectiveTerms
from conle.methods.training.noise import standard_normal
from conle.methods.training.samples import Samples
from conle.methods.training.scaling import FeatureScaling
from conle.methods.training.sparse_rows import SparseRows

# This limit keeps the logarithm of a standard deviation finite.
SMALLEST_DEVIATION = 1e-6


class LEVINetworks(nn.Module):
    """Encoder and decoder of LEVI-MLP, one of each per fold.

    The encoder maps [X, L] to mean and standard deviation of a latent z, the decoder z to X. The
    last c coordinates of z are the logits of the labels.
    """

    def __init__(
        self,
        generators: Sequence[torch.Generator],
        features: int,
        labels: int,
        hidden: int,
        latent: int,
    ) -> None:
        super().__init__()
        self.latent = latent
        widths = [features + labels, hidden, hidden]
        self.encoder = nn.ModuleList(BatchedLinear(generators, *pair) for pair in pairwise(widths))
        self.moments = BatchedLinear(generators, hidden, 2 * latent)
        widths = [latent, hidden, hidden]
        self.decoder = nn.ModuleList(BatchedLinear(generators, *pair) for pair in pairwise(widths))
        self.features = BatchedLinear(generators, hidden, features)

    def encode(
        self,
        features: Float[Tensor, "folds batch features"] | SparseRows,
        logical_labels: Float[Tensor, "folds batch labels"],
        dropout: "Dropout | None" = None,
    ) -> tuple[Float[Tensor, "folds batch latent"], Float[Tensor, "folds batch latent"]]:
        """Mean and standard deviation of z."""
        if isinstance(features, SparseRows):
            x = features.beside(logical_labels)
        else:
            x = torch.cat([features, logical_labels], dim=-1)
        mean, spread = self.moments(_hidden(self.encoder, x, dropout)).split(self.latent, dim=-1)
        return mean, functional.softplus(spread) + SMALLEST_DEVIATION

    def reconstruction_error(
        self,
        z: Float[Tensor, "folds batch latent"],
        features: Float[Tensor, "folds batch features"] | SparseRows,
        dropout: "Dropout | None" = None,
    ) -> Float[Tensor, "folds batch"]:
        """Squared distance of the features from their reconstruction from z."""
        return self.features.squared_error(_hidden(self.decoder, z, dropout), features)


class Dropout:
    """Dropout from one generator per fold.

    The draws of a fold do not depend on the other folds.

    Args:
        rate: share of units set to zero.
        generators: one per fold.
        counts: number of samples of each fold, without padding.
        width: number of rows of a batch, with padding.
        device: device of the batch.
    """

    def __init__(
        self,
        rate: float,
        generators: Sequence[torch.Generator],
        counts: Sequence[int],
        width: int,
        device: torch.device,
    ) -> None:
        self.rate, self.generators, self.counts = rate, generators, counts
        self.width, self.device = width, device

    def relu(self, x: Float[Tensor, "folds batch units"]) -> Float[Tensor, "folds batch units"]:
        """Rectify, set a share of the units to zero, and scale the others up.

        The share is rounded to 16 bits.
        """
        if self.rate == 0:
            return x.relu()
        units, lowest = x.shape[-1], torch.iinfo(torch.int64).min
        # One number is drawn for four units; one number for each unit takes ten times as long.
        drawn = torch.zeros(len(x), -(-self.width * units // 4), dtype=torch.int64)
        for fold, (generator, count) in enumerate(zip(self.generators, self.counts, strict=True)):
            drawn[fold, : -(-count * units // 4)].random_(lowest, None, generator=generator)
        bits = drawn.view(torch.int16)[:, : self.width * units].view(x.shape).to(self.device)
        # A comparison into floats is three times as fast as one into booleans.
        kept = torch.ge(bits, int(self.rate * 2**16) - 2**15, out=torch.empty_like(x))
        return x.relu() * kept.mul_(1 / (1 - self.rate))


class LEVIMLP(AdamEnhancer):
    """Variational label enhancement: label distributions as a latent variable of [X, L].

    Minimises, per sample, the cross-entropy of L under the sigmoid of the last c coordinates of
    z, plus alpha KL(q(z | X, L) || N(0, 1)), plus beta |X - decoded X|^2, z drawn from q. Features
    are scaled to [0, 1] on the training rows. Recovers the softmax of the sigmoid of the mean of
    those c coordinates. Terms are summed over coordinates, as in the evidence lower bound; the
    paper does not say.

    Attributes:
        weights_: learned arrays by name, their first axis of length one.
        curves_: loss terms by step, as in `FoldRecovery.curves`.
    """

    alpha: NonNegativeFloat = 1.0
    """Weight of the divergence from the prior."""
    beta: NonNegativeFloat = 1.0
    """Weight of the reconstruction of the features."""
    extra_latent: NonNegativeInt = 32
    """Coordinates of z beyond the c labels."""
    hidden: PositiveInt = 100
    """Width of the two hidden layers of encoder and decoder."""
    dropout: Share = 0.1
    """Share of hidden units left out in training."""

    def _scaling(self, features: Features, splits: Sequence[Split]) -> FeatureScaling:
        return FeatureScaling.min_max(features, splits)

    def _networks(
        self, generators: Sequence[torch.Generator], features: int, labels: int
    ) -> LEVINetworks:
        return LEVINetworks(generators, features, labels, self.hidden, labels + self.extra_latent)

    def _objective(
        self,
        networks: LEVINetworks,
        batch: Samples,
        generators: Sequence[torch.Generator],
    ) -> ObjectiveTerms:
        features, logical_labels = batch.features, batch.logical_labels
        dropout = Dropout(
            self.dropout, generators, batch.counts, features.shape[1], features.device
        )
        mean, deviation = networks.encode(features, logical_labels, dropout)
        noise = standard_normal(generators, batch, mean.shape[-1])
        z = torch.addcmul(mean, deviation, noise)
        label_loss = functional.binary_cross_entropy_with_logits(
            _label_logits(z, logical_labels), logical_labels, reduction="none"
        )
        prior_loss = 0.5 * (mean.square() + deviation.square() - 1) - deviation.log()
        per_sample = {
            "label_loss": label_loss.sum(dim=-1),
            "prior_loss": prior_loss.sum(dim=-1),
            "feature_loss": networks.reconstruction_error(z, features, dropout),
        }
        terms = {name: batch.mean(values) for name, values in per_sample.items()}
        loss = (
            terms["label_loss"]
            + self.alpha * terms["prior_loss"]
            + self.beta * terms["feature_loss"]
        )
        return {"loss": loss} | terms

    def _recovered(
        self,
        networks: LEVINetworks,
        samples: Samples,
    ) -> Float[Tensor, "folds samples labels"]:
        mean, _ = networks.encode(samples.features, samples.logical_labels)
        return _label_logits(mean, samples.logical_labels).sigmoid().softmax(dim=-1)


def _label_logits(z: Tensor, logical_labels: Tensor) -> Float[Tensor, "folds batch labels"]:
    """The last c coordinates of z, which are the logits of the labels."""
    return z[..., -logical_labels.shape[-1] :]


def _hidden(layers: nn.ModuleList, x: Tensor | SparseRows, dropout: Dropout | None) -> Tensor:
    for layer in layers:
        x = layer(x)
        x = x.relu() if dropout is None else dropout.relu(x)
    return x
