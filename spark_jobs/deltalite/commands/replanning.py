"""An operation that another writer contradicted is planned again, in the same job, on the table as it is now.

The winner's commit is part of the new plan, so the outcome is that of two operations one after the other. Nothing of
the lost attempt is in the table, and the new one begins by looking whether its run has committed meanwhile. What lost
against an earlier try of its own run is not planned again, nor is what nobody contradicted and merely came too late a
thousand times. Each command declares how it follows a winner (`Rebase`); what does not contradict it at all leaves its
actions as they are, which is the commit's own business.
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
_CONTRADICTIONS = (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    MetadataChangedException,
    ProtocolChangedException,
)
_SHORTEST_PAUSE, LONGEST_PAUSE = 0.1, 5.0


class Rebase(Enum):
    """What a command does about a winner that contradicts it."""

    REPLAN_AND_KEEP_ROWS = auto()
    """It is planned again, and the files of its rows are not written again where they are still right."""
    REPLAN = auto()
    """It is planned again from the beginning, since its rows depend on the table."""


_AGAIN = {
    Rebase.REPLAN_AND_KEEP_ROWS: "planned again, with the rows that it has written where they are still right",
    Rebase.REPLAN: "planned again from the beginning",
}


def replanned(
    attempt: Callable[[], _T],
    *,
    rebase: Rebase,
    retries: int,
    seconds: float,
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> _T:
    """The outcome of the first attempt that no winner contradicts.

    Args:
        attempt: plans and commits from the beginning; what it keeps for the next one is its own business.
        rebase: what the command has declared, for the log to say.
        retries: how many more attempts there are after the first.
        seconds: no attempt begins later than so long after the first one.
        pause: waits for so many seconds; the wait grows, by chance, so that rivals do not meet again.
        clock: seconds that only grow.

    Raises:
        ConcurrentModificationException: that of the last attempt, which names the winner and says how many there were.
        DeltaLiteError: any other error of an attempt, at once.
    """
    begun = clock()
    for number in range(1, retries + 2):
        try:
            return attempt()
        except _CONTRADICTIONS as lost:
            wait = random.uniform(0, min(_SHORTEST_PAUSE * 2**number, LONGEST_PAUSE))  # noqa: S311  jitter, no secret
            if number > retries or clock() + wait - begun >= seconds:
                raise type(lost)(_counted(lost.problem, number), remedy=lost.remedy) from lost
            _log.warning("%s It is %s (%s of %s).", lost.problem, _AGAIN[rebase], number, retries)
            pause(wait)
    raise AssertionError("unreachable: the last attempt returns or raises")


def _counted(problem: str, attempts: int) -> str:
    return problem if attempts == 1 else f"{problem} It was planned {attempts} times."
