"""Layers with one set of weights per fold."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn


class BatchedLinear(nn.Module):
    """A linear layer per fold: x (folds x batch x in) to x W + b (folds x batch x out).

    Initialised as torch.nn.Linear: uniform on +-1/sqrt(in).
    """

    def __init__(self, generators: Sequence[torch.Generator], inputs: int, outputs: int) -> None:
        super().__init__()
        bound = inputs**-0.5

        def drawn(*shape: int) -> nn.Parameter:
            return nn.Parameter(
                torch.stack([(torch.rand(shape, generator=g) * 2 - 1) * bound for g in generators])
            )

        self.weight, self.bias = drawn(inputs, outputs), drawn(1, outputs)

    def forward(self, x: Float[Tensor, "folds batch in"]) -> Float[Tensor, "folds batch out"]:
        """Apply each fold's layer to its batch."""
        return torch.baddbmm(self.bias, x, self.weight)


def batched_mlp(
    generators: Sequence[torch.Generator], inputs: int, hidden: int, outputs: int
) -> nn.Sequential:
    """Linear, LeakyReLU, Linear for each fold; the weights of a fold come from its generator."""
    return nn.Sequential(
        BatchedLinear(generators, inputs, hidden),
        nn.LeakyReLU(),
        BatchedLinear(generators, hidden, outputs),
    )
