"""A wait for another thread or another process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def wait_until(condition: Callable[[], Any], *, seconds: float = 60) -> None:
    """Call `condition` until its value is true. Raises `AssertionError` after the time in `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"timed out after {seconds} s"
        time.sleep(0.02)
