"""Refuses tables that the free memory cannot hold."""

from collections.abc import Sequence

from conle.core.memory import beyond_memory
from conle.errors import DataError


def refuse_beyond_memory(what: str, shape: Sequence[int], copies: int = 1) -> None:
    """Refuse a dense matrix that the free memory cannot hold.

    Args:
        what: begins the message.
        shape: of the matrix.
        copies: number of such matrices that exist at once while it is made.

    Raises:
        DataError: names the shape, the memory it takes and the memory that is free.
    """
    too_much = beyond_memory(shape, copies)
    if too_much is not None:
        raise DataError(
            f"{what}, {' x '.join(map(str, shape))}, does not fit into memory: {too_much}"
        )
