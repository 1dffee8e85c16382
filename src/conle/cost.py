"""Seconds and memory of a piece of work."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

SECONDS_BETWEEN_SAMPLES = 0.02
MIB = 2**20


@contextmanager
def measured_cost() -> Iterator[dict[str, float]]:
    """Measure the work inside.

    Yields:
        A dict. After the work it holds `seconds` (wall time), `peak_memory_mib` (the largest
        resident memory of the process during the work, sampled every 20 ms) and
        `memory_before_mib`.
    """
    process = psutil.Process()
    cost = {"memory_before_mib": process.memory_info().rss / MIB}
    peak = process.memory_info().rss
    done = threading.Event()

    def sample() -> None:
        nonlocal peak
        while not done.wait(SECONDS_BETWEEN_SAMPLES):
            peak = max(peak, process.memory_info().rss)

    sampler = threading.Thread(target=sample, daemon=True)
    sampler.start()
    start = time.perf_counter()
    try:
        yield cost
    finally:
        cost["seconds"] = time.perf_counter() - start
        done.set()
        sampler.join()
        cost["peak_memory_mib"] = max(peak, process.memory_info().rss) / MIB
