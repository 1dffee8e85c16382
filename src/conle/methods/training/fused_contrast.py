"""The contrastive loss with its gradient written out, computed once per pattern of labels."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from conle.methods.losses.contrastive import check_temperature
from conle.methods.training.patterns import membership, sum_by_pattern

# Shorter vectors are divided by this length.
SMALLEST_LENGTH = 1e-12


def fused_contrastive_loss(
    z: Float[Tensor, "*folds batch embedding"],
    q: Float[Tensor, "*folds patterns embedding"],
    temperature: float = 0.5,
    present: Bool[Tensor, "*folds batch"] | None = None,
    pattern: Int[Tensor, "*folds batch"] | None = None,
) -> Float[Tensor, "*folds"]:
    """`contrastive_loss` in less time and memory.

    Samples with the same logical labels have the same Q. With one Q per pattern of labels the
    value is the same, and only the pairs of Z grow with the square of the samples.

    Args:
        z: representations of the features, one batch per fold.
        q: representations of the logical labels, of each pattern or of each sample.
        temperature: tau, at least 0.02.
        present: which rows of a batch are samples; the others are padding and take no part.
        pattern: row of q that belongs to a sample; None where q has one row per sample.

    Returns:
        One value per fold.

    Raises:
        ValueError: the temperature is below 0.02.
    """
    check_temperature(temperature)
    return _Contrast.apply(z, q, temperature, present, pattern)


class _Contrast(torch.autograd.Function):
    """The loss of z and q, and its gradient.

    The gradient is written out because of memory traffic: storing and reading the matrices of pairs
    that autograd keeps takes longer than their products.
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
        # A sample with itself, and padding, have no term in the denominator.
        if present is None:
            has_term = torch.full(z.shape[:-1], z.shape[-2] > 1, device=z.device)
            samples = torch.ones_like(positive)
        else:
            has_term = present & (present.sum(dim=-1, keepdim=True) > 1)
            samples = present.to(z.dtype)
            zz.mul_(samples[..., None, :]).mul_(samples[..., :, None])
            zq.mul_(samples[..., :, None])
        zz.diagonal(dim1=-2, dim2=-1).zero_()
        # A sample has a pair with its own pattern for each other sample of this pattern. These
        # pairs are counted apart: the pair with itself could be most of a sum, and to subtract it
        # would lose the digits of the others.
        count = sum_by_pattern(samples, member)
        with_own = zq.gather(-1, pattern[..., None])[..., 0]
        zq.scatter_(-1, pattern[..., None], 0.0)
        with_itself = qq.diagonal(dim1=-2, dim2=-1).clone()
        qq.diagonal(dim1=-2, dim2=-1).zero_()
        others = (count - 1).gather(-1, pattern)
        of_z = zz.sum(dim=-1) + (zq * count[..., None, :]).sum(dim=-1) + with_own * others
        of_q = (zq.sum(dim=-2) + (qq * count[..., None, :]).sum(dim=-1)).gather(-1, pattern)
        of_q += with_itself.gather(-1, pattern) * others
        of_q += sum_by_pattern(with_own, member).gather(-1, pattern) - with_own
        # A sample that is alone in its batch has no term, and padding has none.
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
        weight_of_pattern = sum_by_pattern(weight_of_q, member)
        across = torch.addcmul(
            weight_of_pattern[..., None, :], weight_of_z[..., None], count[..., None, :]
        ).mul_(zq)
        # A sample and its own pattern: pairs of either with the others of the pattern, and the
        # positive pair.
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
    """Divide vectors by their lengths; return both."""
    lengths = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True).clamp(min=SMALLEST_LENGTH)
    return vectors / lengths, lengths


def _through_unit(
    gradient: Float[Tensor, "*folds rows embedding"],
    unit: Float[Tensor, "*folds rows embedding"],
    lengths: Float[Tensor, "*folds rows 1"],
) -> Float[Tensor, "*folds rows embedding"]:
    """The gradient of the vectors, given the gradient of the unit vectors."""
    along = (gradient * unit).sum(dim=-1, keepdim=True).masked_fill(lengths <= SMALLEST_LENGTH, 0.0)
    return torch.addcmul(gradient, unit, along, value=-1.0).div_(lengths)
