"""Identifies a process across restarts and tells whether it is still alive."""

import platform

import psutil


def this_process() -> str:
    """Identity of this process: host, process id and time of its start, joined by _."""
    process = psutil.Process()
    return f"{platform.node()}_{process.pid}_{process.create_time():.2f}"


def is_alive(process: str) -> bool:
    """Whether a process may still run; a process of another host counts as alive.

    Args:
        process: an identity, as `this_process` returns it.
    """
    host, number, began = process.rsplit("_", 2)
    if host != platform.node():
        return True
    try:
        return f"{psutil.Process(int(number)).create_time():.2f}" == began
    except psutil.NoSuchProcess:
        return False
