import numpy as np
import pytest

from conle.core.stacking import log_score, stacking_weights


def test_the_score_counts_the_number_of_labels_as_much_as_all_labels():
    probabilities = np.array([[0.5, 0.25, 1.0], [0.25, 1.0, 1.0]])
    expected = (np.log(0.5) + np.log(0.25) / 2 + np.log(0.25)) / 2
    assert log_score(probabilities) == pytest.approx(expected)


def test_weights_against_their_closed_form():
    """One event that one model gives p or 1 - p, the other 1/2: the gradient is 0 at one weight."""
    p, share = 0.8, 0.65
    own = np.where(np.arange(200) < 200 * share, p, 1 - p)
    sure = np.ones(200)
    models = np.stack([np.column_stack([own, sure]), np.column_stack([sure / 2, sure])])
    # The mixture gives 1/2 + w (p - 1/2), which is best if it is the share.
    weights = stacking_weights(models)
    np.testing.assert_allclose(
        weights, [(share - 0.5) / (p - 0.5), 1 - (share - 0.5) / (p - 0.5)], atol=1e-4
    )


def test_a_mixture_is_at_least_as_good_as_each_model():
    generator = np.random.default_rng(0)
    models = generator.uniform(0.05, 1, size=(3, 50, 5))
    weights = stacking_weights(models)
    assert weights.sum() == pytest.approx(1)
    assert (weights >= 0).all()
    best = log_score(np.tensordot(weights, models, axes=1))
    assert best >= max(map(log_score, models)) - 1e-9
    others = generator.dirichlet(np.ones(3), size=200)
    assert best >= max(log_score(np.tensordot(own, models, axes=1)) for own in others) - 1e-7


def test_the_better_model_gets_all_the_weight():
    models = np.stack([np.full((9, 3), 0.9), np.full((9, 3), 0.2)])
    np.testing.assert_allclose(stacking_weights(models), [1, 0], atol=1e-6)
