"""CSV files as spreadsheets, pandas, R and people write them."""

import csv
import logging
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

import pandas as pd

from conle.errors import RawFileError

logger = logging.getLogger(__name__)

SEPARATORS = ",;\t|"
# The second one is an index that pandas has read as a column and written again.
NAMES_OF_AN_INDEX = ("", "Unnamed: 0")
NOT_UTF_8 = "is not UTF-8; if it is text, convert it, such as by iconv -f latin1 -t utf-8"


def read_csv(path: Path) -> pd.DataFrame:
    """Read a table whose first line names the columns.

    The separator is the one that divides the first line into most names. The first column is the
    index if it has no name, or if all other lines have one field more than there are names. Only
    empty fields are missing.

    Raises:
        RawFileError: the file is empty or not UTF-8, a column has no name, or the fields of a line
            do not fit the names.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return _read(path, file)
    except UnicodeDecodeError:
        raise RawFileError(f"{path} {NOT_UTF_8}") from None
    except (csv.Error, pd.errors.ParserError) as error:
        raise RawFileError(f"{path}: {error}; is a quote left open?") from None


def _read(path: Path, file: TextIO) -> pd.DataFrame:
    separator = max(SEPARATORS, key=lambda mark: len(_start(file, mark)[1]))
    if separator != ",":
        logger.info("%s: the fields are separated by %r", path, separator)
    rows, names = _start(file, separator)
    header_width = len(names)
    while names and not names[-1]:
        names.pop()
    if not names:
        raise RawFileError(f"{path} is empty: its first line must name the columns")
    if "" in names[1:]:
        raise RawFileError(f"{path}: column {names.index('', 1) + 1} has no name in the first line")
    if pd.to_numeric(pd.Series(names), errors="coerce").notna().all():
        logger.warning("%s: the first line names the columns, but holds only numbers", path)

    # The first and the last line of the first row of each width.
    widths, line, ends_empty = {}, rows.line_num, True
    for row in rows:
        if row not in ([], [""]):
            widths.setdefault(len(row), (line + 1, rows.line_num))
            ends_empty = ends_empty and not any(row[len(names) :])
        line = rows.line_num
    if not widths:
        return pd.DataFrame(columns=names)
    width, *others = widths
    has_index = names[0] in NAMES_OF_AN_INDEX
    adds_index = not (others or ends_empty or has_index) and len(names) == header_width == width - 1
    columns = [""] * adds_index + names
    if not adds_index and (others or not ends_empty or width < len(names)):
        raise _wrong_width(path, widths, len(names))
    if width > len(columns):
        logger.warning("%s: every line ends in an empty field, which is left out", path)

    table = _parsed(file, separator, width, range(len(columns)))
    mixed = [number for number, column in table.items() if column.dtype == object]
    if mixed:
        table[mixed] = _parsed(file, separator, width, mixed, at_once=True)
    table.columns = columns
    if has_index or adds_index:
        table = table.set_index(columns[0]).rename_axis(None)
    if adds_index and not table.index.is_unique:
        raise _wrong_width(path, widths, len(names))
    return table


def _parsed(
    file: TextIO, separator: str, width: int, columns: Sequence[int], at_once: bool = False
) -> pd.DataFrame:
    """Columns after the first line, by number.

    Args:
        file: the table.
        separator: separates its fields.
        width: number of fields of a line.
        columns: numbers of the columns that are read.
        at_once: takes several times the memory. Otherwise, a column may have text in one part and
            numbers in another.
    """
    _start(file, separator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pd.errors.DtypeWarning)
        return pd.read_csv(
            file,
            sep=separator,
            skipinitialspace=True,
            header=None,
            names=range(width),
            usecols=columns,
            keep_default_na=False,
            na_values=[""],
            low_memory=not at_once,
        )


def _start(file: TextIO, separator: str) -> tuple[Iterator[list[str]], list[str]]:
    """A reader of the lines after the first one, and the fields of the first one."""
    file.seek(0)
    rows = csv.reader(file, delimiter=separator, skipinitialspace=True)
    first = next((row for row in rows if row not in ([], [""])), [])
    return rows, [name.strip() for name in first]


def _wrong_width(path: Path, widths: dict[int, tuple[int, int]], names: int) -> RawFileError:
    """The error of the first row whose number of fields is not that of the names."""
    start, end, width = min((*lines, width) for width, lines in widths.items() if width != names)
    lines = f"line {start} has" if start == end else f"the quoted lines {start} to {end} have"
    return RawFileError(f"{path}: {lines} {width} fields, but the first line names {names} columns")
