"""A clock for tests of durations."""

from __future__ import annotations


class SettableClock:
    """A clock that shows the seconds that a test sets in `now_s`."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s
