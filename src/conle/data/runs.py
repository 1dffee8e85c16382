"""The table of runs that are recorded in the catalog."""

from typing import Any

import pandas as pd

from conle.data.read_only import ReadOnlyDataset
from conle.run import recorded_runs, runs_table


class RunsDataset(ReadOnlyDataset):
    """The table of all recorded runs (`conle.run.runs_table`); read-only.

    Args:
        filepath: folder or address of the artifacts.
        metadata: Kedro-Viz reads it.
    """

    def __init__(self, *, filepath: str, metadata: dict[str, Any] | None = None) -> None:
        self._artifacts = filepath
        self.metadata = metadata

    def load(self) -> pd.DataFrame:
        """Read the records of all runs."""
        return runs_table(recorded_runs(self._artifacts))

    def _describe(self) -> dict[str, Any]:
        return {"filepath": self._artifacts}
