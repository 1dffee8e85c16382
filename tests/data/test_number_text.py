import numpy as np
import pandas as pd
import pytest

from conle.data.number_text import MISSING, check_text, read_numbers
from conle.errors import DataError


@pytest.mark.parametrize("word", [*sorted(set(MISSING) - {""}), "N/A", "NULL", "NA "])
def test_words_for_a_missing_number(caplog, word):
    table = read_numbers(pd.DataFrame({"age": ["3", word, "4.5", word, None]}))
    np.testing.assert_array_equal(table["age"], [3, np.nan, 4.5, np.nan, np.nan])
    assert f"Feature 'age' holds numbers; these are taken for missing: {word!r} (2)" in caplog.text


def test_words_for_a_missing_value_in_text_are_values(caplog):
    given = pd.DataFrame({"town": ["Ulm", "NA", "?", "NA", None], "x": [1, 2, 3, 4, 5]})
    pd.testing.assert_frame_equal(read_numbers(given), given)
    assert (
        "Feature 'town' holds text; these are values, only empty fields are missing: 'NA' (2), "
        "'?' (1)"
    ) in caplog.text


def test_other_text_stays(caplog):
    given = pd.DataFrame({"town": ["Ulm", "7", None], "code": ["1", "2", "x"]})
    pd.testing.assert_frame_equal(read_numbers(given), given)
    assert not caplog.records


def test_truth_values_with_a_missing_one():
    table = read_numbers(pd.DataFrame({"ill": ["TRUE", "NA", "FALSE"], "none": ["NA", "NA", "?"]}))
    np.testing.assert_array_equal(table, [[1, np.nan], [np.nan, np.nan], [0, np.nan]])


def test_numbers_are_those_that_pandas_reads_itself(tmp_path):
    numbers = np.random.default_rng(0).normal(size=3000) * 10.0 ** np.arange(-30, 30).repeat(50)
    text = pd.Series([*map(repr, numbers.tolist()), "?"], dtype="str")
    text[:-1].to_csv(tmp_path / "numbers.csv", index=False, header=["x"])
    expected = pd.read_csv(tmp_path / "numbers.csv")["x"]
    np.testing.assert_array_equal(read_numbers(pd.DataFrame({"x": text}))["x"][:-1], expected)


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        (["3,5", "4", "?"], "'3,5', with a comma for decimals or thousands"),
        (["4", "1,234.5"], "'1,234.5', with a comma for decimals or thousands"),
        (["1.234,5", "-3,5"], "'1.234,5', with a comma for decimals or thousands"),
        (["35%", "4.5 %"], "'35%', with a sign of per cent or currency"),
        (["$3.50", "7 €", "8"], "'$3.50', with a sign of per cent or currency"),
        (["3 500", "1 234 567.5"], "'3 500', with marks between thousands"),
        (["3'500", "12"], '"3\'500", with marks between thousands'),
    ],
)
def test_other_notations_are_named(values, shown):
    with pytest.raises(DataError) as error:
        check_text("price", pd.Series(values))
    assert error.value.message == (
        f"feature 'price' holds numbers that are not read, such as {shown}: write them with a "
        "decimal point and nothing else"
    )


@pytest.mark.parametrize(
    "values", [["3,5", "x"], ["01.02.2020"], ["1", "2"], ["3+", "2"], ["1,2,"], ["12 34"], []]
)
def test_other_text_is_no_number(caplog, values):
    check_text("x", pd.Series(values, dtype=object))
    assert not caplog.records


@pytest.mark.parametrize(
    ("others", "numbers", "warns"),
    [(["unknown"], 20, True), (["?"] * 2, 20, True), (["x"] * 3, 20, False), (["x"], 9, False)],
)
def test_text_that_is_nearly_numbers(caplog, others, numbers, warns):
    check_text("age", pd.Series([*map(str, range(numbers)), *others]))
    text = (
        "Feature 'age' is taken for text, although nearly all its values are numbers, because of: "
        f"{others[0]!r} ({len(others)})"
    )
    assert (text in caplog.text) == warns
