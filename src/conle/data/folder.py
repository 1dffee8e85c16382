"""A folder of tables, texts and pictures as one entry of the catalog."""

import json
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

import fsspec
import pandas as pd
from kedro.io import AbstractVersionedDataset, DatasetError, Version
from kedro.io.core import get_protocol_and_path

from conle import kedro_internals
from conle.data.atomic import AtomicFiles

# Written last, so a folder without it is not complete.
CONTENTS = "contents.json"
TABLE, PICTURE = ".csv", ".png"


class FolderDataset(AbstractVersionedDataset[dict[str, Any], dict[str, Any]]):
    """Files by name; the suffix of a name is the format.

    A name ends in `.csv` for a data frame and in `.png` for a Matplotlib figure; everything else is
    text. Pictures are saved, but not loaded.

    Args:
        filepath: folder or address of the folder.
        version: None for a folder without versions.
        metadata: Kedro-Viz and the tracking read it.
    """

    def __init__(
        self,
        *,
        filepath: str,
        version: Version | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        self._protocol, path = get_protocol_and_path(filepath, version)
        options = {"auto_mkdir": True} if self._protocol == "file" else {}
        # A cached listing would hide a file that another process has just written.
        self._fs = AtomicFiles(
            fsspec.filesystem(self._protocol, use_listings_cache=False, **options)
        )
        self.metadata = metadata
        super().__init__(
            filepath=PurePosixPath(path),
            version=version,
            exists_function=self._is_complete,
            glob_function=self._fs.glob,
        )

    def load(self) -> dict[str, Any]:
        """Load the tables and texts, by file name."""
        folder = kedro_internals.load_path(self)
        loaded: dict[str, Any] = {}
        for name in json.loads(self._read(folder / CONTENTS)):
            if name.endswith(TABLE):
                with self._fs.open(str(folder / name)) as file:
                    loaded[name] = pd.read_csv(file)
            elif not name.endswith(PICTURE):
                loaded[name] = self._read(folder / name)
        return loaded

    def save(self, data: Mapping[str, Any]) -> None:
        """Write all files; a version that exists is replaced."""
        folder = kedro_internals.save_path(self)
        for name, content in data.items():
            with self._fs.open(str(folder / name), "wb") as file:
                if name.endswith(TABLE):
                    content.to_csv(file, index=False)
                elif name.endswith(PICTURE):
                    content.savefig(file, format="png", dpi=150)
                else:
                    file.write(content.encode())
        with self._fs.open(str(folder / CONTENTS), "wb") as file:
            file.write(json.dumps(list(data), indent=1).encode())

    def _read(self, path: PurePosixPath) -> str:
        with self._fs.open(str(path)) as file:
            return file.read().decode()

    def _is_complete(self, folder: str) -> bool:
        return self._fs.exists(f"{folder}/{CONTENTS}")

    def _exists(self) -> bool:
        try:
            return self._is_complete(str(kedro_internals.load_path(self)))
        except DatasetError:
            return False

    def _describe(self) -> dict[str, Any]:
        return {"filepath": str(self._filepath), "version": self._version}
