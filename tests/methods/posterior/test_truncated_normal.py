import numpy as np
import pytest
import torch
from scipy.stats import truncnorm

from conle.methods.posterior.truncated_normal import truncated_normal

INF = np.inf
LIMITS = [
    (-INF, INF),
    (-INF, 0.0),
    (0.0, INF),
    (-1.0, 2.0),
    (3.0, 3.5),
    (-8.5, -8.0),
    (7.0, INF),
    (-INF, -20.0),
    (34.0, 36.0),
    (-INF, -36.0),
    (40.0, INF),
    (50.0, 50.001),
    (-300.0, -200.0),
    (1e4, INF),
]


def draw(a, b, uniform, mean=0.0, deviation=1.0):
    tensors = [
        torch.as_tensor(np.broadcast_to(value, np.shape(uniform)).copy(), dtype=torch.float64)
        for value in (mean, deviation, mean + deviation * a, mean + deviation * b, uniform)
    ]
    return truncated_normal(*tensors).numpy()


@pytest.mark.parametrize(("a", "b"), LIMITS)
def test_quantiles(a, b):
    """The draw is the quantile of its uniform number, counted from the farther tail."""
    share = np.linspace(0.01, 0.99, 99)
    expected = truncnorm.isf(share, a, b) if a + b > 0 else truncnorm.ppf(share, a, b)
    drawn = draw(a, b, share)
    # The tolerance is relative to the draw's distance from the nearer limit.
    scale = 1 / max(1.0, min(abs(a), abs(b)))
    np.testing.assert_allclose(drawn, expected, rtol=1e-12, atol=2e-6 * scale)


@pytest.mark.parametrize(("a", "b"), LIMITS)
def test_draws_are_finite_and_within_their_limits(a, b):
    drawn = draw(a, b, np.array([0.0, 1e-17, 0.5, 1 - 2**-53]))
    # The first and the last draw of an unbounded interval may be infinite.
    inner = drawn[1:3] if np.isinf(a) or np.isinf(b) else drawn
    assert np.isfinite(inner).all()
    assert ((drawn >= a) & (drawn <= b)).all()


def test_mean_and_deviation():
    share = np.linspace(0.05, 0.95, 7)
    expected = truncnorm.ppf(share, -2.0, 1.0, loc=3.0, scale=0.25)
    np.testing.assert_allclose(draw(-2.0, 1.0, share, 3.0, 0.25), expected, rtol=1e-10)


def test_an_interval_without_length():
    assert draw(2.0, 2.0, np.array([0.3])) == [2.0]
