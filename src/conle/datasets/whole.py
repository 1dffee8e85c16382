"""Artifacts that are there whole or not at all, whatever ends the process that writes them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import kedro_datasets.json
import kedro_datasets.matplotlib
import kedro_datasets.pandas
import kedro_datasets.text
import kedro_datasets_experimental.safetensors

PARTIAL = ".partial"


class WholeFiles:
    """A file system on which a written file takes its name when it is closed, not before.

    Args:
        files: the file system, an fsspec one.
    """

    def __init__(self, files: Any) -> None:
        self._files = files

    def __getattr__(self, name: str) -> Any:
        """Everything else is the file system's."""
        if name == "_files":
            # Of one that is being unpickled.
            raise AttributeError(name)
        return getattr(self._files, name)

    def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        """Open a file; one that is written is to be closed by `with`."""
        if "w" in mode:
            return self._written(path, mode, **options)
        return self._files.open(path, mode, **options)

    @contextmanager
    def _written(self, path: str, mode: str, **options: Any) -> Iterator[IO]:
        # Named after the process: what a dead one has left can be told from what is being written.
        partial = f"{path}.{os.getpid()}{PARTIAL}"
        try:
            with self._files.open(partial, mode, **options) as file:
                yield file
            self._files.mv(partial, path)
        except BaseException:
            if self._files.exists(partial):
                self._files.rm(partial)
            raise


class Whole:
    """Writes through `WholeFiles`; for a dataset that opens its file by `with`."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._fs = WholeFiles(self._fs)


class CSVDataset(Whole, kedro_datasets.pandas.CSVDataset):
    """A CSV table."""


class JSONDataset(Whole, kedro_datasets.json.JSONDataset):
    """A JSON file."""


class MatplotlibDataset(Whole, kedro_datasets.matplotlib.MatplotlibDataset):
    """A picture."""


class ParquetDataset(Whole, kedro_datasets.pandas.ParquetDataset):
    """A Parquet table."""


class SafetensorsDataset(Whole, kedro_datasets_experimental.safetensors.SafetensorsDataset):
    """Arrays by name."""


class TextDataset(Whole, kedro_datasets.text.TextDataset):
    """Text."""
