"""The processes of a driver on this worker: spark-submit's JVM, and the Python driver below it."""

from __future__ import annotations

from contextlib import suppress

import psutil


def process_tree(pid: int) -> list[psutil.Process]:
    """Return a process and all its descendants."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def terminate_driver(processes: list[psutil.Process]) -> None:
    """Send SIGTERM to the Python driver, or to spark-submit's JVM if the driver has not started.

    The driver needs its parent, the JVM, to clean up, and the JVM ends with the driver.
    """
    drivers = [process for process in processes[1:] if _is_python(process)]
    for process in drivers or processes[:1]:
        with suppress(psutil.NoSuchProcess):
            process.terminate()


def kill(processes: list[psutil.Process]) -> None:
    """Send SIGKILL to processes that still exist."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def _is_python(process: psutil.Process) -> bool:
    try:
        return "python" in process.name()
    except psutil.NoSuchProcess:
        return False
