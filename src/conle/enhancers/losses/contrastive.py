"""ConLE's contrastive loss between the two views of a sample: its features and its labels."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

# exp(1 / tau) must be a float32 number.
SMALLEST_TEMPERATURE = 0.02


def contrastive_loss(
    z: Float[Tensor, "*folds batch embedding"],
    q: Float[Tensor, "*folds batch embedding"],
    temperature: float = 0.5,
    present: Bool[Tensor, "*folds batch"] | None = None,
) -> Float[Tensor, "*folds"]:
    """Pull the representations Z_m and Q_m of a sample together, push those of others apart.

    With h the cosine similarity and tau the temperature,

        l_Z(m) = -log( exp(h(Z_m, Q_m) / tau)
                       / sum_{s != m} (exp(h(Z_m, Z_s) / tau) + exp(h(Z_m, Q_s) / tau)) ),

    l_Q(m) is the same with Z and Q exchanged, and the loss is the mean of l_Z(m) + l_Q(m). The
    positive pair is not in the denominator, so the loss can be negative. The paper sums over all
    samples; here s runs over the batch.

    Source: Wang et al., "Contrastive label enhancement", IJCAI 2023, l_Z, l_Q and l_con.

    Args:
        z: representations of the features, one batch per fold.
        q: representations of the logical labels, same shape.
        temperature: tau, at least 0.02.
        present: which rows of a batch are samples; the others are padding and take no part.

    Returns:
        One value per fold; 0 for a batch of fewer than two samples, which has no negative pair.

    Raises:
        ValueError: the temperature is below 0.02.

    Example:
        >>> z = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> round(contrastive_loss(z, z, temperature=1.0).item(), 4)  # 2 (log 2 - 1)
        -0.6137
    """
    if not temperature >= SMALLEST_TEMPERATURE:
        raise ValueError(f"temperature must be at least {SMALLEST_TEMPERATURE}, not {temperature}")
    z, q = functional.normalize(z, dim=-1), functional.normalize(q, dim=-1)
    zz, zq, qq = (z / temperature) @ z.mT, (z / temperature) @ q.mT, (q / temperature) @ q.mT
    positive = zq.diagonal(dim1=-2, dim2=-1)

    # Pairs without a term in the denominator (a sample with itself, padding) are absent, not 0:
    # exp(0) would leave a 1 behind.
    absent = torch.eye(z.shape[-2], dtype=torch.bool, device=z.device)
    if present is not None:
        absent = absent | ~(present[..., :, None] & present[..., None, :])
    zz, zq, qq = (pairs.masked_fill(absent, -torch.inf).exp() for pairs in (zz, zq, qq))
    negatives_of_z = zz.sum(dim=-1) + zq.sum(dim=-1)
    negatives_of_q = qq.sum(dim=-1) + zq.sum(dim=-2)

    # A sample that is alone in its batch has no negatives and no term; nor has padding.
    if present is None:
        has_term = torch.full(z.shape[:-1], z.shape[-2] > 1, device=z.device)
    else:
        has_term = present & (present.sum(dim=-1, keepdim=True) > 1)
    log_negatives = [
        torch.where(has_term, negatives, 1.0).log()
        for negatives in (negatives_of_z, negatives_of_q)
    ]
    per_sample = log_negatives[0] + log_negatives[1] - 2 * positive
    total = torch.where(has_term, per_sample, 0.0).sum(dim=-1)
    return total / has_term.sum(dim=-1).clamp(min=1)
