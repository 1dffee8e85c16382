"""A base of datasets that show what others have written."""

from typing import Any, NoReturn

from kedro.io import AbstractDataset, DatasetError


class ReadOnlyDataset(AbstractDataset):
    """Always exists, and refuses to save."""

    def save(self, data: Any) -> NoReturn:
        """Refuse to save.

        Raises:
            DatasetError: always.
        """
        raise DatasetError(f"{type(self).__name__} is read-only")

    def _exists(self) -> bool:
        return True
