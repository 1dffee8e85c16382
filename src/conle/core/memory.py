"""The memory that matrices take, known before it is taken."""

import math
from collections.abc import Sequence

import psutil


def beyond_memory(shape: Sequence[int], copies: int = 1) -> str | None:
    """Whether dense matrices of eight bytes per number do not fit into the free memory.

    Args:
        shape: of a matrix.
        copies: number of such matrices that exist at once.

    Returns:
        What they take and what is free, if they do not fit; otherwise None.
    """
    needed, free = 8 * copies * math.prod(shape), psutil.virtual_memory().available
    if needed <= free:
        return None
    return f"it takes {needed / 1e9:.3g} GB, and {free / 1e9:.3g} GB are free"
