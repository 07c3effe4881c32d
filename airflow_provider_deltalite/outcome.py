"""What a submission came to, decided from what the worker knows after it: one function for each way it can end.

What is known: what the job said in its marker lines, the exit code of spark-submit, and the table's log, which is asked
last and has the last word. A commit of this run that is in the log is success, whatever the process did at its end,
because nothing after the commit can fail a task. Nothing here reads anything itself: the look into the log is handed
in.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from airflow_provider_deltalite.failures import Where, error_class_named, failure, job_failure
from deltalite.errors import CommitStateUnknownError, DeltaLiteError, error_class_for

if TYPE_CHECKING:
    from deltalite.results import JobError, OperationResult

_log = logging.getLogger(__name__)
_KILLED = "The job was killed, often for want of memory (`driver_memory`, or the limit of the worker's container). "
_ENDED = "The job was asked to end from outside. "
# As a shell and as Python tell of a signal.
_SIGNALS: dict[int | None, str] = {137: _KILLED, -9: _KILLED, 143: _ENDED, -15: _ENDED}


class Said(Protocol):
    """What a submission left behind, as the hook remembers it."""

    @property
    def result(self) -> OperationResult | None:
        """What the job said that it did."""

    @property
    def error(self) -> JobError | None:
        """The error that the job said."""

    def exit_code_of_job(self, raised: Exception | None = None) -> int | None:
        """Of the job's driver, as far as it is known, also from what was raised."""


def after_success(said: Said, find_commit: Callable[[], OperationResult | None]) -> OperationResult | None:
    """The result of a job that ended well, or None where nobody knows it.

    1. The job said it.
    2. Its line was lost, or was printed on another machine: the log says the same.
    """
    if said.result is not None:
        return said.result
    landed = find_commit()
    return None if landed is None else _of_this_try(landed)


def after_failure(
    said: Said,
    raised: Exception,
    find_commit: Callable[[], OperationResult | None],
    where: Callable[[], Where | None] = lambda: None,
) -> OperationResult:
    """The result of a submission that failed after its commit; otherwise the task's failure is raised.

    `where` tells the table and its version for the message.

    1. The exit code is one of ours, and is certain about the commit: that error, with the job's message.
    2. The process ended in a way of its own, or the job could not tell: our commit is in the log, and the task is done.
    3. It is not there, and the job said an error: that error.
    4. It said nothing, or an error that is not ours: what Airflow's hook raised, which another try may cure.
    """
    code = said.exit_code_of_job(raised)
    cls = None if code is None else error_class_for(code)
    if cls is not None and cls is not CommitStateUnknownError:
        raise failure(cls, *_problem_and_remedy(said, code), where=where()) from None
    landed = _looked_up(find_commit)
    if landed is not None:
        _log.warning(
            "The job ended with exit code %s after its work was done (version %s of %s), and so is the task.",
            code,
            landed.version,
            landed.table,
        )
        return said.result or _of_this_try(landed)
    if cls is None and said.error is not None:
        cls = error_class_named(said.error.kind)
    if cls is not None:
        raise failure(cls, *_problem_and_remedy(said, code), where=where()) from None
    raise job_failure(_own_words(said, raised, code), where=where()) from None


def _looked_up(find_commit: Callable[[], OperationResult | None]) -> OperationResult | None:
    """The commit, where the log can be read; where it cannot, the failure of the job is the one to report."""
    try:
        return find_commit()
    except DeltaLiteError as error:
        _log.warning("Whether the job committed cannot be seen from here: %s", error)
        return None


def _of_this_try(landed: OperationResult) -> OperationResult:
    """The run had not committed before this try submitted its job, so what the log shows is no skipped commit."""
    return replace(landed, committed=landed.app_id is not None, skipped=False)


def _problem_and_remedy(said: Said, code: int | None) -> tuple[str, str]:
    if said.error is None:
        return f"The job ended with exit code {code}; its log has the message.", ""
    message, remedy = said.error.message, said.error.remedy
    return message.removesuffix(remedy).rstrip() or message, remedy


def _own_words(said: Said, raised: Exception, code: int | None) -> str:
    """An error that is not ours is said as the job said it; else the end of the output may tell."""
    if said.error is not None:
        return f"{said.error.kind}: {said.error.message}"
    return f"{_SIGNALS.get(code, '')}{raised}"
