"""Runs the job of one task attempt and decides its result. DAG parsing does not import this module."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from airflow_provider_deltalite.failures import DeltaApprovalNeeded, log_as_group
from airflow_provider_deltalite.operators._submission import new_submission
from airflow_provider_deltalite.outcome import after_failure, after_success
from airflow_provider_deltalite.shipping import ship_job
from deltalite.errors import DeltaLiteError

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_deltalite.operators._deferral import Deferral
    from airflow_provider_deltalite.operators._submission import SubmittedJob
    from airflow_provider_deltalite.operators._submit import DeltaSubmitOperator
    from airflow_provider_deltalite.operators._table_log import TableLog
    from deltalite.requests import Request
    from deltalite.results import OperationResult


def run_job(
    operator: DeltaSubmitOperator, request: Request, context: Context, table_log: TableLog, deferral: Deferral | None
) -> OperationResult:
    """Submit the job of a request, or finish it after a deferral, and return its result.

    Raises:
        TaskDeferred: The triggerer waits for the end of the job.
        BaseException: The task waits for the decision of a person (``TaskAwaitingInput`` or ``TaskDeferred``).
        Exception: The job was not submitted, or it failed and has not committed.
    """
    addresses = operator.addresses(request)
    with ship_job(operator.job, lambda nonce: request.to_json(nonce=nonce)) as job:
        submission = operator.submission = new_submission(operator, job, addresses, table_log)
        try:
            if deferral is None:
                submission.run(context)
            else:
                submission.resume(deferral, context)
        except DeltaLiteError:
            raise
        except Exception as error:
            submitted_job = submission.submitted_job
            if submitted_job is None or not submitted_job.was_submitted:
                raise
            return _result_after_failure(operator, context, submitted_job, error, table_log)
    finished_job = submission.submitted_job
    if finished_job is None:
        raise AssertionError("A submission without an error has a job.")
    finished_job.read_driver_output()
    result = after_success(finished_job, partial(table_log.find_result_after_job, finished_job, failed=False))
    if result is None:
        raise table_log.no_result_error()
    return result


def _result_after_failure(
    operator: DeltaSubmitOperator, context: Context, job: SubmittedJob, error: Exception, table_log: TableLog
) -> OperationResult:
    job.read_driver_output()
    question = job.question
    if question is None and (omitted_lines := job.omitted_lines):
        log_as_group(operator.log, "Spark's lines below the log level", omitted_lines, level=logging.INFO)
    if job.traceback:
        log_as_group(operator.log, "Traceback of the job", job.traceback)
    try:
        return after_failure(
            job, error, partial(table_log.find_result_after_job, job, failed=True), lambda: table_log.failed_table(None)
        )
    except DeltaApprovalNeeded as approval_needed:
        if question is None:
            raise DeltaApprovalNeeded(
                f"{approval_needed} The question of the job did not reach this worker, so nobody was asked. Let the "
                "worker read the driver's log, then clear the task."
            ) from None
    return operator.ask_person(context, question)
