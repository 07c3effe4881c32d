"""The budget of a maintenance job: the time and the bytes that its steps may take.

The bytes are distributed before the first step, so that the tables with the largest gain get them in every run. The
time is checked before each step. A started step always ends, so the job can take longer than `max_seconds`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from deltalite.inspection.table_rows import Outcome, TableRow
from deltalite.requests import Step
from deltalite.sizes import format_bytes


class Deadline:
    """The end of the time in which steps may start. Without `max_seconds` the time never ends."""

    def __init__(self, max_seconds: int | None, *, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._max_seconds = max_seconds
        self._clock_s = clock_s
        self._start_s = clock_s()
        self._is_stopped = False

    def stop(self) -> None:
        """Let no further step start."""
        self._is_stopped = True

    @property
    def reason_to_stop(self) -> str | None:
        """The reason why no step may start now; None if one may start."""
        if self._is_stopped:
            return "the job was stopped"
        if self._max_seconds is not None and self._clock_s() - self._start_s >= self._max_seconds:
            return f"max_seconds={self._max_seconds} was used up"
        return None


def limit_bytes(rows: Iterable[TableRow], max_bytes: int | None) -> list[TableRow]:
    """Return the rows, with `not reached` for each due optimize that exceeds the remaining bytes.

    This optimize uses no bytes, so a later and smaller one may still run. The caller sorts the rows by descending gain.
    """
    limited_rows: list[TableRow] = []
    used_bytes = 0
    for row in rows:
        step = next((s for s in row.steps if s.step is Step.OPTIMIZE and s.outcome is Outcome.DUE), None)
        if step is None or row.before is None or max_bytes is None:
            limited_rows.append(row)
            continue
        size_bytes, rest_bytes = row.before.bytes_to_rewrite, max_bytes - used_bytes
        if size_bytes <= rest_bytes:
            used_bytes += size_bytes
            limited_rows.append(row)
            continue
        sizes = f"{format_bytes(size_bytes)} to rewrite exceed the rest of max_bytes, {format_bytes(rest_bytes)}"
        limited_rows.append(row.with_step(replace(step, outcome=Outcome.NOT_REACHED, reason=f"{sizes}; {step.reason}")))
    return limited_rows
