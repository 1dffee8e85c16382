"""LIBLE: label information bottleneck for label enhancement.

Source: Zheng, Zhu, Tang, "Label information bottleneck for label enhancement", CVPR 2023
(arXiv 2303.06836), and the code that its authors published, github.com/qinghai-zheng/LIBLE.
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from conle.core.hyperparameters import (
    NonNegativeFloat,
    PositiveInt,
)
from conle.methods.contract import Features, Split
from conle.methods.training.enhancer import AdamEnhancer
from conle.methods.training.layers import BatchedLinear
from conle.methods.training.loop import ObjectiveTerms
from conle.methods.training.noise import standard_normal
from conle.methods.training.samples import Samples
from conle.methods.training.scaling import FeatureScaling

# This limit keeps the logarithm and the inverse of a standard deviation finite.
SMALLEST_DEVIATION = 1e-3
# A test row may be far from the training rows, in units of their deviation.
FEATURE_CLIP = 10.0


class LIBLENetworks(nn.Module):
    """Encoder of the features and three heads of the representation h, one of each per fold.

    The encoder maps X to mean and standard deviation of h. From h follow the logits of the label
    assignment, the degrees, and the standard deviation of the label gap, one per sample.
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
        half = -(-hidden // 2)
        self.encoder = _perceptron(generators, [features, hidden, hidden, 2 * latent])
        self.assignment = BatchedLinear(generators, latent, labels)
        self.degrees = _perceptron(generators, [latent, hidden, half, labels])
        self.gap = _perceptron(generators, [latent, hidden, half, 1])

    def encode(
        self, features: Float[Tensor, "folds batch features"]
    ) -> tuple[Float[Tensor, "folds batch latent"], Float[Tensor, "folds batch latent"]]:
        """Mean and standard deviation of h."""
        mean, spread = self.encoder(features).split(self.latent, dim=-1)
        return mean, functional.softplus(spread) + SMALLEST_DEVIATION

    def gap_deviation(
        self, h: Float[Tensor, "folds batch latent"]
    ) -> Float[Tensor, "folds batch 1"]:
        """Standard deviation of the gap between logical labels and degrees."""
        return functional.softplus(self.gap(h)) + SMALLEST_DEVIATION


class LIBLE(AdamEnhancer):
    """Label information bottleneck: degrees from a representation that keeps what labels need.

    Minimises, per sample and with h drawn from q(h | x),

    - the assignment of the labels, the cross-entropy of L under the softmax of a linear map of h,
    - plus beta KL(q(h | x) || N(0, I)), the bottleneck,
    - plus alpha times the label gap, the negative log-likelihood of L - d under a normal
      distribution with mean 0 and a standard deviation sigma(h): the mean over the labels of
      (l - d)^2 / (2 sigma^2) + ln sigma.

    Degrees d, sigma and the assignment are networks of h. Features are standardised on the training
    rows. Recovers the softmax of d at the mean of h. This is a function of the features alone: the
    logical labels of a new sample are not read.

    Attributes:
        weights_: learned arrays by name, their first axis of length one.
        curves_: loss terms by step, as in `FoldRecovery.curves`.
    """

    alpha: NonNegativeFloat = 1.0
    """Weight of the label gap."""
    beta: NonNegativeFloat = 0.1
    """Weight of the divergence from the prior."""
    latent: PositiveInt = 32
    """Coordinates of h."""
    hidden: PositiveInt = 100
    """Width of hidden layers; the second one of the heads of d and sigma has half of it."""
    epochs: PositiveInt = 100
    """Passes over the training rows."""

    def _scaling(self, features: Features, splits: Sequence[Split]) -> FeatureScaling:
        return FeatureScaling.standard(features, splits, FEATURE_CLIP)

    def _networks(
        self, generators: Sequence[torch.Generator], features: int, labels: int
    ) -> LIBLENetworks:
        return LIBLENetworks(generators, features, labels, self.hidden, self.latent)

    def _objective(
        self,
        networks: LIBLENetworks,
        batch: Samples,
        generators: Sequence[torch.Generator],
    ) -> ObjectiveTerms:
        logical_labels = batch.logical_labels
        mean, deviation = networks.encode(batch.features)
        h = torch.addcmul(mean, deviation, standard_normal(generators, batch, self.latent))
        sigma = networks.gap_deviation(h)
        gap = logical_labels - networks.degrees(h)
        per_sample = {
            "assignment_loss": -(logical_labels * networks.assignment(h).log_softmax(-1)).sum(-1),
            "prior_loss": (0.5 * (mean.square() + deviation.square() - 1) - deviation.log()).sum(
                dim=-1
            ),
            "gap_loss": (0.5 * (gap / sigma).square() + sigma.log()).mean(dim=-1),
        }
        terms = {name: batch.mean(values) for name, values in per_sample.items()}
        loss = (
            terms["assignment_loss"]
            + self.beta * terms["prior_loss"]
            + self.alpha * terms["gap_loss"]
        )
        return {"loss": loss} | terms

    def _recovered(
        self, networks: LIBLENetworks, samples: Samples
    ) -> Float[Tensor, "folds samples labels"]:
        mean, _ = networks.encode(samples.features)
        return networks.degrees(mean).softmax(dim=-1)


def _perceptron(generators: Sequence[torch.Generator], widths: Sequence[int]) -> nn.Sequential:
    """Linear layers with a sigmoid between any two."""
    first, *others = pairwise(widths)
    layers = [BatchedLinear(generators, *first)]
    for pair in others:
        layers += [nn.Sigmoid(), BatchedLinear(generators, *pair)]
    return nn.Sequential(*layers)
