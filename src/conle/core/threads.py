"""How many threads work on a problem.

Threads that wait for each other spin. They take the cores from other processes and, beside these,
make the work itself several times slower. So a problem has one thread unless more pay for
themselves.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits

# Up to so many rows NumPy's and SciPy's linear algebra has one thread.
SMALL_TABLE = 2500


def blas_threads_for(rows: int) -> threadpool_limits:
    """Work on one thread of NumPy's and SciPy's linear algebra if a table is small."""
    return threadpool_limits(1 if rows <= SMALL_TABLE else None, user_api="blas")


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """Work on so many threads of PyTorch; the number before returns at the end."""
    # torch takes seconds to load.
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
