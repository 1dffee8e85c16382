"""ARFF files of Mulan, MEKA and Weka, dense or sparse."""

import re
from pathlib import Path

import numpy as np
import pandas as pd

from conle.data.csv_table import NOT_UTF_8
from conle.data.memory import refuse_beyond_memory
from conle.errors import RawFileError

# The name of a MEKA relation has the number of labels; they come first, or last if it is negative.
MEKA_COUNT = re.compile(r"-C\s+(-?\d+)")
SPARSE = re.compile(r"@data\s*(%[^\n]*\n\s*)*\{", re.IGNORECASE)
UNREAD = re.compile(
    r"^\s*@attribute\s+('[^']*'|\"[^\"]*\"|\S+)\s+(date|relational)\b", re.IGNORECASE | re.MULTILINE
)
NUMERIC = ("NUMERIC", "REAL", "INTEGER")


def read_arff(path: Path) -> tuple[pd.DataFrame, list[str] | None]:
    """Read a table, and the names of its labels if an XML file beside it or its relation has them.

    Raises:
        RawFileError: the file is not UTF-8, an attribute has a type that is not read, a row does
            not fit the attributes, or the XML file names no labels.
        DataError: a sparse table would not fit into memory as a dense one.
    """
    import arff

    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise RawFileError(f"{path} {NOT_UTF_8}") from None
    unread = UNREAD.search(text)
    if unread is not None:
        raise RawFileError(
            f"{path}: attribute {unread[1]} has the type {unread[2]}, which is not read: declare "
            "it as string or numeric, or leave it out"
        )
    sparse = SPARSE.search(text) is not None
    try:
        content = arff.loads(text, return_type=arff.LOD if sparse else arff.DENSE)
    except arff.BadDataFormat as error:
        raise RawFileError(
            f"{path}: line {error.line} has more or fewer values than there are attributes"
        ) from None
    rows, names = content["data"], [name for name, _ in content["attributes"]]
    if sparse:
        table = _dense(path, rows, content["attributes"])
    else:
        table = pd.DataFrame(rows, columns=names)
    beside = path.with_suffix(".xml")
    if beside.is_file():
        return table, names_in_xml(beside)
    count = MEKA_COUNT.search(content["relation"])
    if count is None:
        return table, None
    number = int(count[1])
    return table, names[:number] if number >= 0 else names[number:]


def _dense(path: Path, rows: list[dict], attributes: list[tuple]) -> pd.DataFrame:
    """A dense table from rows that leave out zeros and the first value of nominal attributes."""
    # The columns, and the table that is made of them.
    refuse_beyond_memory(f"{path} as a dense table", (len(rows), len(attributes)), copies=2)
    columns = [
        np.zeros(len(rows))
        if kind in NUMERIC
        else np.full(len(rows), kind[0] if isinstance(kind, list) else 0, dtype=object)
        for _, kind in attributes
    ]
    for row, values in enumerate(rows):
        for column, value in values.items():
            columns[column][row] = value
    return pd.DataFrame(
        {name: column for (name, _), column in zip(attributes, columns, strict=True)}
    )


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
