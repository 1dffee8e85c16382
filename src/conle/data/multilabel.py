"""Multi-label tables of any of the usual formats: features of any kind, labels of 0 and 1."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from kedro.io import AbstractDataset, DatasetError

from conle.data.mat import (
    FEATURE_KEYS,
    LOGICAL_LABEL_KEYS,
    BenchmarkMatDataset,
)
from conle.errors import RawFileError

READABLE = (".csv", ".parquet", ".mat", ".arff")
# Of a MATLAB file; logical labels by that name come before what may be distributions.
LABEL_KEYS = (*LOGICAL_LABEL_KEYS, "labels", "y", "target")
# In the name of a MEKA relation: so many labels come first, or last if it is negative.
MEKA_COUNT = re.compile(r"-C\s+(-?\d+)")
AS_LABELS = {"0": 0, "1": 1, "false": 0, "true": 1, "0.0": 0, "1.0": 1}
SHOWN = 5

MultiLabelTable = tuple[pd.DataFrame, pd.DataFrame]


class MultiLabelDataset(AbstractDataset[None, MultiLabelTable]):
    """Reads features and logical labels from a CSV, Parquet, MATLAB or ARFF file.

    Which columns are labels is said in one way: by a list of names, by a prefix, by how many come
    last, or by the XML file that Mulan puts beside an ARFF file. Without any, an ARFF file says
    itself, by the XML file of its name or by the count of labels in the name of a MEKA relation; a
    MATLAB file always does, by its variables.

    Args:
        filepath: of the table.
        labels: names of the label columns, a list or joined by +.
        labels_prefix: what the names of the label columns begin with.
        labels_last: how many of the last columns are labels.
        labels_xml: the XML file with the names of the labels.
    """

    def __init__(
        self,
        filepath: str,
        labels: str | Sequence[str] | None = None,
        labels_prefix: str | None = None,
        labels_last: int | None = None,
        labels_xml: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        self._filepath = Path(filepath)
        self._ways = {
            "labels": labels,
            "labels_prefix": labels_prefix,
            "labels_last": labels_last,
            "labels_xml": labels_xml,
        }
        self.metadata = metadata

    def load(self) -> MultiLabelTable:
        """Read the file.

        Returns:
            Features, as they are in the file, and logical labels (int8, 0 or 1), with the index
            of the file where it has one.

        Raises:
            RawFileError: it is missing, or cannot be read as what its name says; its labels are
                not told from its features; labels are other than 0 and 1; names occur twice.
        """
        path = self._filepath
        if not path.is_file():
            raise RawFileError(f"{path} is missing")
        suffix = path.suffix.lower()
        if suffix not in READABLE:
            raise RawFileError(
                f"{path}: files of this kind cannot be read; there are: {', '.join(READABLE)}"
            )
        try:
            if suffix == ".mat":
                return self._from_mat()
            if suffix == ".csv":
                table, own = _read_csv(path), None
            elif suffix == ".parquet":
                table, own = pd.read_parquet(path), None
            else:
                table, own = self._read_arff()
        except RawFileError:
            raise
        # Each reader has errors of its own for a damaged file.
        except Exception as error:
            raise RawFileError(
                f"{path} cannot be read as {suffix}: it is damaged, cut off or something else "
                f"({type(error).__name__}: {error})"
            ) from error
        table.columns = table.columns.astype(str)
        _refuse_twice(path, table.columns)
        names = self._label_names(table, own)
        features = table.drop(columns=names)
        if features.columns.empty:
            raise RawFileError(f"{path}: every column would be a label, none a feature")
        return features, self._as_labels(table[names])

    def save(self, data: None) -> None:
        """These files are the user's: they are read only."""
        raise DatasetError(f"{type(self).__name__} reads only")

    def _exists(self) -> bool:
        return self._filepath.is_file()

    def _describe(self) -> dict[str, Any]:
        return {"filepath": str(self._filepath), **self._ways}

    def _label_names(self, table: pd.DataFrame, own: list[str] | None) -> list[str]:
        path, columns = self._filepath, list(table.columns)
        given = {name: value for name, value in self._ways.items() if value is not None}
        if len(given) > 1:
            raise RawFileError(f"the labels are given in several ways: {', '.join(given)}")
        if not given:
            if own is None:
                raise RawFileError(
                    f"{path}: which columns are labels? Give one of labels=a+b, "
                    "labels_prefix=label_, labels_last=4"
                    + (", labels_xml=FILE" if path.suffix.lower() == ".arff" else "")
                )
            names = own
        elif "labels_prefix" in given:
            names = [name for name in columns if name.startswith(str(given["labels_prefix"]))]
            if not names:
                raise RawFileError(
                    f"{path}: no column begins with {given['labels_prefix']!r}; there are: "
                    f"{_shortened(columns)}"
                )
        elif "labels_last" in given:
            last = given["labels_last"]
            if not isinstance(last, int) or not 1 <= last < len(columns):
                raise RawFileError(
                    f"labels_last must be a number from 1 to {len(columns) - 1}, the columns of "
                    f"{path} but one, not {last!r}"
                )
            names = columns[-last:]
        elif "labels_xml" in given:
            names = _names_in_xml(Path(str(given["labels_xml"])))
        else:
            labels = given["labels"]
            # One that is a number is not text in --params.
            names = list(map(str, labels)) if isinstance(labels, list) else str(labels).split("+")
        absent = [name for name in names if name not in columns]
        if absent:
            raise RawFileError(
                f"{path} has no column {', '.join(absent[:SHOWN])}; there are: "
                f"{_shortened(columns)}"
            )
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise RawFileError(f"{path}: labels are named twice: {', '.join(twice[:SHOWN])}")
        return names

    def _as_labels(self, table: pd.DataFrame) -> pd.DataFrame:
        """The labels as 0 and 1."""
        converted = {}
        for name, column in table.items():
            if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
                values = column.astype("Float64")
            else:
                values = column.astype(str).str.strip().str.lower().map(AS_LABELS)
            wrong = ~values.isin([0, 1]).to_numpy()
            if wrong.any():
                row = int(wrong.argmax())
                raise RawFileError(
                    f"{self._filepath}: labels must be 0 or 1, but column {name!r} has "
                    f"{column.iloc[row]!r} in row {row} ({wrong.sum()} rows of it are neither)"
                )
            converted[name] = values.astype("int8").to_numpy()
        return pd.DataFrame(converted, index=table.index, columns=table.columns)

    def _read_arff(self) -> tuple[pd.DataFrame, list[str] | None]:
        import arff

        text = self._filepath.read_text(encoding="utf-8")
        sparse = re.search(r"@data\s*(%[^\n]*\n\s*)*\{", text, flags=re.IGNORECASE) is not None
        content = arff.loads(text, return_type=arff.LOD if sparse else arff.DENSE)
        names = [name for name, _ in content["attributes"]]
        if sparse:
            # What a sparse row leaves out is zero, or the first value of a nominal attribute.
            zero = [kind[0] if isinstance(kind, list) else 0 for _, kind in content["attributes"]]
            rows = [
                [row.get(column, zero[column]) for column in range(len(names))]
                for row in content["data"]
            ]
        else:
            rows = content["data"]
        table = pd.DataFrame(rows, columns=names)
        beside = self._filepath.with_suffix(".xml")
        if beside.is_file():
            return table, _names_in_xml(beside)
        count = MEKA_COUNT.search(content["relation"])
        if count is None:
            return table, None
        number = int(count[1])
        return table, names[:number] if number >= 0 else names[number:]

    def _from_mat(self) -> MultiLabelTable:
        given = [name for name, value in self._ways.items() if value is not None]
        if given:
            raise RawFileError(
                f"{self._filepath} has its labels as a variable of their own: leave out {given[0]}"
            )
        variables = BenchmarkMatDataset(filepath=str(self._filepath)).load()
        matrices = []
        for keys, what in ((FEATURE_KEYS, "features"), (LABEL_KEYS, "labels")):
            found = {
                name.lower(): value
                for name, value in variables.items()
                if not name.startswith("__") and name.lower() in keys
            }
            name = next((key for key in keys if key in found), None)
            if name is None:
                raise RawFileError(
                    f"{self._filepath} has no {what}: no variable is named one of "
                    f"{', '.join(keys)}; "
                    f"there are: {_shortened([n for n in variables if not n.startswith('__')])}"
                )
            matrices.append(found[name])
        features, labels = matrices
        if len(features) != len(labels):
            raise RawFileError(
                f"{self._filepath}: {len(features)} rows of features but {len(labels)} of labels"
            )
        named = [
            pd.DataFrame(matrix, columns=[f"{name}_{j}" for j in range(1, matrix.shape[1] + 1)])
            for name, matrix in (("feature", features), ("label", np.asarray(labels)))
        ]
        return named[0], self._as_labels(named[1])


def _refuse_twice(path: Path, names: Sequence[str]) -> None:
    twice = pd.Index(names)[pd.Index(names).duplicated()].unique()
    if len(twice):
        raise RawFileError(f"{path}: several columns are named {', '.join(twice[:SHOWN])}")


def _read_csv(path: Path) -> pd.DataFrame:
    # pandas gives the second of two columns of one name another.
    _refuse_twice(path, pd.read_csv(path, header=None, nrows=1, dtype=str).iloc[0].dropna())
    table = pd.read_csv(path)
    # A first column without a name is the index that pandas writes.
    if table.columns[0] == "Unnamed: 0":
        table = table.set_index("Unnamed: 0").rename_axis(None)
    return table


def _names_in_xml(path: Path) -> list[str]:
    """The labels of Mulan's XML header, those of a hierarchy in the order of the file."""
    # Refuses entities that expand without end or name other files.
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


def _shortened(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" * (len(names) > SHOWN))
