"""The agreement of recovered distributions with logical labels, and the weights at its maximum."""

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from conle.methods.training.loop import CurvesOfFolds


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


class BestWeights:
    """Keeps the weights of each fold at the first maximum of its agreement.

    Args:
        networks: networks in training; every weight has a leading fold axis.
    """

    def __init__(self, networks: nn.Module) -> None:
        self._networks = networks
        self._kept = {name: weights.clone() for name, weights in networks.state_dict().items()}
        first = next(iter(self._kept.values()))
        self._best = torch.full((len(first),), -1.0, device=first.device)
        self._steps: list[int] = []
        self._agreements: list[Tensor] = []

    def update(self, step: int, reached: Float[Tensor, " folds"]) -> None:
        """Keep the present weights of the folds whose agreement exceeds all earlier ones."""
        self._steps.append(step)
        self._agreements.append(reached)
        improved = reached > self._best
        self._best = torch.where(improved, reached, self._best)
        for name, weights in self._networks.state_dict().items():
            # For a boolean index the CPU would wait for the GPU.
            torch.where(improved[:, None, None], weights, self._kept[name], out=self._kept[name])

    def restore(self) -> None:
        """Put the kept weights into the networks.

        A fold whose agreement was always 0 has the present weights.
        """
        never = self._best == 0
        for name, weights in self._networks.state_dict().items():
            self._kept[name][never] = weights[never]
        self._networks.load_state_dict(self._kept)

    def curves(self) -> CurvesOfFolds:
        """The agreement of each fold at its checks, folds x checks."""
        reached = torch.stack(self._agreements, dim=-1).cpu().numpy()
        return {"agreement": (np.array(self._steps), reached)}
