import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

from conle.methods.contract import NotApplicableError
from conle.methods.geometry import (
    as_distributions,
    cached_by_content,
    distances,
    gaussian,
    raw_distances,
    standardised,
)
from conle.methods.registry import make_enhancer


def test_results_are_cached_by_content():
    calls = []

    @cached_by_content(maxsize=2)
    def total(features, factor):
        calls.append(factor)
        return features.sum() * factor

    first = np.arange(6.0).reshape(2, 3)
    assert total(first, 2.0) == total(first.copy(), 2.0) == 30
    assert total(first.T, 2.0) == 30  # the same numbers in another shape
    assert calls == [2.0, 2.0]
    total(first, 3.0)  # a third result: the oldest is dropped
    total(first, 2.0)
    assert calls == [2.0, 2.0, 3.0, 2.0]


def test_threads_may_share_what_is_kept():
    """With room for one result and two matrices, each thread gets its own."""
    calls = []

    @cached_by_content(maxsize=1)
    def total(features):
        calls.append(None)
        return features.sum()

    matrices = [np.full((3, 3), value) for value in (1.0, 2.0)]

    def work(number):
        return [total(matrices[number % 2]) for _ in range(300)] == [9.0 * (number % 2 + 1)] * 300

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            assert all(threads.map(work, range(4)))
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.parametrize("name", ["km", "lp", "glle", "lesc"])
def test_distances_beyond_memory_are_refused_before_they_are_computed(name, monkeypatch):
    """100 samples have 10,000 distances; two matrices of them take 160,000 bytes."""
    # Distances of equal features would be found in a cache.
    features = np.random.default_rng(list(name.encode())).normal(size=(100, 2))
    labels = np.eye(4)[np.arange(100) % 4]
    free = SimpleNamespace(available=159_999)
    monkeypatch.setattr("psutil.virtual_memory", lambda: free)
    message = "100 x 100 samples does not fit .* it takes 0.00016 GB, and 0.00016 GB are free"
    with pytest.raises(NotApplicableError, match=message):
        make_enhancer(name).fit_transform(features, labels)
    free.available = 160_000
    assert len(make_enhancer(name).fit_transform(features, labels)) == 100


def test_equal_feature_matrices_share_their_distances():
    features = np.random.default_rng(0).normal(size=(20, 3))
    assert raw_distances(features)[0] is raw_distances(features.copy())[0]


def test_shared_results_cannot_be_written_to():
    square, _ = distances(np.random.default_rng(0).normal(size=(5, 3)))
    with pytest.raises(ValueError, match="read-only"):
        square[0, 1] = 0


def test_distances_and_their_mean():
    square, mean = distances(np.array([[0.0], [3.0], [4.0]]))
    np.testing.assert_allclose(square, [[0, 3, 4], [3, 0, 1], [4, 1, 0]], rtol=1e-14)
    assert mean == pytest.approx(8 / 3)


def test_distances_are_those_of_differences():
    """With columns far from zero, equal samples, and one sample far from all others."""
    offset = np.array([0, 1, 1e6, 0, 0, 0, -1e6])
    features = np.random.default_rng(1).normal(size=(60, 7)) + offset
    features[7] = features[3]
    features[11] += 1e7
    square, mean = distances(features)
    pairs = pdist(features)
    np.testing.assert_allclose(square, squareform(pairs), rtol=1e-6)
    assert square[7, 3] == square[3, 7] == 0
    assert mean == pytest.approx(pairs.mean(), rel=1e-12)


@pytest.mark.parametrize("features", [[[1.0]], [[1.0], [1.0]], [[0.1, 0.7]] * 5])
def test_mean_distance_of_equal_samples_is_a_width_all_the_same(features):
    assert distances(np.array(features))[1] == 1.0


def test_gaussian_kernel_leaves_the_distances_alone():
    square, _ = distances(np.array([[0.0], [2.0]]))
    kernel = gaussian(square, width=2.0)
    np.testing.assert_allclose(kernel, [[1, np.exp(-0.5)], [np.exp(-0.5), 1]])
    assert square[0, 1] == 2.0


def test_standardised_takes_the_sample_deviation():
    features = np.array([[1.0, 5.0, 0.1], [3.0, 5.0, 0.1], [5.0, 5.0, 0.1]])
    np.testing.assert_allclose(standardised(features), [[-1, 0, 0], [0, 0, 0], [1, 0, 0]])
    assert standardised(features[:1]).tolist() == [[0, 0, 0]]


def test_standardised_of_values_too_small_to_have_a_deviation():
    features = np.array([[1e-200], [2e-200], [3e-200]])
    assert standardised(features).tolist() == [[0], [0], [0]]


def test_rows_of_zeros_become_uniform():
    recovered = as_distributions(np.array([[0.0, 0.0], [1.0, 3.0]]))
    assert recovered.tolist() == [[0.5, 0.5], [0.25, 0.75]]
