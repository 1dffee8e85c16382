import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array, csr_matrix

from conle.core.arrays import real_array
from conle.core.binarisation import binarise
from conle.core.measures import score

MATRIX = np.array([[1.0, 0.0], [0.5, 0.5]])


@pytest.mark.parametrize(
    "values",
    [
        MATRIX.tolist(),
        MATRIX.astype(np.float32),
        np.ma.array(MATRIX),
        np.ma.array(MATRIX, mask=np.zeros((2, 2), dtype=bool)),
        pd.DataFrame(MATRIX),
        pd.DataFrame({"a": pd.array([1, 0.5], dtype="Float64"), "b": [0.0, 0.5]}),
        pd.DataFrame(MATRIX, dtype=object),
    ],
)
def test_numbers(values):
    array = real_array(values, "x")
    assert array.dtype == np.float64
    np.testing.assert_array_equal(array, MATRIX)


def test_missing_values_of_any_type_are_nan():
    table = pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": [True, False]})
    np.testing.assert_array_equal(real_array(table, "x"), [[1, 1], [np.nan, 0]])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ma.array(MATRIX, mask=MATRIX == 0.5), "x has 2 masked values: fill them, or leave out"),
        (MATRIX + 1j, "x must be a matrix of real numbers: a value is complex128"),
        ([[1, 2j]], "a value is complex128"),
        (pd.DataFrame({"a": [1.0], "b": [1j]}), "a value is complex128"),
        (MATRIX.astype("datetime64[s]"), r"a value is datetime64\[s\]"),
        (MATRIX.astype("timedelta64[s]"), r"a value is timedelta64\[s\]"),
        (pd.DataFrame({"a": pd.date_range("2020", periods=2)}), r"a value is datetime64\["),
        (pd.DataFrame({"a": pd.date_range("2020", periods=2, tz="UTC")}), r"a value is datetime64"),
        (pd.DataFrame({"a": ["x"]}), "x must be a matrix of real numbers: .*'x'"),
        ([["x"]], "x must be a matrix of real numbers: .*'x'"),
        (csr_array((40_000, 40_000)), r"shape \(40000, 40000\): pass x.toarray\(\), .* 12,800 MB"),
        (csr_matrix(MATRIX), "x must be dense, not a sparse matrix .* takes 1 MB"),
    ],
)
def test_nothing_is_dropped_silently(values, message):
    with pytest.raises(ValueError, match=message):
        real_array(values, "x")


def test_scores_and_binarisation_drop_nothing():
    with pytest.raises(ValueError, match="true has 1 masked values"):
        score(np.ma.masked_equal(MATRIX, 1), MATRIX)
    with pytest.raises(ValueError, match="recovered must be a matrix of real numbers"):
        score(MATRIX, MATRIX + 1j)
    with pytest.raises(ValueError, match="label_distributions has 1 masked values"):
        binarise(np.ma.masked_equal(MATRIX, 1))
