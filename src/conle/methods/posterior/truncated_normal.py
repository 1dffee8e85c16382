"""Draws from truncated normal distributions, exact far into the tails."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

# Beyond so many times sqrt(2) deviations, erfc is near the smallest float64; the logarithm of the
# distribution function is inverted there.
FAR_TAIL = 24.75
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
    per_root_half = 0.5**0.5 / deviation
    a, b = (low - mean).mul_(per_root_half), (high - mean).mul_(per_root_half)
    # Limits are mirrored into the right tail, where erfc is precise; torch's distribution function
    # loses all digits left of -8.
    sign = torch.copysign(torch.ones((), dtype=a.dtype, device=a.device), a + b)
    a, b = a.mul_(sign), b.mul_(sign)
    near, far = torch.minimum(a, b), torch.maximum(a, b)
    x = torch.special.ndtri(torch.lerp(torch.erfc(far), torch.erfc(near), uniform).mul_(0.5))
    in_tail = near > FAR_TAIL
    if in_tail.any():
        left, right = (-(2**0.5) * limit[in_tail] for limit in (far, near))
        x[in_tail] = _far_left(left, right, uniform[in_tail])
    drawn = torch.addcmul(mean, x.mul_(sign), deviation, value=-1)
    return torch.minimum(torch.maximum(drawn, low), high)


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
