"""The gradient descent of the folds of a chunk."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from conle.methods.contract import DivergenceError, RecoveredRows, Split
from conle.methods.training.batches import Batch, on_device
from conle.methods.training.cuda_graphs import CUDAGraphStep
from conle.methods.training.optimizers import Optimizer
from conle.methods.training.samples import Samples

# The same as `Curves` of the contract, but for all folds of a chunk.
CurveOfFolds = tuple[Int[np.ndarray, " _"], Float[np.ndarray, "folds _"]]
CurvesOfFolds = dict[str, CurveOfFolds]
ObjectiveTerms = dict[str, Float[Tensor, " folds"]]
# Gives "loss" and its terms for the networks, a batch, and the generators of each fold's noise.
Objective = Callable[[nn.Module, Samples, Sequence[torch.Generator]], ObjectiveTerms]


@dataclass
class TrainingLoop:
    """The samples and batches of the folds of a chunk, and the records of their training.

    Attributes:
        method: name of the method in messages.
        splits: training rows and test rows of each fold.
        samples: all samples, their features as scaled for each fold.
        is_training: which samples are training rows.
        batches: batches of training rows, one per step.
        steps: number of steps.
        generators: generators of each fold's noise.
        on_step: called after every step.
        curves: quantities followed in training, their values folds x steps.
        snapshots: test rows of each fold as they were recovered after some steps.
    """

    method: str
    splits: Sequence[Split]
    samples: Samples
    is_training: Bool[Tensor, "folds samples"]
    batches: Iterator[Batch]
    steps: int
    generators: Sequence[torch.Generator]
    on_step: Callable[[], None]
    curves: CurvesOfFolds = field(default_factory=dict)
    snapshots: list[dict[int, RecoveredRows]] = field(init=False)

    def __post_init__(self) -> None:
        """Start without snapshots."""
        self.snapshots = [{} for _ in self.splits]

    def descend(
        self,
        networks: nn.Module,
        optimizer: Optimizer,
        objective: Objective,
        cuda_graph: bool = False,
    ) -> Iterator[int]:
        """Do the steps of the gradient descent for all folds at once.

        Args:
            networks: networks of all folds; their weights are changed in place.
            optimizer: optimiser of the weights.
            objective: "loss", which is minimised, and its terms.
            cuda_graph: capture the steps on a GPU; the objective must draw no random numbers and
                never wait for the GPU.

        Yields:
            The number of each step, from 1, when it is done.

        Raises:
            DivergenceError: a loss was not finite; raised at the end.
        """
        folds, device = len(self.splits), self.samples.features.device
        names: list[str] = []

        def gradient_step(rows: Tensor, present: Tensor | None) -> Float[Tensor, "terms folds"]:
            terms = objective(networks, self.samples.take(rows, present), self.generators)
            optimizer.zero_grad()
            terms["loss"].sum().backward()
            optimizer.step()
            names[:] = terms
            return torch.stack([term.detach() for term in terms.values()])

        if cuda_graph and device.type == "cuda":
            gradient_step = CUDAGraphStep(gradient_step)
        # One array holds all terms: small ones between large temporaries would fragment the memory.
        values = torch.empty(0)
        for step, (rows, present) in enumerate(on_device(self.batches, device), start=1):
            networks.train()
            terms = gradient_step(rows, present)
            if step == 1:
                values = torch.empty(len(terms), self.steps, folds, device=device)
            values[:, step - 1] = terms
            yield step
            self.on_step()

        values = values.mT.cpu().numpy()
        self._refuse_divergence(values[0])
        taken = np.arange(1, self.steps + 1)
        self.curves |= {name: (taken, values[index]) for index, name in enumerate(names)}

    def take_snapshot(
        self, step: int, recovered: Float[np.ndarray, "folds samples labels"]
    ) -> None:
        """Keep the recovered test rows of every fold."""
        for fold, (_, test) in enumerate(self.splits):
            self.snapshots[fold][step] = recovered[fold][test]

    def _refuse_divergence(self, loss: Float[np.ndarray, "folds steps"]) -> None:
        finite = np.isfinite(loss)
        if not finite.all():
            step = int((~finite).any(axis=0).argmax()) + 1
            raise DivergenceError(
                f"{self.method} diverged: the loss of {(~finite[:, step - 1]).sum()} of "
                f"{len(loss)} folds is not finite at step {step}; lower the learning rate"
            )
