"""ConLE's distance loss, which keeps recovered distributions close to the logical labels."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def distance_loss(
    recovered: Float[Tensor, "*folds batch labels"],
    logical_labels: Float[Tensor, "*folds batch labels"],
    reduction: str = "mean",
    present: Bool[Tensor, "*folds batch"] | None = None,
) -> Float[Tensor, "*folds"]:
    """Squared Euclidean distance |F3(H_m) - L_m|^2 between recovered and logical labels.

    Source: Wang et al., "Contrastive label enhancement", IJCAI 2023, equation 6.

    Args:
        recovered: recovered distributions, one batch per fold.
        logical_labels: logical labels, each 0 or 1.
        reduction: "sum" over the samples of a batch, as in the paper, or their "mean".
        present: which rows of a batch are samples; the others are padding and take no part.

    Returns:
        One value per fold, at least 0.

    Raises:
        ValueError: reduction is neither "mean" nor "sum".

    Example:
        >>> distance_loss(torch.tensor([[0.5, 0.5]]), torch.tensor([[1.0, 0.0]])).item()
        0.5
    """
    if reduction not in ("mean", "sum"):
        raise ValueError(f'reduction must be "mean" or "sum", not {reduction!r}')
    per_sample = (recovered - logical_labels).square().sum(dim=-1)
    if present is None:
        return per_sample.mean(dim=-1) if reduction == "mean" else per_sample.sum(dim=-1)
    total = torch.where(present, per_sample, 0.0).sum(dim=-1)
    return total / present.sum(dim=-1).clamp(min=1) if reduction == "mean" else total
