"""ConLE's contrastive loss between the two views of a sample: its features and its labels."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import normalize

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

    ConLE is trained with `conle.methods.training.fused_contrast`, the same loss in less time.

    Source: Wang et al., "Contrastive label enhancement", IJCAI 2023, l_Z, l_Q and l_con.

    Args:
        z: representations of the features, one batch per fold.
        q: representations of the logical labels.
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
    check_temperature(temperature)
    z, q = normalize(z, dim=-1), normalize(q, dim=-1)
    zz, zq, qq = ((a @ b.mT / temperature).exp() for a, b in ((z, z), (z, q), (q, q)))
    if present is None:
        present = torch.ones(z.shape[:-1], dtype=torch.bool, device=z.device)
    itself = torch.eye(z.shape[-2], dtype=torch.bool, device=z.device)
    negative = present[..., None] & present[..., None, :] & ~itself
    has_negatives = negative.any(dim=-1)
    of_z, of_q = ((pairs * negative).sum(dim=-1) for pairs in (zz + zq, qq + zq.mT))
    # A sample that is alone in its batch has no term, and padding has none.
    of_z, of_q = (torch.where(has_negatives, negatives, 1.0) for negatives in (of_z, of_q))
    positive = (z * q).sum(dim=-1) / temperature
    per_sample = torch.where(has_negatives, of_z.log() + of_q.log() - 2 * positive, 0.0)
    return per_sample.sum(dim=-1) / has_negatives.sum(dim=-1).clamp(min=1)


def check_temperature(temperature: float) -> None:
    """Refuse a temperature below `SMALLEST_TEMPERATURE`.

    Raises:
        ValueError: the temperature is too small, or no number.
    """
    if not temperature >= SMALLEST_TEMPERATURE:
        raise ValueError(f"temperature must be at least {SMALLEST_TEMPERATURE}, not {temperature}")
