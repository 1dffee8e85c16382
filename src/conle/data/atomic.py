"""Datasets that are written atomically: a file appears complete or not at all.

A version may be written again: a node runs again after its worker died, and the new file replaces
the old one in one step.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from io import TextIOWrapper
from pathlib import Path, PurePosixPath
from typing import IO, Any

import kedro_datasets.json
import kedro_datasets.matplotlib
import kedro_datasets.pandas
import kedro_datasets.text
import kedro_datasets_experimental.safetensors
import numpy as np
from kedro.io.core import get_filepath_str
from safetensors.numpy import save

from conle import kedro_internals
from conle.process_identity import is_alive, this_process

PARTIAL = "*~*.partial"


def partial_name(path: str | Path) -> str:
    """The temporary name of a file or folder that this process writes."""
    return f"{path}~{this_process()}.partial"


def remove_partial(partial: Iterable[Path]) -> None:
    """Remove partial files and folders whose process is no longer alive.

    Args:
        partial: paths that match `PARTIAL`.
    """
    for path in partial:
        if is_alive(path.name.rpartition("~")[2].removesuffix(".partial")):
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


class AtomicFiles:
    """A file system on which a new file gets its name when it is closed.

    Args:
        files: an fsspec file system.
    """

    def __init__(self, files: Any) -> None:
        self._files = files

    def __getattr__(self, name: str) -> Any:
        """Pass everything else on to the file system."""
        if name == "_files":
            # Unpickling asks for `_files` before it is set.
            raise AttributeError(name)
        return getattr(self._files, name)

    def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        """Open a file; a file to be written must be opened by `with`."""
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
        """Write an object of an object store; it appears when the upload is committed."""
        file = self._files.open(path, mode, autocommit=False, **options)
        upload = file.buffer if isinstance(file, TextIOWrapper) else file
        try:
            with file:
                yield file
            upload.commit()
        except BaseException:
            upload.discard()
            raise


class Atomic:
    """Mixin that writes through `AtomicFiles`, for datasets that open their file by `with`."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        # A cached listing would hide a file that another process has just written.
        named["fs_args"] = {"use_listings_cache": False, **(named.get("fs_args") or {})}
        super().__init__(*arguments, **named)
        self._fs = AtomicFiles(self._fs)

    def _get_save_path(self) -> PurePosixPath:
        # Kedro's own method refuses to replace a version.
        return kedro_internals.save_path(self)


def if_exists(preview: Callable) -> Callable:
    """A preview that is None as long as no run has written the file.

    Kedro-Viz warns about a preview that fails. It reads the kind of preview from the annotation,
    which stays that of the base class.
    """

    @wraps(preview)
    def preview_or_none(self: Any, *arguments: Any, **named: Any) -> Any:
        return preview(self, *arguments, **named) if self.exists() else None

    return preview_or_none


class CSVDataset(Atomic, kedro_datasets.pandas.CSVDataset):
    """A CSV table."""

    preview = if_exists(kedro_datasets.pandas.CSVDataset.preview)


class JSONDataset(Atomic, kedro_datasets.json.JSONDataset):
    """A JSON file."""

    preview = if_exists(kedro_datasets.json.JSONDataset.preview)


class MatplotlibDataset(Atomic, kedro_datasets.matplotlib.MatplotlibDataset):
    """A picture."""

    preview = if_exists(kedro_datasets.matplotlib.MatplotlibDataset.preview)


class ParquetDataset(Atomic, kedro_datasets.pandas.ParquetDataset):
    """A Parquet table."""

    preview = if_exists(kedro_datasets.pandas.ParquetDataset.preview)


class SafetensorsDataset(Atomic, kedro_datasets_experimental.safetensors.SafetensorsDataset):
    """Arrays by name."""

    def save(self, data: Mapping[str, np.ndarray]) -> None:
        """Write the arrays; the base class writes to local folders only."""
        path = get_filepath_str(self._get_save_path(), self._protocol)
        with self._fs.open(path, **self._fs_open_args_save) as file:
            file.write(save(dict(data)))
        self._invalidate_cache()


class TextDataset(Atomic, kedro_datasets.text.TextDataset):
    """Text."""
