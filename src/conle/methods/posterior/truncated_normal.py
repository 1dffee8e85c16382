"""Draws from truncated normal distributions, exact far into the tails."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

# Farther left the distribution function is near the smallest float64; its logarithm is inverted.
FAR_TAIL = -35.0
NEWTON_STEPS = 3


def truncated_normal(
    mean: Float[Tensor, "*shape"],
    deviation: Float[Tensor, "*#shape"],
    low: Float[Tensor, "*shape"],
    high: Float[Tensor, "*shape"],
    uniform: Float[Tensor, "*shape"],
) -> Float[Tensor, "*shape"]:
    """Draw from N(mean, deviation^2) restricted to [low, high], by inverting the distribution.

    Args:
        mean: means; all arguments are float64.
        deviation: positive deviations.
        low: lower limits, which may be -inf.
        high: upper limits, not below `low`; they may be inf.
        uniform: uniform numbers on [0, 1); a draw is a monotonic function of its number.

    Returns:
        One draw for each element, within its limits.
    """
    a, b = (low - mean).div_(deviation), (high - mean).div_(deviation)
    # Limits are mirrored into the left tail, where the distribution function is precise.
    sign = torch.copysign(torch.ones_like(a), a + b).neg_()
    a, b = a.mul_(sign), b.mul_(sign)
    left, right = torch.minimum(a, b), torch.maximum(a, b)
    below = _ndtr(left)
    x = torch.special.ndtri(_ndtr(right).sub_(below).mul_(uniform).add_(below))
    far = right < FAR_TAIL
    if far.any():
        x[far] = _far_left(left[far], right[far], uniform[far])
    return torch.minimum(torch.maximum(x.mul_(sign).mul_(deviation).add_(mean), low), high)


def _ndtr(x: Tensor) -> Tensor:
    """The standard normal distribution function; torch's own loses all digits left of -8."""
    return torch.erfc(x * -(0.5**0.5)).mul_(0.5)


def _far_left(left: Tensor, right: Tensor, uniform: Tensor) -> Tensor:
    """Standard normal draws between limits far to the left.

    Inverts the logarithm of the distribution function by Newton's method.
    """
    log_right = torch.special.log_ndtr(right)
    share = torch.exp(torch.special.log_ndtr(left) - log_right)
    log_share = torch.log(share + uniform * (1 - share)).clamp_min(-1e300)
    target = log_right + log_share
    # The tail of a Rayleigh distribution is a close start.
    x = -torch.sqrt(right**2 - 2 * log_share)
    for _ in range(NEWTON_STEPS):
        log_cdf = torch.special.log_ndtr(x)
        log_slope = -0.5 * x**2 - 0.5 * math.log(2 * math.pi) - log_cdf
        x = x - (log_cdf - target) * torch.exp(-log_slope)
    return x
