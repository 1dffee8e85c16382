"""The memory that a matrix takes, known before it is taken."""

import math
from collections.abc import Sequence

import psutil

from conle.errors import DataError

BYTES_PER_NUMBER = 8
GIGABYTE = 1e9


def refuse_beyond_memory(what: str, shape: Sequence[int], copies: int = 1) -> None:
    """Refuse a dense matrix that the free memory cannot hold.

    Args:
        what: begins the message.
        shape: of the matrix, which has eight bytes per number.
        copies: number of matrices of this shape that exist at once while it is made.

    Raises:
        DataError: names the shape, the memory it takes and the memory that is free.
    """
    needed = copies * math.prod(shape) * BYTES_PER_NUMBER / GIGABYTE
    free = psutil.virtual_memory().available / GIGABYTE
    if needed > free:
        raise DataError(
            f"{what}, {' x '.join(map(str, shape))}, does not fit into memory: it takes "
            f"{needed:.3g} GB, and {free:.3g} GB are free"
        )
