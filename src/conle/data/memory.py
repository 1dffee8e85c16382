"""The memory that a matrix takes, known before it is taken."""

import math
from collections.abc import Sequence

import psutil

from conle.errors import DataError


def refuse_beyond_memory(what: str, shape: Sequence[int], copies: int = 1) -> None:
    """Refuse a dense matrix of eight bytes per number that the free memory cannot hold.

    Args:
        what: begins the message.
        shape: of the matrix.
        copies: number of such matrices that exist at once while it is made.

    Raises:
        DataError: names the shape, the memory it takes and the memory that is free.
    """
    needed, free = 8 * copies * math.prod(shape), psutil.virtual_memory().available
    if needed > free:
        raise DataError(
            f"{what}, {' x '.join(map(str, shape))}, does not fit into memory: it takes "
            f"{needed / 1e9:.3g} GB, and {free / 1e9:.3g} GB are free"
        )
