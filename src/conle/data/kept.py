"""What earlier runs have made, found by the key of what it was made of."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, NoReturn

import fsspec
from kedro.io import AbstractDataset, DatasetError


@dataclass(frozen=True)
class Kept:
    """The versions of a node's outputs.

    Attributes:
        keys: the folder of the versions of its key, which a node writes last.
        folders: where its outputs are, each below its name and its version.
    """

    keys: str
    folders: Sequence[str]

    def find(self, key: Mapping[str, Any], outputs: Sequence[str]) -> tuple[str, tuple] | None:
        """The outputs that were made of the same, and their version; None where there are none.

        Args:
            key: of the node and all its inputs.
            outputs: names of the artifacts, as in the catalog.
        """
        for files, path in _versions(self.keys, "*/*.json"):
            if json.loads(files.read_text(path, encoding="utf-8")).get("key") != key:
                continue
            version = PurePosixPath(path).parent.name
            found = [self._find(output, version) for output in outputs]
            if all(output is not None for output in found):
                return version, tuple(_read(*output) for output in found)
        return None

    def _find(self, output: str, version: str) -> tuple[Any, str] | None:
        for folder in self.folders:
            for files, path in _versions(folder, f"{output}.*/{version}/*"):
                if PurePosixPath(path).name == PurePosixPath(path).parents[1].name:
                    return files, path
        return None


def _versions(folder: str, pattern: str) -> Iterator[tuple[Any, str]]:
    """The newest first, with their file system."""
    # What another process has just written is to be seen.
    files, path = fsspec.url_to_fs(folder, use_listings_cache=False)
    return ((files, found) for found in sorted(files.glob(f"{path}/{pattern}"), reverse=True))


def _read(files: Any, path: str) -> Any:
    suffix = PurePosixPath(path).suffix
    if suffix == ".parquet":
        import pandas as pd

        with files.open(path, "rb") as file:
            return pd.read_parquet(file)
    if suffix == ".safetensors":
        from safetensors.numpy import load

        return load(files.read_bytes(path))
    return json.loads(files.read_text(path, encoding="utf-8"))


class KeptDataset(AbstractDataset[None, Kept]):
    """Finds what earlier runs have made.

    Args:
        filepath: of the key.
        folders: of the outputs, each as `{"path": folder}`.
        metadata: for Kedro-Viz.
    """

    def __init__(
        self,
        *,
        filepath: str,
        folders: Mapping[str, Mapping[str, str]],
        metadata: dict[str, Any] | None = None,
    ) -> None:
        self._kept = Kept(filepath, [folder["path"] for folder in folders.values()])
        self.metadata = metadata

    def load(self) -> Kept:
        """The versions there are."""
        return self._kept

    def save(self, data: None) -> NoReturn:
        """Not possible: the outputs are artifacts of their own.

        Raises:
            DatasetError: always.
        """
        raise DatasetError(f"{type(self).__name__} reads only")

    def _exists(self) -> bool:
        return True

    def _describe(self) -> dict[str, Any]:
        return {"filepath": self._kept.keys}
