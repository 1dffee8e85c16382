"""Layers with one set of weights per fold."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from conle.methods.training.sparse_rows import SparseRows


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

    def forward(
        self, x: Float[Tensor, "folds batch in"] | SparseRows
    ) -> Float[Tensor, "folds batch out"]:
        """Apply each fold's layer to its batch."""
        if isinstance(x, SparseRows):
            return self.bias + x.times(self.weight)
        return torch.baddbmm(self.bias, x, self.weight)

    def squared_error(
        self,
        x: Float[Tensor, "folds batch in"],
        target: Float[Tensor, "folds batch out"] | SparseRows,
    ) -> Float[Tensor, "folds batch"]:
        """Squared distance of each sample's output from its target."""
        if not isinstance(target, SparseRows):
            return functional.mse_loss(self(x), target, reduction="none").sum(dim=-1)
        # With v = [x, 1], M = [W; b] and target t: |vM - t|^2 = v(MM')v' - 2 v(tM')' + tt'.
        v = functional.pad(x, (0, 1), value=1.0)
        m = torch.cat([self.weight, self.bias], dim=1)
        of_output = torch.bmm(v, torch.bmm(m, m.mT)) - 2 * target.times(m.mT)
        return (v * of_output).sum(dim=-1) + target.values.square().sum(dim=-1)


def batched_mlp(
    generators: Sequence[torch.Generator], inputs: int, hidden: int, outputs: int
) -> nn.Sequential:
    """Linear, LeakyReLU, Linear for each fold; the weights of a fold come from its generator."""
    return nn.Sequential(
        BatchedLinear(generators, inputs, hidden),
        nn.LeakyReLU(),
        BatchedLinear(generators, hidden, outputs),
    )
