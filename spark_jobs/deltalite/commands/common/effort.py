"""The effort of an operation, as metrics of its commits: its time, and its replans after conflicts.

The table page plots both. Each thread has its own effort, because a maintenance job changes several tables at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from deltalite.txn.proposal import Operation

EXECUTION_TIME = "executionTimeMs"
"""The metric for the milliseconds of work before the commit (`with_effort`). delta-spark has it for row changes."""
REPLANS = "numReplans"
"""The metric for the number of replans after conflicts with other writers. It is missing without replans."""


@dataclass(slots=True)
class _Effort:
    since_s: float
    replans: int


_EFFORT: ContextVar[_Effort | None] = ContextVar("effort", default=None)


@contextmanager
def measured_attempt(replans: int, clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """Measure an attempt that follows this number of replans. `clock` is monotonic, in seconds."""
    token = _EFFORT.set(_Effort(clock(), replans))
    try:
        yield
    finally:
        _EFFORT.reset(token)


def with_effort(operation: Operation, clock: Callable[[], float] = time.monotonic) -> Operation:
    """Return the operation with the metrics of the effort since the attempt began, or since the attempt's last commit.

    If the operation has measured its time itself, that time stays. An operation without metrics, or outside of an
    attempt, stays unchanged.
    """
    effort = _EFFORT.get()
    if effort is None or not operation.metrics:
        return operation
    now_s = clock()
    metrics = {**operation.metrics}
    metrics.setdefault(EXECUTION_TIME, round((now_s - effort.since_s) * 1000))
    if effort.replans > 0:
        metrics[REPLANS] = effort.replans
    effort.since_s = now_s
    return replace(operation, metrics=metrics)
