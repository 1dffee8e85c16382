"""Noise from one generator per fold."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from conle.methods.training.samples import Samples


def standard_normal(
    generators: Sequence[torch.Generator], batch: Samples, units: int
) -> Float[Tensor, "folds batch units"]:
    """Standard normal noise for a batch, zero for its padding.

    The draws of a fold depend neither on the other folds nor on the padding.

    Args:
        generators: one per fold.
        batch: the samples of each fold.
        units: number of draws for a sample.
    """
    folds, width = batch.features.shape[:2]
    drawn = torch.zeros(folds, width, units)
    for fold, (generator, count) in enumerate(zip(generators, batch.counts, strict=True)):
        torch.randn((count, units), generator=generator, out=drawn[fold, :count])
    return drawn.to(batch.features.device)
