import numpy as np
import pytest

from conle.core.artificial import make_artificial


def test_shape_and_grid():
    features, distributions = make_artificial()
    assert features.shape == distributions.shape == (2601, 3)
    assert features[0, :2].tolist() == [-1, -1]
    assert features[1, :2].tolist() == [-1, pytest.approx(-0.96)]
    assert distributions.sum(axis=1) == pytest.approx(np.ones(2601))
    assert (distributions > 0).all()


def test_hand_computed_sample():
    """At x = (0, 0, 0): t = (1, 1, 1), so each w.t is 7 and psi_1 = 49."""
    features, distributions = make_artificial()
    middle = 25 * 51 + 25
    assert features[middle] == pytest.approx([0, 0, 0])
    psi_2 = (7 + 0.49) ** 2
    psi_3 = (7 + 0.01 * psi_2) ** 2
    psi = np.array([49, psi_2, psi_3])
    assert distributions[middle] == pytest.approx(psi / psi.sum())
