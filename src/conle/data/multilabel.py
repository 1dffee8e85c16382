"""Multi-label tables in the usual formats: features of any kind, labels of 0 and 1."""

import logging
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import pandas as pd
from kedro.io import AbstractDataset, DatasetError

from conle.data.arff_table import names_in_xml, read_arff
from conle.data.csv_table import read_csv
from conle.data.mat import BenchmarkMatDataset
from conle.data.matrices import FEATURE_KEYS, LOGICAL_LABEL_KEYS, find_matrix, samples_down
from conle.data.number_text import read_numbers
from conle.errors import DataError, RawFileError
from conle.methods.contract import minus_one_hint

logger = logging.getLogger(__name__)

READABLE = (".csv", ".parquet", ".mat", ".arff")
# Names of the labels in a MATLAB file; `labels` comes later because it may hold distributions.
LABEL_KEYS = (*LOGICAL_LABEL_KEYS, "labels", "y", "target", "targets")
LABEL_VALUES = {"0": 0, "1": 1, "false": 0, "true": 1, "0.0": 0, "1.0": 1}
SHOWN, LONGEST = 5, 300

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
        index: name of the column that names the rows, which is no feature.
        metadata: Kedro-Viz reads it.
    """

    def __init__(
        self,
        filepath: str,
        labels: str | Sequence[str] | None = None,
        labels_prefix: str | None = None,
        labels_last: int | None = None,
        labels_xml: str | None = None,
        index: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        self._filepath = Path(filepath)
        self._label_options = {
            "labels": labels,
            "labels_prefix": labels_prefix,
            "labels_last": labels_last,
            "labels_xml": labels_xml,
        }
        self._index = index
        self.metadata = metadata

    def load(self) -> MultiLabelTable:
        """Read the file.

        Returns:
            Features, as they are in the file, and logical labels (int8, 0 or 1). Both have the
            index, if there is one.

        Raises:
            RawFileError: the file is missing or cannot be read in the format of its suffix; it is
                unclear which columns are labels; a label is neither 0 nor 1; a name occurs twice; a
                column holds several values per row; a matrix does not fit into memory.
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
                table, declared = read_csv(path), None
            elif suffix == ".parquet":
                table, declared = _read_parquet(path), None
            else:
                table, declared = read_arff(path)
        except RawFileError:
            raise
        except DataError as error:
            raise RawFileError(error.message) from None
        # Each reader raises other errors for a damaged file.
        except Exception as error:
            raise RawFileError(
                f"{path} cannot be read as {suffix}: it is damaged, cut off or something else "
                f"({type(error).__name__}: {str(error)[:LONGEST]})"
            ) from error
        table = self._with_names(table)
        names = self._label_names(table, declared)
        features = table.drop(columns=names)
        if features.columns.empty:
            raise RawFileError(f"{path}: every column would be a label, none a feature")
        if suffix == ".csv":
            # In the other formats, the file says which columns are text.
            features = read_numbers(features)
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
        return {"filepath": str(self._filepath), **self._label_options, "index": self._index}

    def _with_names(self, table: pd.DataFrame) -> pd.DataFrame:
        """Check the columns, take blanks off their names, and set the index."""
        path = self._filepath
        if table.columns.nlevels > 1:
            raise RawFileError(
                f"{path}: columns have names of {table.columns.nlevels} levels, such as "
                f"{table.columns[0]!r}: join them to one name each"
            )
        table.columns = table.columns.astype(str).str.strip()
        repeated = table.columns[table.columns.duplicated()].unique()
        if len(repeated):
            raise RawFileError(f"{path}: several columns are named {_shortened(list(repeated))}")
        if self._index is not None:
            self._refuse_absent(table, [str(self._index)])
            table = table.set_index(str(self._index))
        named = [str(name) for name in table.index.names if name is not None]
        if named:
            logger.info("%s: the index is no feature: %s", path, ", ".join(named))
        return table

    def _label_names(self, table: pd.DataFrame, declared: list[str] | None) -> list[str]:
        """Names of the label columns, as the options or the file itself declare them."""
        path, columns = self._filepath, list(table.columns)
        given = {name: value for name, value in self._label_options.items() if value is not None}
        if len(given) > 1:
            raise RawFileError(f"the labels are given in several ways: {', '.join(given)}")
        if not given:
            if not declared:
                raise RawFileError(
                    f"{path}: which columns are labels? Give one of labels=a+b, "
                    "labels_prefix=label_, labels_last=4"
                    + (", labels_xml=FILE" if path.suffix.lower() == ".arff" else "")
                )
            names = declared
        elif "labels_prefix" in given:
            prefix = str(given["labels_prefix"])
            names = [name for name in columns if name.startswith(prefix)]
            if not names:
                starts = [name[: len(prefix)] for name in columns]
                raise RawFileError(
                    f"{path}: no column begins with {prefix!r}; there are: {_shortened(columns)}"
                    + _nearest(prefix, starts)
                )
            for name in map(str, table.index.names):
                if name.startswith(prefix):
                    raise RawFileError(
                        f"{path}: {name!r} begins with {prefix!r}, but is the index: write the "
                        "file with another index, such as by reset_index()"
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
            names = names_in_xml(Path(str(given["labels_xml"])))
        else:
            labels = given["labels"]
            # --params turns a name that is a number into a number.
            names = list(map(str, labels)) if isinstance(labels, list) else str(labels).split("+")
        names = [name.strip() for name in names]
        self._refuse_absent(table, names)
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise RawFileError(f"{path}: labels are named twice: {', '.join(repeated[:SHOWN])}")
        return names

    def _refuse_absent(self, table: pd.DataFrame, names: Sequence[str]) -> None:
        absent = [name for name in names if name not in table.columns]
        if absent:
            index = [str(name) for name in table.index.names if name is not None]
            raise RawFileError(
                f"{self._filepath} has no column {_shortened(absent)}; there are: "
                f"{_shortened(list(table.columns))}"
                + (f"; {_shortened(index)} is the index" if index else "")
                + _nearest(absent[0], list(table.columns))
            )

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
                # tolist makes Python's own numbers, which are shown as -1 and not as np.int64(-1).
                (value,) = column.iloc[[row]].tolist()
                hint = minus_one_hint(pd.to_numeric(column, errors="coerce"))
                raise RawFileError(
                    f"{self._filepath}: labels must be 0 or 1, but column {name!r} "
                    + ("is empty" if pd.isna(value) else f"has {value!r}")
                    + f" in row {row} (from 0; {wrong.sum()} rows of it are neither){hint}"
                )
            converted[name] = values.astype("int8").to_numpy()
        return pd.DataFrame(converted, index=table.index, columns=table.columns)

    def _from_mat(self) -> MultiLabelTable:
        place, options = str(self._filepath), {**self._label_options, "index": self._index}
        given = [name for name, value in options.items() if value is not None]
        if given:
            raise RawFileError(
                f"{place} has its labels as a variable of their own: leave out {given[0]}"
            )
        variables = BenchmarkMatDataset(filepath=place).load()
        features, labels = samples_down(
            find_matrix(variables, FEATURE_KEYS, "features", place),
            find_matrix(variables, LABEL_KEYS, "labels", place),
            "labels",
            place,
        )
        named = [
            pd.DataFrame(matrix, columns=[f"{name}_{j}" for j in range(1, matrix.shape[1] + 1)])
            for name, matrix in (("feature", features), ("label", labels))
        ]
        return named[0], self._as_labels(named[1])


def _read_parquet(path: Path) -> pd.DataFrame:
    import pyarrow.parquet

    for field in pyarrow.parquet.read_schema(path):
        kind = getattr(field.type, "storage_type", field.type)
        if pyarrow.types.is_nested(kind):
            raise RawFileError(
                f"{path}: column {field.name!r} holds several values in a row ({kind}): make "
                "columns of them, or leave it out"
            )
    # Each column is freed as soon as it is converted.
    return pd.read_parquet(
        path, pre_buffer=False, to_pandas_kwargs={"split_blocks": True, "self_destruct": True}
    )


def _nearest(wrong: str, names: Sequence[str]) -> str:
    """A question after the nearest name, if one is near."""
    near = get_close_matches(wrong, names, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _shortened(names: Sequence[str]) -> str:
    """The first names, in quotes, which show blanks."""
    more = f" and {len(names) - SHOWN} more" * (len(names) > SHOWN)
    return ", ".join(map(repr, names[:SHOWN])) + more
