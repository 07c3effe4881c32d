"""The job of one task attempt, as an operator uses it: one class for each way to submit a job.

`new_submission` chooses the class by the operator's parameter ``submit_with``. DAG parsing imports neither this module
nor the classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

from airflow_provider_deltalite.job_submitter import load_submitter
from airflow_provider_deltalite.outcome import JobReport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_deltalite.job_submitter import JobSubmitter
    from airflow_provider_deltalite.operators._deferral import Deferral
    from airflow_provider_deltalite.operators._submit import DeltaSubmitOperator
    from airflow_provider_deltalite.operators._table_log import TableLog
    from airflow_provider_deltalite.shipping import ShippedJob

SPARK_SUBMIT = "spark-submit"


class SubmittedJob(JobReport, Protocol):
    """A job and its output."""

    @property
    def was_submitted(self) -> bool:
        """Whether this attempt has submitted the job, or joined it."""

    @property
    def traceback(self) -> str | None:
        """The Python traceback of the error that the job reported."""

    @property
    def omitted_lines(self) -> str:
        """The newest lines of Spark's log that the task's log omits."""

    def read_driver_output(self) -> None:
        """Read and log the output of a driver in a cluster, unless it was read before. A failure is logged."""


class Submission(Protocol):
    """The submission of one task attempt. The methods below `kill` are steps of Airflow's `ResumableJobMixin`."""

    @property
    def submitted_job(self) -> SubmittedJob | None:
        """The job; None before the preflight checks have passed."""

    def run(self, context: Context) -> None:
        """Submit the job, or join the one of an earlier attempt, and wait for its end.

        Raises:
            TaskDeferred: The triggerer waits for the end.
            InvalidRequestError: The job cannot be submitted with these parameters.
            Exception: The job failed.
        """

    def resume(self, deferral: Deferral, context: Context) -> None:
        """Finish the task after a deferral. The errors are those of `run`."""

    def kill(self) -> None:
        """Kill the job, if there may be one."""

    def submit_job(self, context: Context) -> str | None:
        """Submit the job, and return its id."""

    def get_job_status(self, external_id: str, context: Context) -> str:
        """Return the status of the job of an earlier attempt. Join the job if it runs or succeeded."""

    def is_job_active(self, status: str) -> bool:
        """Whether a job with this status still runs."""

    def is_job_succeeded(self, status: str) -> bool:
        """Whether a job with this status has succeeded."""

    def poll_until_complete(self, external_id: str, context: Context) -> None:
        """Wait for the end of the job. The errors are those of `run`."""


def new_submission(
    operator: DeltaSubmitOperator, job: ShippedJob, addresses: Sequence[str], log: TableLog
) -> Submission:
    """Return the submission of a job. The function sends no request.

    :param operator: The operator of the task.
    :param job: The files of the job.
    :param addresses: The addresses of the tables that the job opens.
    :param log: The log of the task's table.

    Raises:
        InvalidRequestError: The class of ``submit_with`` does not exist, or its service cannot reach a local table.
        TableNotFoundError: A service runs the job, and the table that the job needs does not exist.
    """
    if operator.submit_with == SPARK_SUBMIT:
        from airflow_provider_deltalite.operators._spark_submission import SparkSubmission

        return SparkSubmission(operator, job, addresses, log)
    from airflow_provider_deltalite.operators._service_submission import ServiceSubmission

    return ServiceSubmission(operator, job, addresses, log)


def submitter_of(operator: DeltaSubmitOperator) -> JobSubmitter | None:
    """Return the submitter that the operator names; None for `spark-submit`.

    Raises:
        InvalidRequestError: There is no such class, or its constructor does not accept `conn_id`.
    """
    submit_with = operator.submit_with
    if submit_with == SPARK_SUBMIT:
        return None
    if isinstance(submit_with, str):
        return load_submitter(submit_with, {"conn_id": operator._conn_id})  # noqa: SLF001  Airflow's name
    return submit_with


def store_nonce(operator: DeltaSubmitOperator, nonce: str, context: Context) -> None:
    """Store the nonce of the job's markers for a retry that joins the job."""
    if (state := context.get("task_state_store")) is not None:
        state.set(operator.nonce_key, nonce)


def stored_nonce(operator: DeltaSubmitOperator, context: Context, *, otherwise: str) -> str | None:
    """Return the stored nonce; None if none was stored, and `otherwise` if this Airflow has no task state store."""
    state = context.get("task_state_store")
    return otherwise if state is None else cast("str | None", state.get(operator.nonce_key))


def forget_job(operator: DeltaSubmitOperator, context: Context) -> None:
    """Delete the stored id and nonce of a job that has ended, so that the next run of the task submits a new job."""
    if (state := context.get("task_state_store")) is not None:
        for key in (operator.external_id_key, operator.nonce_key, operator._K8S_DRIVER_STATUS_KEY):  # noqa: SLF001
            state.delete(key)
