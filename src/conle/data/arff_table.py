"""ARFF files of Mulan, MEKA and Weka, dense or sparse."""

import math
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

import numpy as np
import pandas as pd

from conle.data.csv_table import NOT_UTF_8
from conle.data.memory import refuse_beyond_memory
from conle.errors import RawFileError

# The name of a MEKA relation has the number of labels; they come first, or last if it is negative.
MEKA_COUNT = re.compile(r"-C\s+(-?\d+)")
UNREAD = re.compile(
    r"\s*@attribute\s+('[^']*'|\"[^\"]*\"|\S+)\s+(date|relational)\b", re.IGNORECASE
)
NUMERIC = ("NUMERIC", "REAL", "INTEGER")
# How the values of an attribute are held: the type codes of NumPy and of array.
NUMBER, BINARY, TEXT = "d", "b", "O"
# A missing binary value.
GAP = -1


def read_arff(path: Path) -> tuple[pd.DataFrame, list[str] | None]:
    """Read a table, and the names of its labels if an XML file beside it or its relation has them.

    Numbers of a sparse file are sparse columns. Nominal attributes of 0 and 1 are numbers.

    Raises:
        RawFileError: the file is not UTF-8, an attribute has a type that is not read, a row does
            not fit the attributes, or the XML file names no labels.
        DataError: a sparse table would not fit into memory as a dense one.
    """
    import arff

    lines = _Lines()
    try:
        with path.open(encoding="utf-8-sig") as file:
            sparse = _is_sparse(path, file)
            file.seek(0)
            # The decoder yields row after row.
            kind = arff.LOD_GEN if sparse else arff.DENSE_GEN
            content = arff.load(lines.of(file), return_type=kind)
            rows, attributes = content["data"], content["attributes"]
            table = _sparse(path, rows, attributes) if sparse else _dense(rows, attributes)
    except UnicodeDecodeError:
        raise RawFileError(f"{path} {NOT_UTF_8}") from None
    except arff.BadDataFormat:
        raise RawFileError(
            f"{path}: line {lines.read} has more or fewer values than there are attributes"
        ) from None
    except arff.ArffException as error:
        # Its message names the line.
        error.line = lines.read
        raise
    beside = path.with_suffix(".xml")
    if beside.is_file():
        return table, names_in_xml(beside)
    count = MEKA_COUNT.search(content["relation"])
    if count is None:
        return table, None
    names, number = [name for name, _ in attributes], int(count[1])
    return table, names[:number] if number >= 0 else names[number:]


class _Lines:
    """Counts the lines that are read: the decoder does not say where a row fails."""

    read = 0

    def of(self, file: TextIO) -> Iterator[str]:
        for line in file:
            self.read += 1
            yield line


def _is_sparse(path: Path, file: TextIO) -> bool:
    """Whether the first row is sparse; refuses attributes of a type that is not read."""
    for line in file:
        unread = UNREAD.match(line)
        if unread is not None:
            raise RawFileError(
                f"{path}: attribute {unread[1]} has the type {unread[2]}, which is not read: "
                "declare it as string or numeric, or leave it out"
            )
        if line.lstrip()[:5].lower() == "@data":
            break
    row = next((line for line in file if line.strip() and line.lstrip()[0] != "%"), "")
    return row.lstrip().startswith("{")


def _dense(rows: Iterable[list], attributes: Sequence[tuple]) -> pd.DataFrame:
    """A table of which all numbers share one matrix, and all binary values another."""
    kinds = [_kind(declared) for _, declared in attributes]
    of_kind = {kind: [j for j, own in enumerate(kinds) if own == kind] for kind in (NUMBER, BINARY)}
    matrices = {kind: array(kind) for kind in of_kind}
    texts = {j: [] for j, kind in enumerate(kinds) if kind == TEXT}
    shared: dict[str, str] = {}
    for row in rows:
        for kind, columns in of_kind.items():
            matrices[kind].extend([_stored(row[j], kind) for j in columns])
        for j, values in texts.items():
            # Rows have a text of their own for each value.
            values.append(shared.setdefault(row[j], row[j]))
    table = {}
    for kind, columns in of_kind.items():
        if columns:
            matrix = np.asarray(matrices[kind]).reshape(-1, len(columns))
            table |= {j: _with_gaps(matrix[:, k]) for k, j in enumerate(columns)}
    table |= {j: pd.Series(values, dtype="str") for j, values in texts.items()}
    return pd.DataFrame({name: table[j] for j, (name, _) in enumerate(attributes)}, copy=False)


def _sparse(path: Path, rows: Iterable[dict], attributes: Sequence[tuple]) -> pd.DataFrame:
    """A table from rows that leave out zeros and the first value of nominal attributes."""
    kinds = [_kind(declared) for _, declared in attributes]
    given = [[] if kind == TEXT else array(kind) for kind in kinds]
    places = [array("q") for _ in attributes]
    number = 0
    for number, row in enumerate(rows, start=1):
        for j, value in row.items():
            places[j].append(number - 1)
            given[j].append(_stored(value, kinds[j]))
    # Methods need dense rows.
    refuse_beyond_memory(f"{path} as a dense table", (number, len(attributes)))
    table = {}
    for j, (name, declared) in enumerate(attributes):
        default = _stored(declared[0] if isinstance(declared, list) else 0, kinds[j])
        column = np.full(number, default, dtype=object if kinds[j] == TEXT else kinds[j])
        column[places[j]] = given[j]
        if kinds[j] == TEXT:
            table[name] = pd.Series(column, dtype="str")
        else:
            table[name] = pd.arrays.SparseArray(_with_gaps(column), fill_value=default)
    return pd.DataFrame(table, copy=False)


def _kind(declared: str | list[str]) -> str:
    """How the values of an attribute are held: as numbers, as 0 and 1, or as texts."""
    if isinstance(declared, list):
        return BINARY if set(declared) == {"0", "1"} else TEXT
    return NUMBER if declared in NUMERIC else TEXT


def _stored(value: float | str | None, kind: str) -> float | str | None:
    """A value of the decoder, as it is held; a missing binary value is GAP."""
    if kind == TEXT:
        return value
    if value is None:
        return math.nan if kind == NUMBER else GAP
    return float(value) if kind == NUMBER else int(value)


def _with_gaps(column: np.ndarray) -> np.ndarray:
    """A column whose missing binary values are NaN."""
    if column.dtype == np.int8 and (column == GAP).any():
        return np.where(column == GAP, np.nan, column)
    return column


def names_in_xml(path: Path) -> list[str]:
    """Names of the labels in Mulan's XML header; a hierarchy is flattened in the file's order.

    Raises:
        RawFileError: the file is missing, is no XML or names no labels.
    """
    # defusedxml refuses entities that expand without end or name other files.
    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import ParseError, parse

    try:
        root = parse(path).getroot()
    except OSError:
        raise RawFileError(f"{path} is missing") from None
    except (ParseError, DefusedXmlException) as error:
        raise RawFileError(f"{path} cannot be read as XML: {error}") from None
    names = [
        element.attrib["name"]
        for element in root.iter()
        if element.tag.rsplit("}", 1)[-1] == "label" and "name" in element.attrib
    ]
    if not names:
        raise RawFileError(f"{path} names no labels: there is no <label name=...> in it")
    return names
