"""Scores of recovered distributions by L alone, and the weights at the maximum of a score."""

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from conle.methods.references import LabelPosterior
from conle.methods.training.loop import CurveOfFolds


def binarises_to(
    distributions: Float[Tensor, "*folds samples labels"],
    logical_labels: Float[Tensor, "*folds samples labels"],
    threshold: float,
) -> Bool[Tensor, "*folds samples"]:
    """Whether binarising each distribution gives its logical labels, without sorting.

    The answer is yes if every relevant degree exceeds every irrelevant one, the relevant mass
    exceeds T, and the relevant mass without the smallest relevant degree does not. If a relevant
    and an irrelevant degree are equal, the answer is no.
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


def agreement(
    recovered: Float[Tensor, "folds samples labels"],
    logical_labels: Float[Tensor, "folds samples labels"],
    is_training: Bool[Tensor, "folds samples"],
    threshold: float,
) -> Float[Tensor, " folds"]:
    """Share of a fold's training rows whose recovered distribution binarises to their L."""
    agrees = binarises_to(recovered, logical_labels, threshold) & is_training
    return agrees.sum(dim=-1) / is_training.sum(dim=-1)


class LabelPosteriorDivergence:
    """The mean KL divergence of recovered distributions from the label posterior of their fold.

    The label posterior (`conle.methods.references`) is fitted to L of the fold's training rows. If
    the true distributions were drawn as it assumes, this is their expected KL divergence up to a
    constant: E[KL(D || R)] = E[D log D] - E[D] log R. Rows whose labels are all relevant or all
    irrelevant say nothing and do not count.

    Args:
        logical_labels: logical labels of all samples, the same in every fold.
        is_training: which samples are training rows.
        threshold: T of the binarisation.
        seed: seed of the label posterior.
    """

    def __init__(
        self,
        logical_labels: Float[Tensor, "folds samples labels"],
        is_training: Bool[Tensor, "folds samples"],
        threshold: float,
        seed: int,
    ) -> None:
        L = logical_labels[0].cpu().numpy()
        posterior = LabelPosterior(threshold=threshold, seed=seed)
        expected = []
        for own in is_training.cpu().numpy():
            # It takes features, as every method does, and does not look at them.
            expected.append(posterior.fit(L[own], L[own]).transform(L, L))
        self._expected = torch.from_numpy(np.stack(expected)).to(logical_labels)
        k = logical_labels.sum(dim=-1)
        self._counts = is_training & (k > 0) & (k < logical_labels.shape[-1])

    def __call__(self, recovered: Float[Tensor, "folds samples labels"]) -> Float[Tensor, " folds"]:
        """The divergence of each fold; 0 for a fold without a row that counts."""
        rows = (self._expected * (self._expected / recovered).log()).sum(dim=-1)
        rows = rows.masked_fill(~self._counts, 0.0)
        return rows.sum(dim=-1) / self._counts.sum(dim=-1).clamp(min=1)


class BestWeights:
    """Keeps the weights of each fold at the first maximum of a score.

    Args:
        networks: networks in training; every weight has a leading fold axis.
        lowest: a fold whose score never exceeds it keeps its last weights.
    """

    def __init__(self, networks: nn.Module, lowest: float) -> None:
        self._networks, self._lowest = networks, lowest
        self._kept = {name: weights.clone() for name, weights in networks.state_dict().items()}
        first = next(iter(self._kept.values()))
        self._best = torch.full((len(first),), lowest, device=first.device)
        self._steps: list[int] = []
        self._scores: list[Tensor] = []

    def update(self, step: int, score: Float[Tensor, " folds"]) -> None:
        """Keep the present weights of the folds whose score exceeds all earlier ones."""
        self._steps.append(step)
        self._scores.append(score)
        improved = score > self._best
        self._best = torch.where(improved, score, self._best)
        for name, weights in self._networks.state_dict().items():
            # For a boolean index the CPU would wait for the GPU.
            torch.where(improved[:, None, None], weights, self._kept[name], out=self._kept[name])

    def restore(self) -> None:
        """Put the kept weights into the networks."""
        never = self._best == self._lowest
        for name, weights in self._networks.state_dict().items():
            self._kept[name][never] = weights[never]
        self._networks.load_state_dict(self._kept)

    def scores(self) -> CurveOfFolds:
        """The steps of the checks, and the score of each fold at each, folds x checks."""
        return np.array(self._steps), torch.stack(self._scores, dim=-1).cpu().numpy()
