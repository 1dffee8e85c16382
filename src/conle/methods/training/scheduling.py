"""Decides which folds are trained at the same time, on which device and in which threads."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock
from typing import TypeVar

import numpy as np
import torch

from conle.core.threads import torch_threads
from conle.methods.contract import Rows

Result = TypeVar("Result")

# Scaled features of the folds that are trained at a time, in bytes.
CHUNK_BYTES = 2**30
# With fewer folds, a CPU spends most of its time on calls; more folds do not fit into its cache.
CHUNK_FOLDS_ON_CPU = 25
# Fewer folds than this are not split among more cores.
SMALLEST_CHUNK = 5
# Multiply-adds of a step that are shared among threads. On two idle cores two threads are then
# about 1.4 times as fast as one. Below they gain less, and beside busy processes they are slower
# than one (docs/speed.md).
SHARED_STEP = 300_000_000
# Samples of each fold that are scaled or recovered at a time, so that they stay in the cache.
ROWS_ON_CPU = 256
# Share of a GPU's free memory for the scaled features; the rest is for the temporaries of a step.
SHARE_OF_FREE_MEMORY = 0.25
# A little less than 32 MiB.
LARGE_BLOCK = 2**25 - 2**16


def resolve_device(device: str) -> torch.device:
    """The device of a name; "auto" is the GPU where there is one and the CPU elsewhere.

    Raises:
        ValueError: the name is unknown, or there is no such device on this machine.
    """
    # This does not touch a GPU: a process that has used one cannot fork workers that use one.
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device == "auto":
        return torch.device("cuda" if gpus else "cpu")
    try:
        resolved = torch.device(device)
    except RuntimeError:
        resolved = None
    if resolved is not None and (
        resolved.type == "cpu" or (resolved.type == "cuda" and (resolved.index or 0) < gpus)
    ):
        return resolved
    raise ValueError(
        f'device {device!r} cannot be used on this machine; choose "auto", "cpu" or, with a GPU, '
        '"cuda"'
    )


def fold_chunks(steps: Sequence[int], fold_bytes: int, device: torch.device) -> list[Rows]:
    """Split the folds into chunks of nearly equal sizes, as many for each core of a CPU.

    Args:
        steps: number of steps of each fold; the folds of a chunk have the same number.
        fold_bytes: memory that the scaled features of one fold take.
        device: where the folds are trained.

    Returns:
        The numbers of the folds of each chunk.
    """
    if device.type == "cpu":
        at_a_time = min(torch.get_num_threads(), -(-len(steps) // SMALLEST_CHUNK))
        most = min(CHUNK_BYTES // at_a_time // fold_bytes, CHUNK_FOLDS_ON_CPU)
    else:
        at_a_time = 1
        free, _ = torch.cuda.mem_get_info(device)
        most = min(CHUNK_BYTES, int(SHARE_OF_FREE_MEMORY * free)) // fold_bytes
    chunks = []
    for number in np.unique(steps):
        folds = np.flatnonzero(np.asarray(steps) == number)
        rounds = -(-len(folds) // (max(1, most) * at_a_time))
        chunks += np.array_split(folds, min(rounds * at_a_time, len(folds)))
    return chunks


def on_all_cores(
    work: Callable[[Rows], Result],
    chunks: Sequence[Rows],
    device: torch.device,
    stop: Callable[[], None],
) -> Iterator[Result]:
    """Work on the chunks side by side, one thread per core; a GPU takes one after another.

    The operations of a chunk are too small to be shared among cores; those of a single chunk may be
    large enough (`threads_for`).
    A chunk that does not fit into a GPU's memory is halved until it does.

    Args:
        work: called with a chunk; no fold's result depends on the other folds of its chunk.
        chunks: numbers of folds.
        device: threads are used on a CPU only.
        stop: called where a chunk fails or the work is interrupted; makes the other chunks end
            soon.

    Yields:
        The results in the order of the chunks; of halves where a chunk was halved.
    """
    if device.type == "cpu":
        _keep_freed_memory()
    if device.type != "cpu" or len(chunks) == 1:
        # Streams and graphs belong to the current GPU, wherever the tensors are.
        with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
            for chunk in chunks:
                yield from _as_memory_allows(work, chunk)
        return
    threads = torch.get_num_threads()
    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield from pool.map(work, chunks)
    except BaseException:
        stop()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


def threads_for(multiply_adds: int, device: torch.device) -> AbstractContextManager[None]:
    """Work on one thread of a CPU, unless a step is large enough for all that the caller has.

    Args:
        multiply_adds: those of a step of all folds, forward.
        device: a GPU leaves the number of threads as it is.
    """
    if device.type == "cpu" and multiply_adds < SHARED_STEP:
        return torch_threads(1)
    return nullcontext()


def _keep_freed_memory() -> None:
    """Let the C library keep memory that a step frees for the next step.

    glibc returns free memory beyond twice the largest block that was ever freed (up to 32 MiB) to
    the system. Getting these pages back takes up to a quarter of the time of a
    step. Freeing one large block prevents this.
    """
    torch.empty(LARGE_BLOCK, dtype=torch.uint8)


def _as_memory_allows(work: Callable[[Rows], Result], chunk: Rows) -> Iterator[Result]:
    """The result of a chunk, or of its halves where a GPU has too little memory for the whole."""
    try:
        result = work(chunk)
    except torch.OutOfMemoryError:
        if len(chunk) == 1:
            raise
    else:
        yield result
        return
    # The retry is outside the handler, because the error keeps the chunk's tensors in memory.
    warnings.warn(
        f"the GPU has not enough memory for {len(chunk)} folds at a time; trying half as many",
        stacklevel=2,
    )
    torch.cuda.empty_cache()
    for half in np.array_split(chunk, 2):
        yield from _as_memory_allows(work, half)


class StoppedError(Exception):
    """Ends a thread whose results are no longer needed."""


class StepCounter:
    """Counts the finished steps of all folds, in any thread, and can stop the threads.

    Args:
        on_count: called with the number of finished steps.
    """

    def __init__(self, on_count: Callable[[int], None]) -> None:
        self._on_count, self._done, self._stopped = on_count, 0, False
        self._lock = Lock()

    def __call__(self, steps: int) -> None:
        """Add finished steps.

        Raises:
            StoppedError: `stop` was called.
        """
        with self._lock:
            if self._stopped:
                raise StoppedError
            self._done += steps
            self._on_count(self._done)

    @contextmanager
    def attempt(self, folds: int) -> Iterator[Callable[[], None]]:
        """Give a function to call after each step of some folds.

        Where the memory is too small for so many folds, the steps of the attempt are subtracted
        again, because the folds start anew.
        """
        steps = 0

        def step() -> None:
            nonlocal steps
            steps += 1
            self(folds)

        try:
            yield step
        except torch.OutOfMemoryError:
            self(-steps * folds)
            raise

    def stop(self) -> None:
        """End the work of every thread at its next step."""
        self._stopped = True
