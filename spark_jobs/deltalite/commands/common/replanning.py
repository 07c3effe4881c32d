"""The retry after a conflict or after a loss of rows: the command replans on the newest snapshot, in the same job.

The new plan includes the winning commit, so the outcome equals that of two operations one after the other. The table
holds nothing of the failed attempt. Each attempt first looks for an earlier commit of the same run. Each command
declares how it replans (`Rebase`). If the winning commit does not conflict, `txn.commit` retries the commit without a
new plan.

Two classes of conflicts are not retried:

- `ConcurrentTransactionException`: an earlier attempt of this run, or another run with the same app id, has committed.
  Its subclass `ConcurrentFlowException` is retried.
- `ConcurrentWriteException`: a commit lost every race for the next version, the log no longer has the version that the
  operation read, or a vacuum may delete files that the operation brings back.

If a source file changes during the read, the attempt conflicts with the writer of this file (`SourceChangedError`). The
command replans after this conflict too.

Executors keep rows that must not be computed twice (`compute_once`). If such an executor is lost, the command replans
too. Such a replan does not count as a retry after a conflict.

An attempt can ask for a new plan if it learns something about its source (`NewPlanNeeded`). Such a replan does not
count either.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from enum import Enum, auto
from typing import TypeVar

from deltalite.commands.common.effort import measured_attempt
from deltalite.errors import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentFlowException,
    MetadataChangedException,
    ProtocolChangedException,
    SourceChangedError,
)
from deltalite.phases import PHASES, Phase
from deltalite.spark.runtime.errors import SPARK_ERRORS, first_line, is_loss_of_rows

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_CONFLICTS = (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentFlowException,
    MetadataChangedException,
    ProtocolChangedException,
    SourceChangedError,
)
_PAUSE_UNIT, LONGEST_PAUSE = 0.1, 5.0
# Spark, too, repeats a stage at most three times if its input is lost (spark.stage.maxConsecutiveAttempts is 4).
_RETRIES_AFTER_LOSSES = 3


class NewPlanNeeded(Exception):  # noqa: N818  no error: the command replans
    """An attempt has learned something about its source, so that the next plan differs.

    A command that raises this exception must learn something new each time, so that the attempts end.
    """


class Rebase(Enum):
    """How a command replans after a conflict."""

    REPLAN_AND_KEEP_ROWS = auto()
    """Replan, and reuse the written files of the rows if they still fit the table."""
    REPLAN = auto()
    """Replan from the beginning, because the rows depend on the table."""


_REBASE_TEXTS = {
    Rebase.REPLAN_AND_KEEP_ROWS: "the new attempt reuses the written rows if they still fit the table",
    Rebase.REPLAN: "the new attempt starts from the beginning",
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
    """Attempt an operation until it meets no conflict or the limits are reached, and return its outcome.

    Args:
        attempt: plans and commits; it may keep state for the next attempt.
        rebase: how the command replans, for the log message.
        retries: the number of attempts after the first one.
        seconds: the time limit. No attempt begins later than this number of seconds after the start of the first one.
        pause: sleeps for a number of seconds. The pauses grow and have random jitter, so that writers spread out.
        clock: a monotonic clock, in seconds.

    Raises:
        ConcurrentModificationException, SourceChangedError: the conflict of the last attempt. The text has the number
            of attempts if there was more than one.
        DeltaLiteError: any other error of an attempt, without a retry.
        Spark's errors: the attempt lost computed rows for the fourth time, or failed for another reason.
    """
    start_s = clock()
    for attempts in range(1, retries + 2):
        try:
            with measured_attempt(attempts - 1, clock):
                return _attempt_without_losses(attempt)
        except _CONFLICTS as conflict:
            longest_s = min(_PAUSE_UNIT * 2**attempts, LONGEST_PAUSE)
            wait_s = random.uniform(0, longest_s)  # noqa: S311  jitter, no secret
            if attempts > retries or clock() + wait_s - start_s >= seconds:
                raise type(conflict)(_with_attempts(conflict.problem, attempts), remedy=conflict.remedy) from conflict
            _log.warning(
                "Replanning after a conflict (retry %s of %s; %s): %s",
                attempts,
                retries,
                _REBASE_TEXTS[rebase],
                conflict.problem,
            )
            pause(wait_s)
    raise AssertionError("unreachable: the last attempt returns or raises")


def _attempt_without_losses(attempt: Callable[[], _T]) -> _T:
    """Attempt an operation until no executor with computed rows is lost, and return its outcome."""
    for losses in range(1, _RETRIES_AFTER_LOSSES + 2):
        try:
            return _attempt_with_new_plans(attempt)
        except SPARK_ERRORS as error:
            if losses > _RETRIES_AFTER_LOSSES or not is_loss_of_rows(error):
                raise
            _log.warning(
                "Replanning after the loss of an executor (retry %s of %s): rows that it had computed are lost: %s",
                losses,
                _RETRIES_AFTER_LOSSES,
                first_line(error),
            )
    raise AssertionError("unreachable: the last attempt returns or raises")


def _attempt_with_new_plans(attempt: Callable[[], _T]) -> _T:
    """Attempt an operation until it needs no new plan, and return its outcome."""
    while True:
        PHASES.begin(Phase.PLAN)
        try:
            return attempt()
        except NewPlanNeeded as reason:
            _log.info("Replanning: %s", reason)


def _with_attempts(problem: str, attempts: int) -> str:
    """Return the problem, with the number of attempts if there was more than one."""
    return problem if attempts == 1 else f"{problem} The operation was planned {attempts} times."
