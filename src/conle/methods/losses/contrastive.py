"""ConLE's contrastive loss between the two views of a sample: its features and its labels."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

# exp(1 / tau) must be a float32 number.
SMALLEST_TEMPERATURE = 0.02
# Vectors shorter than this are divided by it.
SMALLEST_LENGTH = 1e-12


def contrastive_loss(
    z: Float[Tensor, "*folds batch embedding"],
    q: Float[Tensor, "*folds patterns embedding"],
    temperature: float = 0.5,
    present: Bool[Tensor, "*folds batch"] | None = None,
    pattern: Int[Tensor, "*folds batch"] | None = None,
) -> Float[Tensor, "*folds"]:
    """Pull the representations Z_m and Q_m of a sample together, push those of others apart.

    With h the cosine similarity and tau the temperature,

        l_Z(m) = -log( exp(h(Z_m, Q_m) / tau)
                       / sum_{s != m} (exp(h(Z_m, Z_s) / tau) + exp(h(Z_m, Q_s) / tau)) ),

    l_Q(m) is the same with Z and Q exchanged, and the loss is the mean of l_Z(m) + l_Q(m). The
    positive pair is not in the denominator, so the loss can be negative. The paper sums over all
    samples; here s runs over the batch.

    Samples with the same logical labels, of one pattern, have the same Q. With one Q per pattern
    the value is the same, and only the pairs of Z are as many as the samples squared.

    Source: Wang et al., "Contrastive label enhancement", IJCAI 2023, l_Z, l_Q and l_con.

    Args:
        z: representations of the features, one batch per fold.
        q: representations of the logical labels: of each sample, or of each pattern.
        temperature: tau, at least 0.02.
        present: which rows of a batch are samples; the others are padding and take no part.
        pattern: which row of q is a sample's; the same row as in z where it is None.

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
    return _Contrast.apply(z, q, temperature, present, pattern)


class _Contrast(torch.autograd.Function):
    """The loss of z and q, and its gradient.

    Written out because of its memory traffic: what autograd would keep and pass through of the
    matrices of pairs takes longer than their products.
    """

    @staticmethod
    def forward(ctx, z, q, temperature, present, pattern):
        (z, length_of_z), (q, length_of_q) = _unit(z), _unit(q)
        zz = (z / temperature) @ z.mT
        zq, qq = (one @ (q / temperature).mT for one in (z, q))
        member = None if pattern is None else membership(pattern, q.shape[-2])
        if pattern is None:
            pattern = torch.arange(z.shape[-2], device=z.device).expand(z.shape[:-1])
        positive = zq.gather(-1, pattern[..., None])[..., 0]
        for pairs in (zz, zq, qq):
            pairs.exp_()
        # Pairs without a term in the denominator: a sample with itself, and padding.
        if present is None:
            has_term = torch.full(z.shape[:-1], z.shape[-2] > 1, device=z.device)
            samples = torch.ones_like(positive)
        else:
            has_term = present & (present.sum(dim=-1, keepdim=True) > 1)
            samples = present.to(z.dtype)
            zz.mul_(samples[..., None, :]).mul_(samples[..., :, None])
            zq.mul_(samples[..., :, None])
        zz.diagonal(dim1=-2, dim2=-1).zero_()
        # With its own pattern a sample has as many pairs as there are others of it. They are
        # counted apart: subtracted from a sum, the sample's own could have been most of it.
        count = _by_pattern(samples, member)
        with_own = zq.gather(-1, pattern[..., None])[..., 0]
        zq.scatter_(-1, pattern[..., None], 0.0)
        with_itself = qq.diagonal(dim1=-2, dim2=-1).clone()
        qq.diagonal(dim1=-2, dim2=-1).zero_()
        others = (count - 1).gather(-1, pattern)
        of_z = zz.sum(dim=-1) + (zq * count[..., None, :]).sum(dim=-1) + with_own * others
        of_q = (zq.sum(dim=-2) + (qq * count[..., None, :]).sum(dim=-1)).gather(-1, pattern)
        of_q += with_itself.gather(-1, pattern) * others
        of_q += _by_pattern(with_own, member).gather(-1, pattern) - with_own
        # A sample that is alone in its batch has no negatives and no term; nor has padding.
        of_z, of_q = (torch.where(has_term, negatives, 1.0) for negatives in (of_z, of_q))
        per_sample = of_z.log() + of_q.log() - 2 * positive
        share = has_term.to(z.dtype) / has_term.sum(dim=-1, keepdim=True).clamp(min=1)
        ctx.temperature = temperature
        ctx.save_for_backward(
            *(z, q, length_of_z, length_of_q, zz, zq, qq, with_own),
            *(pattern, member, count, others, of_z, of_q, share),
        )
        return (share * per_sample).sum(dim=-1)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        z, q, length_of_z, length_of_q, zz, zq, qq, with_own, *rest = ctx.saved_tensors
        pattern, member, count, others, of_z, of_q, share = rest
        share = share * gradient[..., None] / ctx.temperature
        # d loss / d pairs[m, s] is pairs[m, s] times the weight of m's sum, of s's, or of both.
        weight_of_z, weight_of_q = share / of_z, share / of_q
        weight_of_pattern = _by_pattern(weight_of_q, member)
        across = torch.addcmul(
            weight_of_pattern[..., None, :], weight_of_z[..., None], count[..., None, :]
        ).mul_(zq)
        # Of a sample and its own pattern: its pairs with the others', theirs with it, the positive.
        of_others = weight_of_pattern.gather(-1, pattern) - weight_of_q
        to_own = with_own * (weight_of_z * others + of_others) - 2 * share
        across.scatter_(-1, pattern[..., None], to_own[..., None])
        within_z = (weight_of_z[..., None] + weight_of_z[..., None, :]).mul_(zz)
        within_q = weight_of_pattern[..., None] * count[..., None, :]
        within_q.addcmul_(count[..., None], weight_of_pattern[..., None, :]).mul_(qq)
        to_z, to_q = within_z @ z + across @ q, within_q @ q + across.mT @ z
        to_z, to_q = _through_unit(to_z, z, length_of_z), _through_unit(to_q, q, length_of_q)
        return to_z, to_q, None, None, None


def _unit(
    vectors: Float[Tensor, "*folds rows embedding"],
) -> tuple[Float[Tensor, "*folds rows embedding"], Float[Tensor, "*folds rows 1"]]:
    """The vectors divided by their lengths, and these."""
    lengths = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True).clamp(min=SMALLEST_LENGTH)
    return vectors / lengths, lengths


def _through_unit(
    gradient: Float[Tensor, "*folds rows embedding"],
    unit: Float[Tensor, "*folds rows embedding"],
    lengths: Float[Tensor, "*folds rows 1"],
) -> Float[Tensor, "*folds rows embedding"]:
    """The gradient for the vectors, from that for the unit vectors."""
    along = (gradient * unit).sum(dim=-1, keepdim=True).masked_fill(lengths <= SMALLEST_LENGTH, 0.0)
    return torch.addcmul(gradient, unit, along, value=-1.0).div_(lengths)


def membership(
    pattern: Int[Tensor, "*folds batch"], patterns: int
) -> Bool[Tensor, "*folds batch patterns"]:
    """Which pattern each sample has, by the numbers of the patterns."""
    return pattern[..., None] == torch.arange(patterns, device=pattern.device)


def _by_pattern(
    values: Float[Tensor, "*folds batch"], member: Bool[Tensor, "*folds batch patterns"] | None
) -> Float[Tensor, "*folds patterns"]:
    """Sums over the samples of each pattern, in an order that is fixed on a GPU too."""
    return values if member is None else (member * values[..., None]).sum(dim=-2)
