import numpy as np
import pytest
from scipy.special import softmax

from conle.core.learners import SABFGS


@pytest.fixture
def model():
    """Samples of a maximum entropy model."""
    generator = np.random.default_rng(0)
    features = generator.normal([5.0, 0.0, -2.0], [3.0, 1.0, 0.1], size=(400, 3))
    logits = 0.3 + features @ generator.normal(size=(3, 4)) / 3
    return features, softmax(logits, axis=1)


def test_recovers_the_model_it_assumes(model):
    features, distributions = model
    learner = SABFGS(l2=0.0, iterations=5000).fit(features[:300], distributions[:300])
    np.testing.assert_allclose(learner.predict(features[300:]), distributions[300:], atol=1e-3)


def test_without_information_it_predicts_the_mean():
    """With only the intercept, KL is least at the mean of the distributions."""
    generator = np.random.default_rng(1)
    distributions = generator.dirichlet(np.ones(3), 50)
    learner = SABFGS().fit(np.ones((50, 2)), distributions)
    expected = np.tile(distributions.mean(axis=0), (50, 1))
    np.testing.assert_allclose(learner.predict(np.ones((50, 2))), expected, atol=1e-5)


def test_units_of_features_do_not_matter(model):
    features, distributions = model
    other = features * [100.0, 0.01, 1.0] + [7.0, 0.0, 3.0]
    np.testing.assert_allclose(
        SABFGS().fit(features, distributions).predict(features),
        SABFGS().fit(other, distributions).predict(other),
        atol=1e-5,
    )


def test_the_penalty_is_a_normal_prior(model):
    """At the minimum the gradient of the sum is l2 W."""
    features, distributions = model
    learner = SABFGS(l2=2.0, iterations=5000).fit(features, distributions)
    columns = (features - features.mean(axis=0)) / features.std(axis=0)
    gradient = columns.T @ (learner.predict(features) - distributions)
    np.testing.assert_allclose(-gradient, 2.0 * learner.weights_[1:], atol=5e-3)


def test_bad_input(model):
    features, distributions = model
    with pytest.raises(ValueError, match="400 rows of features but 399"):
        SABFGS().fit(features, distributions[1:])
    with pytest.raises(ValueError, match="l2"):
        SABFGS(l2=-1.0).fit(features, distributions)


def test_a_wide_table_is_fitted_in_the_span_of_its_samples(monkeypatch):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(12, 60))
    D = generator.dirichlet(np.ones(3), 12)
    fast = SABFGS().fit(X, D)
    monkeypatch.setattr("conle.core.learners.WIDE", np.inf)
    slow = SABFGS().fit(X, D)
    assert fast.weights_.shape == (61, 3)
    np.testing.assert_allclose(fast.weights_, slow.weights_, atol=1e-4)
    new = generator.normal(size=(5, 60))
    np.testing.assert_allclose(fast.predict(new), slow.predict(new), atol=1e-4)
