import numpy as np
import pytest
import torch

from conle.core.binarisation import binarise
from conle.methods.posterior.threshold_model import (
    is_feasible,
    ordering_bounds,
    possible_counts,
    start_ratios,
    weight_bounds,
)

THRESHOLDS = (0.3, 0.5, 0.7)


def tensors(*arrays):
    return [torch.from_numpy(np.asarray(array)) for array in arrays]


def masks(logical_labels):
    """inf where a label is irrelevant and where it is relevant."""
    return tensors(
        np.where(logical_labels == 1, 0.0, np.inf), np.where(logical_labels == 1, np.inf, 0.0)
    )


def feasible(weights, logical_labels, threshold):
    """A fold of samples, labels first."""
    w, relevant = tensors(weights.T[None], logical_labels.T[None] == 1)
    return is_feasible(w, relevant.double(), threshold)[0].numpy()


@pytest.mark.parametrize("threshold", THRESHOLDS)
@pytest.mark.parametrize("labels", [2, 3, 5, 9])
def test_feasible_is_what_binarises_to_the_labels(labels, threshold):
    generator = np.random.default_rng(labels)
    weights = generator.dirichlet(np.full(labels, 0.7), size=4000) * 3
    other = generator.dirichlet(np.full(labels, 0.7), size=4000)
    own = binarise(weights / weights.sum(1, keepdims=True), threshold)
    assert feasible(weights, own, threshold).all()
    # Logical labels of other distributions, many of them the same.
    given = binarise(other, threshold)
    np.testing.assert_array_equal(feasible(weights, given, threshold), (given == own).all(axis=1))


@pytest.mark.parametrize("threshold", THRESHOLDS)
@pytest.mark.parametrize("labels", [2, 3, 4, 7])
def test_bounds_of_a_weight_are_where_it_stays_feasible(labels, threshold):
    generator = np.random.default_rng(labels)
    weights = generator.lognormal(sigma=0.8, size=(2000, labels))
    logical_labels = binarise(weights / weights.sum(1, keepdims=True), threshold)
    for label in range(labels):
        others = np.delete(weights, label, axis=1)
        relevant = np.delete(logical_labels, label, axis=1) == 1
        odds = (1 - threshold) / threshold
        low, high = weight_bounds(
            *masks(logical_labels[:, label]),
            *tensors(
                odds * (others * relevant).sum(1) - (others * ~relevant).sum(1),
                np.where(relevant, others, np.inf).min(1),
                np.where(relevant, -np.inf, others).max(1),
            ),
            threshold,
        )
        low, high = np.maximum(low.numpy(), 0), high.numpy()
        assert ((low < weights[:, label]) & (weights[:, label] < high)).all()
        for factor in (0.2, 0.7, 0.95, 0.999, 1.001, 1.05, 1.4, 5.0):
            for limit in (low, high, weights[:, label]):
                moved = weights.copy()
                moved[:, label] = np.where(np.isinf(limit), 1e6, limit) * factor
                again = binarise(moved / moved.sum(1, keepdims=True), threshold)
                stays = (again == logical_labels).all(axis=1)
                inside = (moved[:, label] > low) & (moved[:, label] < high)
                positive = moved[:, label] > 0
                np.testing.assert_array_equal(stays[positive], inside[positive])


def test_bounds_where_labels_only_order_the_degrees():
    low, high = ordering_bounds(*masks(np.array([1, 0])), *tensors([2.0, 2.0], [0.5, 0.5]))
    assert low.tolist() == [0.5, -np.inf]
    assert high.tolist() == [np.inf, 2.0]


@pytest.mark.parametrize(("threshold", "labels"), [(0.5, 4), (0.3, 10), (0.7, 10), (0.5, 5)])
def test_counts_that_binarising_can_give(threshold, labels):
    """Near the uniform distribution the number of relevant labels is the largest possible."""
    possible, uniform = possible_counts(labels, threshold)
    generator = np.random.default_rng(0)
    drawn = [
        binarise(generator.dirichlet(np.full(labels, a), size=3000), threshold).sum(axis=1)
        for a in (0.1, 1, 10, 1e4, 1e8)
    ]
    assert set(np.unique(drawn)) == set(np.flatnonzero(possible))
    assert uniform == {(0.5, 4): 3, (0.3, 10): 4, (0.7, 10): 8, (0.5, 5): None}[threshold, labels]


@pytest.mark.parametrize("threshold", [*THRESHOLDS, 0.9])
@pytest.mark.parametrize("labels", [2, 3, 8, 18])
def test_starts_are_feasible(labels, threshold):
    possible, _ = possible_counts(labels, threshold)
    rows = np.array([[1.0] * k + [0.0] * (labels - k) for k in np.flatnonzero(possible)])
    ratios = start_ratios(rows, threshold)
    assert feasible(ratios, rows, threshold).all()
    assert (ratios[rows == 0] == 1).all()


def test_start_of_two_of_six():
    """t lies between T (c - k) / ((1 - T) k) = 2 and, as (1 - T) k is 1, four times that."""
    np.testing.assert_allclose(
        start_ratios(np.array([[1.0, 1, 0, 0, 0, 0]]), 0.5)[0, :3], [4, 4, 1]
    )
    # (1 - T) k = 1.5: the upper limit is T (c - k) / .5 = 3, the lower 1.
    np.testing.assert_allclose(
        start_ratios(np.array([[1.0, 1, 1, 0, 0, 0]]), 0.5)[0, 0], np.sqrt(3)
    )


def test_starts_where_labels_only_order_the_degrees():
    ratios = start_ratios(np.array([[1.0, 1, 1], [0, 0, 0], [1, 0, 0]]), None)
    np.testing.assert_array_equal(ratios, [[2, 2, 2], [1, 1, 1], [2, 1, 1]])
