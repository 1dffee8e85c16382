import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from conle.core.binarisation import binarise


@pytest.mark.parametrize(
    ("distribution", "expected"),
    [
        ([0.6, 0.3, 0.1], [1, 0, 0]),
        ([0.1, 0.3, 0.6], [0, 0, 1]),
        ([0.5, 0.3, 0.2], [1, 1, 0]),  # 0.5 reaches T but does not exceed it
        ([0.25, 0.25, 0.25, 0.25], [1, 1, 1, 0]),  # ties keep the column order
        ([0.2, 0.4, 0.4], [0, 1, 1]),
        ([1.0, 0.0], [1, 0]),
    ],
)
def test_hand_computed_rows(distribution, expected):
    assert binarise(np.array([distribution])).tolist() == [expected]


def test_threshold():
    distribution = np.array([[0.5, 0.3, 0.2]])
    assert binarise(distribution, 0.3).tolist() == [[1, 0, 0]]
    assert binarise(distribution, 0.9).tolist() == [[1, 1, 1]]


@pytest.mark.parametrize("threshold", [0.0, 1.0, -1.0, float("nan")])
def test_threshold_outside_its_range(threshold):
    with pytest.raises(ValueError, match="between 0 and 1"):
        binarise(np.array([[0.5, 0.5]]), threshold)


@given(
    arrays(np.float64, (4, 5), elements=st.floats(0.001, 1)),
    st.floats(0.05, 0.95),
)
def test_relevant_labels_are_the_fewest_that_exceed_the_threshold(weights, threshold):
    distributions = weights / weights.sum(axis=1, keepdims=True)
    for degrees, labels in zip(distributions, binarise(distributions, threshold), strict=True):
        relevant, irrelevant = degrees[labels == 1], degrees[labels == 0]
        assert relevant.min() >= irrelevant.max(initial=0)
        assert relevant.sum() > threshold - 1e-12
        assert relevant.sum() - relevant.min() <= threshold + 1e-12


@pytest.mark.parametrize(
    ("name", "relevant", "rows_by_count"),
    [
        ("SJAFFE", 574, {2: 65, 3: 148}),
        ("SBU_3DFE", 6517, {2: 983, 3: 1517}),
        ("Yeast_alpha", 21943, {8: 242, 9: 2223}),
        ("Yeast_dtt", 4930, {2: 2465}),
        ("Yeast_spo5", 4743, {1: 187, 2: 2278}),
    ],
)
def test_logical_labels_of_the_benchmark(load_real, name, relevant, rows_by_count):
    """How many labels are relevant; rounding or renormalising first changes these numbers."""
    _, distributions = load_real(name)
    logical_labels = binarise(distributions)
    counts = logical_labels.sum(axis=1)
    assert logical_labels.sum() == relevant
    assert dict(zip(*np.unique(counts, return_counts=True), strict=True)) == rows_by_count


def test_many_ties_keep_the_order_of_columns():
    generator = np.random.default_rng(0)
    distributions = generator.integers(1, 4, size=(20, 300)).astype(float)
    distributions /= distributions.sum(axis=1, keepdims=True)
    logical_labels = binarise(distributions)
    assert logical_labels.dtype == np.int8
    for row, relevant in zip(distributions, logical_labels, strict=True):
        order = sorted(range(300), key=lambda label: (-row[label], label))
        number = int((row[order].cumsum() <= 0.5).sum()) + 1
        assert set(np.flatnonzero(relevant)) == set(order[:number])


def test_float32_is_summed_in_float64():
    """The two largest degrees exceed one half in only one of the two precisions."""
    row = np.array([[0.2, 0.18, 0.15, 0.09, 0.08, 0.3]], dtype=np.float32)
    mass = np.sort(row)[:, ::-1].cumsum(axis=1)
    assert ((mass > 0.5) != (np.sort(row)[:, ::-1].astype(float).cumsum(axis=1) > 0.5)).any()
    np.testing.assert_array_equal(binarise(row), binarise(row.astype(np.float64)))
