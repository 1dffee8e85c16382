"""Files as they are."""

from typing import Any

from kedro.io.core import get_filepath_str
from kedro_datasets.text import TextDataset

from conle.datasets.if_there import IfThere


class BytesIfThere(IfThere, TextDataset):
    """The bytes of a file, or None; a reader finds either the old file or the new one."""

    def __init__(self, *, filepath: str, metadata: dict[str, Any] | None = None) -> None:
        super().__init__(
            filepath=filepath,
            metadata=metadata,
            fs_args={"open_args_load": {"mode": "rb"}, "open_args_save": {"mode": "wb"}},
        )

    def save(self, data: bytes) -> None:
        """Write the file."""
        path = get_filepath_str(self._get_save_path(), self._protocol)
        # fsspec's transactions move a finished temporary file into place.
        with self._fs.transaction, self._fs.open(path, "wb") as file:
            file.write(data)
        self._invalidate_cache()
