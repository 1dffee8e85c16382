"""Files as they are."""

from typing import Any

from conle.data.atomic import TextDataset
from conle.data.optional import IfThere


class BytesIfThere(IfThere, TextDataset):
    """The bytes of a file, or None; a reader finds either the old file or the new one."""

    def __init__(self, *, filepath: str, metadata: dict[str, Any] | None = None) -> None:
        super().__init__(
            filepath=filepath,
            metadata=metadata,
            fs_args={"open_args_load": {"mode": "rb"}, "open_args_save": {"mode": "wb"}},
        )
