"""Artifacts that are there whole or not at all, whatever ends the process that writes them."""

import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any

import kedro_datasets.json
import kedro_datasets.matplotlib
import kedro_datasets.pandas
import kedro_datasets.text
import kedro_datasets_experimental.safetensors
import numpy as np
from kedro.io.core import get_filepath_str
from safetensors.numpy import save

from conle.process_identity import is_alive, this_process

PARTIAL = "*~*.partial"


def partial_name(path: str | Path) -> str:
    """The name of a file or folder while this process writes it."""
    return f"{path}~{this_process()}.partial"


def remove_left_over(partial: Iterable[Path]) -> None:
    """Remove what processes that are no more did not write to its end.

    Args:
        partial: files and folders that match `PARTIAL`.
    """
    for path in partial:
        if is_alive(path.name.rpartition("~")[2].removesuffix(".partial")):
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


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
        if "file" not in self._files.protocol:
            with self._uploaded(path, mode, **options) as file:
                yield file
            return
        partial = partial_name(path)
        try:
            with self._files.open(partial, mode, **options) as file:
                yield file
            self._files.mv(partial, path)
        except BaseException:
            if self._files.exists(partial):
                self._files.rm(partial)
            raise

    @contextmanager
    def _uploaded(self, path: str, mode: str, **options: Any) -> Iterator[IO]:
        """An object of a store: it appears when the upload is confirmed."""
        file = self._files.open(path, mode, autocommit=False, **options)
        upload = file.buffer if isinstance(file, TextIOWrapper) else file
        try:
            with file:
                yield file
            upload.commit()
        except BaseException:
            upload.discard()
            raise


class Whole:
    """Writes through `WholeFiles`; for a dataset that opens its file by `with`."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        # What another process has just written is to be seen.
        named["fs_args"] = {"use_listings_cache": False, **(named.get("fs_args") or {})}
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

    def save(self, data: Mapping[str, np.ndarray]) -> None:
        """Write the arrays; that of the base class writes to local folders only."""
        path = get_filepath_str(self._get_save_path(), self._protocol)
        with self._fs.open(path, **self._fs_open_args_save) as file:
            file.write(save(dict(data)))
        self._invalidate_cache()


class TextDataset(Whole, kedro_datasets.text.TextDataset):
    """Text."""
