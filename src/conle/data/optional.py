"""Artifacts that a report uses if an earlier run has left them."""

from typing import Any

from conle.data.atomic import CSVDataset, JSONDataset, ParquetDataset


class IfThere:
    """Loads None where there is no version of the artifact; a damaged one is an error as ever."""

    def load(self) -> Any:
        """The artifact, or None."""
        return super().load() if self.exists() else None


class CSVIfThere(IfThere, CSVDataset):
    """A CSV table, or None."""


class JSONIfThere(IfThere, JSONDataset):
    """A JSON file, or None."""


class ParquetIfThere(IfThere, ParquetDataset):
    """A Parquet table, or None."""
