"""Which process something belongs to, and whether that may still run."""

import platform

import psutil


def this_process() -> str:
    """The host, the number of this process and when it began, which together are its own."""
    process = psutil.Process()
    return f"{platform.node()}_{process.pid}_{process.create_time():.2f}"


def is_alive(process: str) -> bool:
    """Whether a process, as `this_process` describes it, may still run; of another host it may."""
    host, number, began = process.rsplit("_", 2)
    if host != platform.node():
        return True
    try:
        return f"{psutil.Process(int(number)).create_time():.2f}" == began
    except psutil.NoSuchProcess:
        return False
