"""ML against direct solutions, another solver and the conditions of its optimum."""

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import minimize
from scipy.special import softmax

from conle.methods.ml import ML, numerical_labels, reconstruction_weights


def test_weights_of_points_on_a_line_by_hand():
    """Points 0, 1, 3 and two neighbours each: 0 = 1.5 * 1 - 0.5 * 3, and so on."""
    weights = reconstruction_weights(np.array([[0.0], [1.0], [3.0]]), 2, 1e-12).toarray()
    expected = [[0, 3 / 2, -1 / 2], [2 / 3, 0, 1 / 3], [-2, 3, 0]]
    np.testing.assert_allclose(weights, expected, atol=1e-9)


@pytest.mark.parametrize("neighbours", [3, 8])
def test_weights_solve_their_constrained_problem(samples, neighbours):
    """They minimise w'(G + r tr(G) I) w with sum one; here with the multiplier as an unknown."""
    features, _ = samples
    weights = reconstruction_weights(features, neighbours, 1e-3).toarray()
    for row, sample in enumerate(features):
        distance = np.linalg.norm(features - sample, axis=1)
        nearest = np.argsort(distance)[1 : neighbours + 1]
        difference = features[nearest] - sample
        gram = difference @ difference.T
        system = np.ones((neighbours + 1, neighbours + 1))
        system[-1, -1] = 0
        system[:-1, :-1] = gram + 1e-3 * np.trace(gram) * np.eye(neighbours)
        expected = np.zeros(60)
        expected[nearest] = np.linalg.solve(system, np.eye(neighbours + 1)[-1])[:-1]
        np.testing.assert_allclose(weights[row], expected, atol=1e-9)


def test_weights_of_equal_samples_are_equal():
    weights = reconstruction_weights(np.ones((6, 3)), 4, 1e-3)
    np.testing.assert_allclose(weights.data, 1 / 4)
    assert (weights.diagonal() == 0).all()


def test_weights_do_not_depend_on_their_blocks(samples, monkeypatch):
    whole = reconstruction_weights(samples[0], 5, 1e-3).toarray()
    monkeypatch.setattr("conle.methods.ml.BLOCK", 7)
    blocks = reconstruction_weights(samples[0], 5, 1e-3).toarray()
    np.testing.assert_allclose(blocks, whole, atol=1e-12)


def test_numerical_labels_of_three_samples_by_hand():
    """mu = (a, b, -1) minimises (a - b)^2 + (b - (a - 1) / 2)^2 + (b + 1)^2 with a, b >= 1.

    For b = 1 the derivative by a is 0 at a = 7 / 5, where the derivative by b is positive.
    """
    weights = scipy.sparse.csr_array([[0, 1.0, 0], [0.5, 0, 0.5], [0, 1.0, 0]])
    mu = numerical_labels(weights, np.array([True, True, False]), 100, 1e-14)
    np.testing.assert_allclose(mu, [7 / 5, 1, -1], atol=1e-6)


def test_numerical_labels_are_those_of_another_solver(samples):
    features, logical_labels = samples[0][:14], samples[1][:14]
    weights = reconstruction_weights(features, 5, 1e-3)
    residual = np.eye(14) - weights.toarray()
    for relevant in logical_labels.T == 1:
        sign = np.where(relevant, 1.0, -1.0)
        other = minimize(
            lambda mu: ((residual @ mu) ** 2).sum(),
            sign,
            jac=lambda mu: 2 * residual.T @ (residual @ mu),
            method="SLSQP",
            constraints={
                "type": "ineq",
                "fun": lambda mu, sign=sign: sign * mu - 1,
                "jac": lambda _, sign=sign: np.diag(sign),
            },
            options={"ftol": 1e-13, "maxiter": 1000},
        )
        assert other.success
        ours = numerical_labels(weights, relevant, 5000, 1e-12)
        np.testing.assert_allclose(ours, other.x, atol=1e-4)


def test_numerical_labels_meet_the_conditions_of_the_optimum(samples):
    """Feasible, with a gradient of 0 off the bounds and away from the feasible side on them."""
    features, logical_labels = samples
    weights = reconstruction_weights(features, 5, 1e-3)
    residual = np.eye(60) - weights.toarray()
    for relevant in logical_labels.T == 1:
        mu = numerical_labels(weights, relevant, 5000, 1e-12)
        gradient = 2 * residual.T @ (residual @ mu)
        size, multiplier = np.where(relevant, (mu, gradient), (-mu, -gradient))
        bound = size < 1 + 1e-9
        assert size.min() > 1 - 1e-12
        assert 0 < bound.sum() < 60
        assert np.abs(multiplier[~bound]).max() < 1e-3
        assert multiplier[bound].min() > -1e-3
        assert multiplier[bound].max() > 1


def test_recovered_is_the_softmax_of_the_numerical_labels(samples):
    features, logical_labels = samples
    weights = reconstruction_weights(features, 5, 1e-3)
    mu = [numerical_labels(weights, own, 5000, 1e-12) for own in logical_labels.T == 1]
    for size in (0.1, 1.0):
        recovered = ML(lambda_=size).fit_transform(features, logical_labels)
        np.testing.assert_allclose(recovered, softmax(size * np.array(mu).T, axis=1), atol=1e-12)


def test_relevant_labels_are_above_irrelevant_ones(samples):
    features, logical_labels = samples
    recovered = ML().fit_transform(features, logical_labels)
    relevant = np.where(logical_labels == 1, recovered, np.inf).min(axis=1)
    irrelevant = np.where(logical_labels == 0, recovered, 0).max(axis=1)
    assert (relevant >= np.exp(2) * irrelevant * (1 - 1e-9)).all()


def test_samples_with_the_same_labels_are_at_the_bounds(samples):
    """A constant mu is reconstructed without an error."""
    features, _ = samples
    recovered = ML().fit_transform(features, np.tile([1, 0, 1], (60, 1)))
    np.testing.assert_allclose(recovered, np.tile(softmax([1, -1, 1]), (60, 1)), atol=1e-9)
    np.testing.assert_allclose(ML().fit_transform([[3.0]], [[0, 1]]), [softmax([-1, 1])])
