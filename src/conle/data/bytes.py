"""Datasets that load and save the bytes of a file."""

from typing import Any

from conle.data.atomic import TextDataset
from conle.data.optional import Optional


class OptionalBytesDataset(Optional, TextDataset):
    """The bytes of a file, or None if it does not exist."""

    def __init__(self, *, filepath: str, metadata: dict[str, Any] | None = None) -> None:
        super().__init__(
            filepath=filepath,
            metadata=metadata,
            fs_args={"open_args_load": {"mode": "rb"}, "open_args_save": {"mode": "wb"}},
        )
