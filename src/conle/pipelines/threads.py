"""How many threads a method may use."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def in_threads(*inputs: Any, function: Callable, **bound: Any) -> Any:
    """A node's function, with its number of threads as the last input (None for all cores)."""
    *own, threads = inputs
    with limited_threads(threads):
        return function(*own, **bound)


@contextmanager
def limited_threads(threads: int | None) -> Iterator[None]:
    """Let NumPy, SciPy, scikit-learn and PyTorch use so many threads; None leaves it to them.

    Sums depend, in their last bits, on how many threads share them.
    """
    if threads is None:
        yield
        return
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with threadpool_limits(threads):
            yield
    finally:
        torch.set_num_threads(before)
