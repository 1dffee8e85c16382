"""The limit, which alone is shown true distributions."""

import numpy as np
import pandas as pd
import pytest
from cells_for_tests import cell_of
from scipy.special import softmax

from conle.core.binarisation import binarise
from conle.core.measures import kl_divergence
from conle.limit import InformedPosterior, log_weights, means_of_same_labels, recover_limit
from conle.methods.posterior.variants import PosteriorPCA
from conle.pipelines.limit.nodes import recover_with_distributions

SHORT = {"sweeps": 30, "burn_in": 10, "device": "cpu"}


@pytest.fixture(scope="module")
def simulated():
    """Features, true distributions and logical labels of 300 samples, and three folds."""
    generator = np.random.default_rng(4)
    features = generator.normal(size=(300, 3))
    u = features @ generator.normal(size=(3, 5)) + generator.normal(size=(300, 5))
    true = softmax(u, axis=1)
    folds = np.array_split(generator.permutation(300), 3)
    splits = [(np.setdiff1d(np.arange(300), test), test) for test in folds]
    return features, true, binarise(true).astype(float), splits


def test_it_is_nearer_than_the_decoder_that_sees_labels_alone(simulated):
    features, true, logical_labels, splits = simulated
    informed, decoder = InformedPosterior(**SHORT), PosteriorPCA(**SHORT)
    limit = recover_limit(informed, features, logical_labels, true, splits)
    shown, decoded = (
        own.recover_folds(features, logical_labels, splits).recovered for own in (informed, decoder)
    )
    tests = np.concatenate([test for _, test in splits])
    errors = [kl_divergence(true[tests], np.concatenate(own)).mean() for own in (shown, decoded)]
    assert errors[0] < 0.9 * errors[1]
    for rows, own, (training, test) in zip(limit, shown, splits, strict=True):
        means = means_of_same_labels(true, logical_labels, training, test, own)
        np.testing.assert_allclose(rows, (own + means) / 2, atol=1e-12)


def test_the_true_distributions_of_test_rows_are_not_read(simulated):
    features, true, logical_labels, splits = simulated
    _, test = splits[0]
    hidden = true.copy()
    hidden[test] = np.nan
    shown, not_shown = (
        recover_limit(InformedPosterior(**SHORT), features, logical_labels, own, splits[:1])[0]
        for own in (true, hidden)
    )
    np.testing.assert_array_equal(shown, not_shown)


def test_the_coefficients_are_those_of_the_true_distributions():
    generator = np.random.default_rng(0)
    features = generator.normal(size=(4000, 2))
    weights = np.array([[1.0, -1.0, 0.0], [0.5, 0.0, -0.5]])
    u = features @ weights + 0.3 * generator.normal(size=(4000, 3))
    true = softmax(u, axis=1)
    decoder = InformedPosterior(**SHORT)
    decoder.label_distributions = true
    rows, none = np.arange(4000), np.arange(0)
    logical_labels = binarise(true).astype(float)
    (representation,) = decoder._learner()(features, logical_labels, [(rows, none)])
    represented = representation(features)
    coefficients = decoder._fit_chunk(
        decoder._inference(),
        [represented],
        logical_labels,
        [rows],
        [0.1],
        [np.random.SeedSequence(0)],
        lambda: None,
    )
    fitted = np.mean([own.weights[0, 1:].numpy() for own in list(coefficients)[10:]], axis=0)
    predicted = represented @ fitted
    expected = features @ weights
    # Only differences between labels count: a distribution does not say its level.
    np.testing.assert_allclose(
        np.diff(predicted[:50], axis=1), np.diff(expected[:50], axis=1), atol=0.1
    )


def test_log_weights_have_the_shares_of_the_distributions():
    true = np.array([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]])
    logs = log_weights(true, np.random.default_rng(0))
    np.testing.assert_allclose(softmax(logs, axis=1), true)
    assert np.ptp(logs.mean(axis=1)) > 0.1


def test_a_degree_of_zero_counts_as_half_of_the_smallest():
    true = np.array([[0.8, 0.2, 0.0]])
    shares = np.exp(log_weights(true, np.random.default_rng(0)))[0]
    np.testing.assert_allclose(shares / shares[1], [4, 1, 0.5])


def test_means_of_training_rows_with_the_same_labels():
    true = np.array([[0.8, 0.2], [0.6, 0.4], [0.3, 0.7], [0.5, 0.5], [0.1, 0.9]])
    logical_labels = np.array([[1, 0], [1, 0], [0, 1], [1, 0], [1, 1]])
    otherwise = np.array([[0.9, 0.1], [0.55, 0.45]])
    means = means_of_same_labels(
        true, logical_labels, np.array([0, 1, 2]), np.array([3, 4]), otherwise
    )
    np.testing.assert_allclose(means, [[0.7, 0.3], [0.55, 0.45]])


def test_it_needs_rows_that_it_is_not_shown(caplog):
    table = pd.DataFrame(np.eye(3), columns=list("abc"))
    folds = pd.DataFrame({"repeat": 1, "fold": 1, "sample": range(3)})
    recovered, cost = recover_with_distributions(
        table, table, folds, "transductive", table, cell=cell_of("posterior_pca", name="limit")
    )
    assert recovered.empty
    assert "the limit needs protocol=cross_validation" in cost["failure"]
    assert "the limit needs protocol=cross_validation" in caplog.text
