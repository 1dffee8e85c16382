"""What runs have left of the cells that a report shows."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kedro.io import AbstractVersionedDataset

from conle.data.read_only import ReadOnlyDataset


class RecordedDataset(ReadOnlyDataset):
    """Functions that load entries of the catalog, by the entry's name; read-only.

    Attributes:
        entries: the entries, each with the version to load (`conle.versions.PinnedVersions`).
    """

    def __init__(self, *, metadata: dict[str, Any] | None = None) -> None:
        self.metadata = metadata
        self.entries: Mapping[str, AbstractVersionedDataset] = {}

    def load(self) -> dict[str, Callable[[], Any]]:
        """Functions without arguments; each loads an entry, or None if no run has made it."""
        return {name: partial(_load_existing, entry) for name, entry in self.entries.items()}

    def _describe(self) -> dict[str, Any]:
        return {"entries": len(self.entries)}


def _load_existing(entry: AbstractVersionedDataset) -> Any:
    return entry.load() if entry.exists() else None
