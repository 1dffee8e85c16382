import csv
import logging
import re

import numpy as np
import pandas as pd
import pytest

from conle.data.csv_table import read_csv
from conle.errors import RawFileError

HEADER = "label_a,label_b,smoker,age\n"
TABLE = pd.DataFrame({"label_a": [1, 0], "label_b": [0, 1], "smoker": [0, 1], "age": [30, 40]})


@pytest.fixture
def read(tmp_path):
    def read(content):
        path = tmp_path / "toy.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_csv(path)

    return read


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_separators_ends_of_lines_and_byte_order_marks(read, separator, end, mark):
    text = mark + HEADER + "1,0,0,30\n0,1,1,40\n"
    pd.testing.assert_frame_equal(read(text.replace(",", separator).replace("\n", end)), TABLE)


def test_separators_within_quotes_do_not_count(read):
    table = read('"a;b;c;d",e\n"1;2",3\n')
    assert table.to_dict("list") == {"a;b;c;d": ["1;2"], "e": [3]}


def test_blanks_around_names_and_before_values(read):
    table = read('label_a , label_b, "smoker, or not",age\n1, 0, " 0",30\n  \n\n0,1, "x, y",40\n')
    assert list(table) == ["label_a", "label_b", "smoker, or not", "age"]
    assert table["smoker, or not"].tolist() == [" 0", "x, y"]
    assert table["label_b"].tolist() == [0, 1]


@pytest.mark.parametrize("ending", [",\n", ",,,\n", ", \n"])
@pytest.mark.parametrize("header", [HEADER, HEADER.replace("\n", ",\n")])
def test_an_empty_last_field_in_every_line_is_left_out(read, caplog, header, ending):
    text = header + f"1,0,0,30{ending}0,1,1,40{ending}"
    pd.testing.assert_frame_equal(read(text), TABLE)
    assert "toy.csv: every line ends in an empty field, which is left out" in caplog.text


def test_an_empty_last_name_without_values_is_left_out(read, caplog):
    pd.testing.assert_frame_equal(read("label_a,label_b,smoker,age,\n1,0,0,30\n0,1,1,40\n"), TABLE)
    assert not caplog.records


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        (HEADER, "r1,1,0,0,30\nNA,0,1,1,40\n"),
        ("," + HEADER, "r1,1,0,0,30\nNA,0,1,1,40\n"),
        ('"Unnamed: 0",' + HEADER, "r1,1,0,0,30\nNA,0,1,1,40\n"),
    ],
)
def test_a_first_column_without_a_name_is_the_index(read, header, rows):
    pd.testing.assert_frame_equal(read(header + rows), TABLE.set_axis(["r1", "NA"]))


@pytest.mark.parametrize("kind", ["pandas", "R"])
def test_the_table_as_pandas_and_as_r_write_it(read, kind):
    table = TABLE.set_axis(["r1", "r2"])
    text = table.to_csv(quoting=csv.QUOTE_NONNUMERIC)
    # write.table(sep=",") of R gives the index no name and no place in the first line.
    pd.testing.assert_frame_equal(
        read(text if kind == "pandas" else text.removeprefix('"",')), table
    )


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("1,0,0,30,\n0,1,1,40\n", "line 2 has 5 fields, but the first line names 4 columns"),
        ("1,0,0,30\n0,1,1,40,\n", "line 3 has 5 fields"),
        ("1,0,0,30\n\n0,1,1\n", "line 4 has 3 fields"),
        ("1,0,0\n0,1,1\n", "line 2 has 3 fields"),
        # The first fields are not distinct, so they are no index.
        ("1,1,0,0,30\n1,0,1,1,40\n", "line 2 has 5 fields"),
        ("1,2,1,0,0,30\n3,4,0,1,1,40\n", "line 2 has 6 fields"),
        # A line break within quotes belongs to the field.
        ('1,0,0,"a\nb\nc"\n0,1,1,40,7\n', "line 5 has 5 fields"),
        (
            '1,0,0,"30\n0,1,1,40\n0,1,1",9,8\n',
            "the quoted lines 2 to 4 have 6",
        ),
        ('1,0,0,"30\n0,1,1,40\n', "is a quote left open?"),
    ],
)
def test_lines_that_do_not_fit_the_names(read, rows, message):
    with pytest.raises(RawFileError, match=re.escape(message)):
        read(HEADER + rows)


def test_a_line_break_within_quotes(read):
    table = read(HEADER + '1,0,0,"a\nb"\n0,1,1,"c"\n')
    assert table["age"].tolist() == ["a\nb", "c"]


def test_a_quote_that_is_open_for_very_long(read):
    with pytest.raises(RawFileError, match=r"toy.csv: field larger than .* is a quote left open\?"):
        read(HEADER + '1,0,0,"30\n' + "0,1,1,40\n" * 20_000)


def test_a_column_without_a_name(read):
    with pytest.raises(RawFileError, match="column 2 has no name in the first line"):
        read("a,,b\n1,2,3\n")


@pytest.mark.parametrize("text", ["", "\n\n", ",,\n1,2,3\n"])
def test_no_names(read, text):
    with pytest.raises(RawFileError, match="is empty: its first line must name the columns"):
        read(text)


def test_names_without_rows(read):
    assert read(HEADER).shape == (0, 4)


def test_only_empty_fields_are_missing(read):
    table = read('a,b\n1,NA\n,None\n3,""\n4,nan\n')
    assert table["a"].isna().tolist() == [False, True, False, False]
    assert table["b"].fillna("").tolist() == ["NA", "None", "", "nan"]


def test_a_long_column_has_one_type(read):
    """In parts of the file alone, the values of the first would be numbers."""
    table = read("a,b\n" + "01,x\n" * 300_000 + "z,x\n")
    assert set(table["a"]) == {"01", "z"}


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_other_encodings(read, encoding):
    with pytest.raises(RawFileError, match=r"toy.csv is not UTF-8; .* iconv -f latin1 -t utf-8"):
        read("a,b\n1,x\n2,größe\n".encode(encoding))


@pytest.mark.parametrize(("text", "warns"), [("5.1,3.5,1\n4,5,0\n", True), (HEADER, False)])
def test_a_first_line_of_numbers(read, caplog, text, warns):
    read(text)
    assert ("the first line names the columns, but holds only numbers" in caplog.text) == warns


def test_another_separator_is_logged(read, caplog):
    with caplog.at_level(logging.INFO):
        read("a;b\n1;2\n")
    assert "toy.csv: the fields are separated by ';'" in caplog.text


def test_a_long_column_of_text_that_begins_with_numbers_is_text(tmp_path):
    # pandas reads so many lines in several parts.
    rows = 300_000
    codes = [*map(str, range(rows - 1)), "x"]
    path = tmp_path / "long.csv"
    pd.DataFrame({"code": codes, "half": np.arange(rows) / 2}).to_csv(path, index=False)
    table = read_csv(path)
    assert table["code"].tolist() == codes
    assert isinstance(table["code"].dtype, pd.StringDtype)
    np.testing.assert_array_equal(table["half"], np.arange(rows) / 2)
