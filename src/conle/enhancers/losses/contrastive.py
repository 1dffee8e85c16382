"""ConLE's contrastive loss between the two views of a sample: its features and its labels."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable
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
    return _Contrast.apply(z, q, temperature, present)


class _Contrast(torch.autograd.Function):
    """The loss of normalised z and q, and its gradient.

    Written out because of its memory traffic: what autograd would keep and pass through of the
    three batch x batch matrices takes longer than their products.
    """

    @staticmethod
    def forward(ctx, z, q, temperature, present):
        zz, zq, qq = ((one / temperature) @ other.mT for one, other in ((z, z), (z, q), (q, q)))
        positive = zq.diagonal(dim1=-2, dim2=-1).clone()
        # Pairs without a term in the denominator: a sample with itself, and padding.
        if present is None:
            has_term = torch.full(z.shape[:-1], z.shape[-2] > 1, device=z.device)
        else:
            has_term = present & (present.sum(dim=-1, keepdim=True) > 1)
            both = (present[..., :, None] & present[..., None, :]).to(z.dtype)
        for pairs in (zz, zq, qq):
            pairs.exp_()
            if present is not None:
                pairs.mul_(both)
            pairs.diagonal(dim1=-2, dim2=-1).zero_()
        # A sample that is alone in its batch has no negatives and no term; nor has padding.
        negatives = [
            torch.where(has_term, sums, 1.0)
            for sums in (zz.sum(dim=-1) + zq.sum(dim=-1), qq.sum(dim=-1) + zq.sum(dim=-2))
        ]
        per_sample = negatives[0].log() + negatives[1].log() - 2 * positive
        share = has_term.to(z.dtype) / has_term.sum(dim=-1, keepdim=True).clamp(min=1)
        ctx.temperature = temperature
        ctx.save_for_backward(z, q, zz, zq, qq, *negatives, share)
        return (share * per_sample).sum(dim=-1)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        z, q, zz, zq, qq, negatives_of_z, negatives_of_q, share = ctx.saved_tensors
        share = share * gradient[..., None] / ctx.temperature
        # d loss / d pairs[m, s] is pairs[m, s] times the weight of m's sum, of s's, or of both.
        weight_of_z, weight_of_q = share / negatives_of_z, share / negatives_of_q

        def products(pairs, weight_of_row, weight_of_column):
            return (weight_of_row[..., :, None] + weight_of_column[..., None, :]).mul_(pairs)

        across = products(zq, weight_of_z, weight_of_q)
        positive = -2 * share[..., None]
        to_z = products(zz, weight_of_z, weight_of_z) @ z + across @ q + positive * q
        to_q = products(qq, weight_of_q, weight_of_q) @ q + across.mT @ z + positive * z
        return to_z, to_q, None, None
