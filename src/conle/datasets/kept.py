"""What earlier runs have made, found by the key of what it was made of."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from kedro.io import AbstractDataset, DatasetError


@dataclass(frozen=True)
class Kept:
    """The versions of a node's outputs.

    Attributes:
        keys: the folder of the versions of its key, which a node writes last.
        folders: where its outputs are, each below its name and its version.
    """

    keys: Path
    folders: Sequence[Path]

    def find(self, key: Mapping[str, Any], outputs: Sequence[str]) -> tuple[str, tuple] | None:
        """The outputs that were made of the same, and their version; None where there are none.

        Args:
            key: of the node and all its inputs.
            outputs: names of the artifacts, as in the catalog.
        """
        for path in sorted(self.keys.glob("*/*.json"), reverse=True):
            if json.loads(path.read_text(encoding="utf-8")).get("key") != key:
                continue
            version = path.parent.name
            files = [self._file(output, version) for output in outputs]
            if all(file is not None for file in files):
                return version, tuple(_read(file) for file in files)
        return None

    def _file(self, output: str, version: str) -> Path | None:
        found = (file for folder in self.folders for file in folder.glob(f"{output}.*/{version}/*"))
        return next((file for file in found if file.name == file.parents[1].name), None)


def _read(file: Path) -> Any:
    if file.suffix == ".parquet":
        import pandas as pd

        return pd.read_parquet(file)
    if file.suffix == ".safetensors":
        from safetensors.numpy import load_file

        return load_file(file)
    return json.loads(file.read_text(encoding="utf-8"))


class KeptDataset(AbstractDataset[None, Kept]):
    """Finds what earlier runs have made.

    Args:
        filepath: of the key.
        folders: of the outputs.
        metadata: for Kedro-Viz.
    """

    def __init__(
        self, *, filepath: str, folders: Sequence[str], metadata: dict[str, Any] | None = None
    ) -> None:
        self._kept = Kept(Path(filepath), [Path(folder) for folder in folders])
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
        return {"filepath": str(self._kept.keys)}
