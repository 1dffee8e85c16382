"""Datasets that load None if no run has made them; a report reads them."""

from typing import Any

from conle.data.atomic import CSVDataset, JSONDataset, ParquetDataset


class Optional:
    """Loads None where the version does not exist; a damaged file is an error."""

    def load(self) -> Any:
        """Load the data, or None."""
        return super().load() if self.exists() else None


class OptionalCSVDataset(Optional, CSVDataset):
    """A CSV table, or None."""


class OptionalJSONDataset(Optional, JSONDataset):
    """A JSON file, or None."""


class OptionalParquetDataset(Optional, ParquetDataset):
    """A Parquet table, or None."""
