"""The retry after a conflict: the command replans on the newest snapshot, in the same job.

The new plan includes the winning commit, so the outcome equals that of two operations one after the other. The table
holds nothing of the failed attempt. Each attempt first looks for an earlier commit of the same run. Two errors are not
retried: a conflict with an earlier attempt of the same run, and a commit that lost the race for a version too often
without a conflict. Each command declares how it replans (`Rebase`). A winning commit that does not conflict needs no
new plan: `txn.commit` retries the commit on top of it.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from enum import Enum, auto
from typing import TypeVar

from deltalite.errors import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    MetadataChangedException,
    ProtocolChangedException,
)

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_CONFLICTS = (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    MetadataChangedException,
    ProtocolChangedException,
)
_SHORTEST_PAUSE, LONGEST_PAUSE = 0.1, 5.0


class Rebase(Enum):
    """How a command replans after a conflict."""

    REPLAN_AND_KEEP_ROWS = auto()
    """Replan, and reuse the staged files of the rows if they still fit the table."""
    REPLAN = auto()
    """Replan from the beginning, because the rows depend on the table."""


_HOW = {
    Rebase.REPLAN_AND_KEEP_ROWS: "reusing the written rows if they still fit the table",
    Rebase.REPLAN: "from the beginning",
}


def replan_on_conflict(
    attempt: Callable[[], _T],
    *,
    rebase: Rebase,
    retries: int,
    seconds: float,
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> _T:
    """Attempt an operation until it meets no conflict, and return its outcome.

    Args:
        attempt: plans and commits; it may keep state for the next attempt.
        rebase: how the command replans, for the log message.
        retries: the number of attempts after the first one.
        seconds: no attempt begins later than this after the first one.
        pause: sleeps for the given seconds. The wait grows and has random jitter, so that writers spread out.
        clock: a monotonic clock, in seconds.

    Raises:
        ConcurrentModificationException: the conflict of the last attempt, with the number of attempts.
        DeltaLiteError: any other error of an attempt, without a retry.
    """
    start_s = clock()
    for number in range(1, retries + 2):
        try:
            return attempt()
        except _CONFLICTS as conflict:
            wait_s = random.uniform(0, min(_SHORTEST_PAUSE * 2**number, LONGEST_PAUSE))  # noqa: S311  jitter, no secret
            if number > retries or clock() + wait_s - start_s >= seconds:
                raise type(conflict)(_with_attempts(conflict.problem, number), remedy=conflict.remedy) from conflict
            _log.warning(
                "Replanning %s after a conflict (retry %s of %s): %s", _HOW[rebase], number, retries, conflict.problem
            )
            pause(wait_s)
    raise AssertionError("unreachable: the last attempt returns or raises")


def _with_attempts(problem: str, attempts: int) -> str:
    return problem if attempts == 1 else f"{problem} The operation was planned {attempts} times."
