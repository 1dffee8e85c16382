"""Multi-label tables in the usual formats: features of any kind, labels of 0 and 1."""

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
# Names of the labels in a MATLAB file; `labels` comes later because it may hold distributions.
LABEL_KEYS = (*LOGICAL_LABEL_KEYS, "labels", "y", "target")
# The name of a MEKA relation has the number of labels; they come first, or last if it is negative.
MEKA_COUNT = re.compile(r"-C\s+(-?\d+)")
LABEL_VALUES = {"0": 0, "1": 1, "false": 0, "true": 1, "0.0": 0, "1.0": 1}
SHOWN = 5

MultiLabelTable = tuple[pd.DataFrame, pd.DataFrame]


class MultiLabelDataset(AbstractDataset[None, MultiLabelTable]):
    """Reads features and logical labels from a CSV, Parquet, MATLAB or ARFF file.

    One argument says which columns are labels. It may be left out for an ARFF file with an XML file
    of the same name (Mulan) or with a number of labels in the name of its relation (MEKA). It must
    be left out for a MATLAB file, whose labels are a variable.

    Args:
        filepath: the table.
        labels: names of the label columns, a list or joined by +.
        labels_prefix: prefix of the names of the label columns.
        labels_last: number of label columns, which come last.
        labels_xml: Mulan's XML file with the names of the labels.
        metadata: Kedro-Viz reads it.
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
        self._label_options = {
            "labels": labels,
            "labels_prefix": labels_prefix,
            "labels_last": labels_last,
            "labels_xml": labels_xml,
        }
        self.metadata = metadata

    def load(self) -> MultiLabelTable:
        """Read the file.

        Returns:
            Features, as they are in the file, and logical labels (int8, 0 or 1). Both have the
            index of the file, if it has one.

        Raises:
            RawFileError: the file is missing or cannot be read in the format of its suffix; it is
                unclear which columns are labels; a label is neither 0 nor 1; a name occurs twice.
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
                table, declared = _read_csv(path), None
            elif suffix == ".parquet":
                table, declared = pd.read_parquet(path), None
            else:
                table, declared = self._read_arff()
        except RawFileError:
            raise
        # Each reader raises other errors for a damaged file.
        except Exception as error:
            raise RawFileError(
                f"{path} cannot be read as {suffix}: it is damaged, cut off or something else "
                f"({type(error).__name__}: {error})"
            ) from error
        table.columns = table.columns.astype(str)
        _refuse_repeated(path, table.columns)
        names = self._label_names(table, declared)
        features = table.drop(columns=names)
        if features.columns.empty:
            raise RawFileError(f"{path}: every column would be a label, none a feature")
        return features, self._as_labels(table[names])

    def save(self, data: None) -> None:
        """Refuse to save: the file is the user's.

        Raises:
            DatasetError: always.
        """
        raise DatasetError(f"{type(self).__name__} is read-only")

    def _exists(self) -> bool:
        return self._filepath.is_file()

    def _describe(self) -> dict[str, Any]:
        return {"filepath": str(self._filepath), **self._label_options}

    def _label_names(self, table: pd.DataFrame, declared: list[str] | None) -> list[str]:
        """Names of the label columns, as the options or the file itself declare them."""
        path, columns = self._filepath, list(table.columns)
        given = {name: value for name, value in self._label_options.items() if value is not None}
        if len(given) > 1:
            raise RawFileError(f"the labels are given in several ways: {', '.join(given)}")
        if not given:
            if declared is None:
                raise RawFileError(
                    f"{path}: which columns are labels? Give one of labels=a+b, "
                    "labels_prefix=label_, labels_last=4"
                    + (", labels_xml=FILE" if path.suffix.lower() == ".arff" else "")
                )
            names = declared
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
            # --params turns a name that is a number into a number.
            names = list(map(str, labels)) if isinstance(labels, list) else str(labels).split("+")
        absent = [name for name in names if name not in columns]
        if absent:
            raise RawFileError(
                f"{path} has no column {', '.join(absent[:SHOWN])}; there are: "
                f"{_shortened(columns)}"
            )
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise RawFileError(f"{path}: labels are named twice: {', '.join(repeated[:SHOWN])}")
        return names

    def _as_labels(self, table: pd.DataFrame) -> pd.DataFrame:
        """Convert columns to labels of 0 and 1."""
        converted = {}
        for name, column in table.items():
            if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
                values = column.astype("Float64")
            else:
                values = column.astype(str).str.strip().str.lower().map(LABEL_VALUES)
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
            # A value that a sparse row leaves out is zero, or the first one of a nominal attribute.
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
        given = [name for name, value in self._label_options.items() if value is not None]
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


def _refuse_repeated(path: Path, names: Sequence[str]) -> None:
    repeated = pd.Index(names)[pd.Index(names).duplicated()].unique()
    if len(repeated):
        raise RawFileError(f"{path}: several columns are named {', '.join(repeated[:SHOWN])}")


def _read_csv(path: Path) -> pd.DataFrame:
    # pandas renames the second of two columns with the same name.
    _refuse_repeated(path, pd.read_csv(path, header=None, nrows=1, dtype=str).iloc[0].dropna())
    table = pd.read_csv(path)
    # pandas writes an index as a first column without a name.
    if table.columns[0] == "Unnamed: 0":
        table = table.set_index("Unnamed: 0").rename_axis(None)
    return table


def _names_in_xml(path: Path) -> list[str]:
    """Names of the labels in Mulan's XML header; a hierarchy is flattened in the file's order."""
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


def _shortened(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" * (len(names) > SHOWN))
