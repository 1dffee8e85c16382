"""Features of which nearly all are zero, and their products with the weights of a layer."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from conle.methods.contract import Features

# On a CPU, the gradient of a stored value takes the time of so many values of a dense table.
COST_OF_VALUE = 32


@dataclass(frozen=True)
class SparseRows:
    """The rows of a table per fold, stored as columns and values; a row is padded with zeros.

    Attributes:
        columns: column of each stored value.
        values: the stored values; all others are zero.
        width: number of columns of the table.
    """

    columns: Int[Tensor, "folds rows stored"]
    values: Float[Tensor, "folds rows stored"]
    width: int

    @property
    def shape(self) -> torch.Size:
        """Folds, rows and columns of the table."""
        return torch.Size((*self.values.shape[:2], self.width))

    @property
    def device(self) -> torch.device:
        """Where the values are."""
        return self.values.device

    def __len__(self) -> int:
        """Count the folds."""
        return len(self.values)

    def __getitem__(self, part: tuple[slice, slice]) -> "SparseRows":
        """Some folds and rows."""
        return SparseRows(self.columns[part], self.values[part], self.width)

    def beside(self, dense: Float[Tensor, "folds rows more"]) -> "SparseRows":
        """The table with more columns on its right."""
        more = torch.arange(self.width, self.width + dense.shape[-1], device=dense.device)
        return SparseRows(
            torch.cat([self.columns, more.expand(dense.shape)], dim=-1),
            torch.cat([self.values, dense], dim=-1),
            self.width + dense.shape[-1],
        )

    def times(
        self, weights: Float[Tensor, "folds columns outputs"]
    ) -> Float[Tensor, "folds rows outputs"]:
        """Product of each fold's rows with its weights; only the weights have a gradient."""
        folds, rows, _ = self.shape
        first = self.width * torch.arange(folds, device=self.device)[:, None, None]
        return functional.embedding_bag(
            (self.columns + first).flatten(0, 1),
            weights.flatten(0, 1),
            per_sample_weights=self.values.flatten(0, 1),
            mode="sum",
        ).unflatten(0, (folds, rows))


def columns_of_values(features: Features) -> Int[np.ndarray, "samples stored"] | None:
    """Columns of each row's values other than zero, filled up with those of zeros.

    None where dense features are as fast.
    """
    nonzero = features != 0
    stored = max(1, nonzero.sum(axis=1).max())
    if COST_OF_VALUE * stored > features.shape[1]:
        return None
    return np.argpartition(~nonzero, stored - 1, axis=1)[:, :stored]
