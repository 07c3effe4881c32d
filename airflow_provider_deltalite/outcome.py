"""Decides the outcome of a submission: one function for each way in which spark-submit can end.

The decision uses three sources: the marker lines of the job, the exit code of the job's driver, and the table's log.
The log is read if the other two leave the outcome or the audits open. If the log has a commit of this DAG run, the
task succeeds, even if the process failed. The functions here read nothing themselves; the caller passes a function that
reads the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from airflow_provider_deltalite.failures import FailedTable, error_class_named, failure, job_failure
from deltalite.errors import CommitStateUnknownError, DeltaLiteError, error_class_for

if TYPE_CHECKING:
    from deltalite.requests import AuditQuestion
    from deltalite.results import JobError, OperationResult

_log = logging.getLogger(__name__)
_KILLED = "The job was killed, often because memory ran out (`driver_memory`, or the limit of the worker's container). "
_TERMINATED = "The job was terminated from outside (SIGTERM). "
# A shell adds 128 to the number of a signal; Python negates it.
_SIGNALS: dict[int | None, str] = {137: _KILLED, -9: _KILLED, 143: _TERMINATED, -15: _TERMINATED}


class JobReport(Protocol):
    """The report of a job that has ended, from the hook of spark-submit or from a service."""

    @property
    def result(self) -> OperationResult | None:
        """The result that the job reported."""

    @property
    def error(self) -> JobError | None:
        """The error that the job reported."""

    @property
    def question(self) -> AuditQuestion | None:
        """The question to a person that the job reported."""

    def exit_code_of_job(self, hook_error: Exception | None = None) -> int | None:
        """Return the exit code of the job's driver; None if it is unknown.

        The text of `hook_error` may contain the exit code.
        """


def after_success(job: JobReport, find_result: Callable[[], OperationResult | None]) -> OperationResult | None:
    """Return the result of a job that succeeded; None if neither the job nor the log has one.

    1. The job reported a result: that result. If the report lacks the results of audits, the log completes it.
    2. The marker line was lost, or was printed on another machine: the result that the log shows.

    Args:
        job: The report of the job.
        find_result: Reads the result of this DAG run from the table's log.
    """
    if job.result is not None:
        return job.result if job.result.audits is not None else _with_logged_audits(job.result, find_result)
    logged_result = find_result()
    return None if logged_result is None else _as_not_skipped(logged_result)


def after_failure(
    job: JobReport,
    hook_error: Exception,
    find_result: Callable[[], OperationResult | None],
    find_table: Callable[[], FailedTable | None] = lambda: None,
) -> OperationResult:
    """Return the result of a job that has committed in spite of its failure; raise the failure of any other job.

    1. The job reported an error other than `CommitStateUnknownError`, and its exit code agrees: raise that error.
    2. The log has a commit of this DAG run, or the log is unreadable and the job reported a result: the task succeeds.
    3. The job's report or the exit code names a `deltalite` error: raise that error.
    4. Otherwise: raise `DeltaJobError`, which Airflow retries.

    The log comes before an exit code without a report, because a JVM or a cluster can end with the same code.

    Args:
        job: The report of the job.
        hook_error: The exception of Airflow's hook.
        find_result: Reads the result of this DAG run from the table's log.
        find_table: Returns the table and version for the message.

    Raises:
        AirflowException, AirflowFailException: The failure of the job, see `failures`.
    """
    exit_code = job.exit_code_of_job(hook_error)
    exit_code_class = None if exit_code is None else error_class_for(exit_code)
    reported_class = None if job.error is None else error_class_named(job.error.kind)
    if (
        reported_class is not None
        and reported_class is exit_code_class
        and reported_class is not CommitStateUnknownError
    ):
        raise failure(reported_class, *_problem_and_remedy(job, exit_code), table=find_table()) from None
    logged_result = _find_if_readable(
        find_result, otherwise=job.result, consequence="this worker does not know whether the job committed"
    )
    if logged_result is not None:
        _log.warning(
            "Ignoring exit code %s of the job: the job had already finished version %s of %s, so the task succeeds.",
            exit_code,
            logged_result.version,
            logged_result.table,
        )
        return job.result or _as_not_skipped(logged_result)
    error_class = reported_class or exit_code_class
    if error_class is not None:
        raise failure(error_class, *_problem_and_remedy(job, exit_code), table=find_table()) from None
    raise job_failure(_other_failure_text(job, hook_error, exit_code), table=find_table()) from None


def _with_logged_audits(result: OperationResult, find_result: Callable[[], OperationResult | None]) -> OperationResult:
    """Return the result with the audits that the log shows for the same version; unchanged if it shows none."""
    logged_result = _find_if_readable(
        find_result, otherwise=None, consequence="this worker does not know the results of the audits"
    )
    if logged_result is None or not logged_result.audits or logged_result.version != result.version:
        return result
    return replace(result, audits=logged_result.audits)


def _find_if_readable(
    find_result: Callable[[], OperationResult | None], *, otherwise: OperationResult | None, consequence: str
) -> OperationResult | None:
    """Return the result in the log. If the log is unreadable, log the `consequence` and return `otherwise`."""
    try:
        return find_result()
    except DeltaLiteError as error:
        _log.warning("Could not read the table's log, so %s: %s", consequence, error)
        return otherwise


def _as_not_skipped(result: OperationResult) -> OperationResult:
    """Return the result of this task attempt: `skipped` is False, and `committed` is True if there is an app id.

    The DAG run had no commit before this attempt. A result with a `skip_reason` comes from this attempt, so the
    function returns it unchanged.
    """
    if result.skip_reason:
        return result
    return replace(result, committed=result.app_id is not None, skipped=False)


def _problem_and_remedy(job: JobReport, exit_code: int | None) -> tuple[str, str]:
    if job.error is None:
        return (
            f"The job ended with exit code {exit_code}; its message did not reach this worker.",
            "Read the driver's log.",
        )
    message, remedy = job.error.message, job.error.remedy
    return message.removesuffix(remedy).rstrip() or message, remedy


def _other_failure_text(job: JobReport, hook_error: Exception, exit_code: int | None) -> str:
    """Return the text for an error that is not of `deltalite`: the job's error, or else the hook's error."""
    if job.error is not None:
        return f"{job.error.kind}: {job.error.message}"
    return f"{_SIGNALS.get(exit_code, '')}{hook_error}"
