"""ConLE's threshold loss, which lifts relevant labels above irrelevant ones by a margin."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def threshold_loss(
    recovered: Float[Tensor, "*folds batch labels"],
    logical_labels: Float[Tensor, "*folds batch labels"],
    epsilon: float = 0.1,
    present: Bool[Tensor, "*folds batch"] | None = None,
) -> Float[Tensor, "*folds"]:
    """Mean of max(max_irrelevant d - min_relevant d + epsilon, 0), the paper's max-min form.

    A sample whose labels are all relevant or all irrelevant contributes 0.

    Source: Wang et al., "Contrastive label enhancement", IJCAI 2023, equations 7 and 8.

    Args:
        recovered: recovered distributions, one batch per fold.
        logical_labels: logical labels, each 0 or 1.
        epsilon: the margin between relevant and irrelevant labels.
        present: which rows of a batch are samples; the others are padding and take no part.

    Returns:
        One value per fold, at least 0.

    Example:
        >>> d = torch.tensor([[0.5, 0.3, 0.2]])
        >>> round(threshold_loss(d, torch.tensor([[1.0, 0.0, 0.0]]), epsilon=0.3).item(), 4)
        0.1
    """
    relevant = logical_labels > 0.5
    largest_irrelevant = recovered.masked_fill(relevant, -torch.inf).amax(dim=-1)
    smallest_relevant = recovered.masked_fill(~relevant, torch.inf).amin(dim=-1)
    # Without irrelevant (or relevant) labels the difference is -inf and the term 0.
    per_sample = (largest_irrelevant - smallest_relevant + epsilon).clamp(min=0.0)
    if present is None:
        return per_sample.mean(dim=-1)
    total = torch.where(present, per_sample, 0.0).sum(dim=-1)
    return total / present.sum(dim=-1).clamp(min=1)
