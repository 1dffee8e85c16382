"""Work done once for all samples of a fold that have the same logical labels.

Such samples have one pattern (`Samples.patterns`), so a network of labels gives them the same Q.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn


def membership(
    pattern: Int[Tensor, "*folds batch"], patterns: int
) -> Bool[Tensor, "*folds batch patterns"]:
    """Mark the pattern of each sample, given its number and how many patterns there are."""
    return pattern[..., None] == torch.arange(patterns, device=pattern.device)


def sum_by_pattern(
    values: Float[Tensor, "*folds batch"], member: Bool[Tensor, "*folds batch patterns"] | None
) -> Float[Tensor, "*folds patterns"]:
    """Sum over the samples of each pattern, in an order that is fixed on a GPU too.

    Args:
        values: one per sample.
        member: the result of `membership`; None where every sample is a pattern of its own.
    """
    return values if member is None else (member * values[..., None]).sum(dim=-2)


def apply_to_pairs(
    network: nn.Sequential,
    z: Float[Tensor, "folds samples embedding"],
    q: Float[Tensor, "folds patterns embedding"],
    pattern: Int[Tensor, "folds samples"] | None,
) -> Float[Tensor, "folds samples outputs"]:
    """Apply a network to [Z, Q] of each sample without building [Z, Q].

    Args:
        network: its first layer is a `BatchedLinear`.
        z: one row per sample.
        q: one row per pattern.
        pattern: number of each sample's pattern; None where q has one row per sample.
    """
    first, *rest = network
    from_z, from_q = first.weight.split([z.shape[-1], q.shape[-1]], dim=-2)
    of_q = torch.baddbmm(first.bias, q, from_q)
    if pattern is not None:
        # A product has a fixed order of summation; the gradient of an index has none on a GPU.
        of_q = membership(pattern, q.shape[-2]).to(q.dtype) @ of_q
    outputs = torch.baddbmm(of_q, z, from_z)
    for layer in rest:
        outputs = layer(outputs)
    return outputs
