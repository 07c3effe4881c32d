"""Submits a job with a `JobSubmitter`. DAG parsing does not import this module."""
# ruff: noqa: SLF001  Airflow's operator keeps its parameters in private attributes

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from airflow.providers.common.compat.openlineage.utils.spark import (
    inject_parent_job_information_into_spark_properties,
    inject_transport_information_into_spark_properties,
)
from airflow.providers.common.compat.sdk import AirflowException

from airflow_provider_deltalite import preflight
from airflow_provider_deltalite.clusters.driver_state import DriverWatch
from airflow_provider_deltalite.clusters.watching import driver_state_of_job, kill_job, remove_job_files
from airflow_provider_deltalite.job_submitter import JobState, JobSubmitter, SparkJob
from airflow_provider_deltalite.operators._deferral import Deferral, defer, wants_to_defer
from airflow_provider_deltalite.operators._submission import store_nonce, stored_nonce, submitter_of
from airflow_provider_deltalite.output import JobOutput, LevelledLog, spark_log_level
from airflow_provider_deltalite.secrets import hide
from deltalite.redaction import redacted, secret_values

if TYPE_CHECKING:
    import logging
    from collections.abc import Sequence

    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_deltalite.operators._submit import DeltaSubmitOperator
    from airflow_provider_deltalite.operators._table_log import TableLog
    from airflow_provider_deltalite.shipping import ShippedJob
    from deltalite.requests import AuditQuestion
    from deltalite.results import JobError, JobStarted, OperationResult


_MIN_PAUSE_SECONDS = 5.0
# Parameters of the hook that the operator itself uses, or that `SparkJob` has under another name.
_OMITTED_PARAMETERS = frozenset(
    {"application_args", "conf", "conn_id", "java_class", "name", "status_poll_interval", "verbose"}
)
_END_TEXTS = {JobState.FAILED: "failed", JobState.MISSING: "no longer exists"}


class ServiceSubmission:
    """A job that a `JobSubmitter` hands to a service. It is also the job's report (`SubmittedJob`)."""

    _job_id: str | None = None
    _state: JobState = JobState.RUNNING
    _has_read_output = False
    _is_killed = False

    def __init__(
        self, operator: DeltaSubmitOperator, job: ShippedJob, addresses: Sequence[str], log: TableLog | None
    ) -> None:
        self._operator = operator
        self._submitter = cast("JobSubmitter", submitter_of(operator))
        self._job = job
        self._log = log
        self._conf = {str(name): str(value) for name, value in (operator.conf or {}).items()}
        if not operator.shared_folder:
            preflight.reject_local_tables(addresses, f"{type(self._submitter).__name__} runs the job elsewhere")
        preflight.reject_missing_table(None if log is None else log.missing_table, in_cluster=True)
        self._output = JobOutput(
            operator.log.info,
            self._link_application,
            frozenset(secret_values(operator.values_with_secrets())),
            nonce=job.nonce,
            spark_level=spark_log_level(self._conf),
        )
        self._defers = False

    @property
    def submitted_job(self) -> ServiceSubmission:
        """This object, which reads the output of the job."""
        return self

    @property
    def was_submitted(self) -> bool:
        """Whether this attempt has submitted the job, or joined it."""
        return self._job_id is not None

    @property
    def result(self) -> OperationResult | None:
        """The result that the job reported."""
        return self._output.result

    @property
    def error(self) -> JobError | None:
        """The error that the job reported."""
        return self._output.error

    @property
    def question(self) -> AuditQuestion | None:
        """The question to a person that the job reported."""
        return self._output.question

    @property
    def traceback(self) -> str | None:
        """The Python traceback of the error that the job reported."""
        return self._output.traceback

    @property
    def omitted_lines(self) -> str:
        """The newest lines of Spark's log that the task's log omits."""
        return self._output.omitted_lines

    def exit_code_of_job(self, hook_error: Exception | None = None) -> int | None:  # noqa: ARG002  as in `JobReport`
        """Return None. A service reports only whether the job failed. The job's output names the error."""
        return None

    def run(self, context: Context) -> None:
        """Submit the job, or join the one of an earlier attempt, and wait for its end."""
        operator = self._operator
        self._defers = wants_to_defer(operator, None)
        if operator._openlineage_inject_parent_job_info:
            self._conf = inject_parent_job_information_into_spark_properties(self._conf, context)
        if operator._openlineage_inject_transport_info:
            self._conf = inject_transport_information_into_spark_properties(self._conf, context)
        operator.execute_resumable(context)

    def resume(self, deferral: Deferral, context: Context) -> None:
        """Finish the task after a deferral.

        The job has ended, unless the triggerer could not watch it, or the trigger did not resume the task. In the
        second case, the task may defer again.
        """
        if deferral.nonce is not None:
            self._job = replace(self._job, nonce=deferral.nonce)
        self._join(deferral.driver_id, deferral.nonce)
        deferral.kill_if_timed_out(self._operator, self.kill)
        self._defers = deferral.has_foreign_event and wants_to_defer(self._operator, None)
        self.poll_until_complete(deferral.driver_id, context)

    def kill(self) -> None:
        """Kill the job, also one that the main thread is about to submit. A failure is logged."""
        self._is_killed = True
        if self._job_id is None:
            return
        kill_job(self._submitter, self._job_id, self._operator.log)
        self._clean_up()

    def submit_job(self, context: Context) -> str:
        """Submit a job that a retry can join, and store the nonce of the job's markers for that retry."""
        operator = self._operator
        self._clean_up()  # after a job of an earlier attempt that failed
        self._job_id, self._state = None, JobState.RUNNING
        self._has_read_output = False
        self._output.expect_nonce(self._job.nonce)
        store_nonce(operator, self._job.nonce, context)
        hide(self._conf)
        parameters = {
            name: value
            for name, value in operator.hook_parameters().items()
            if value and name not in _OMITTED_PARAMETERS
        }
        job_id = self._submitter.submit(
            SparkJob(
                job_id=self._job.public_id,
                name=operator.name or operator.default_name(),
                script=operator.application or self._job.script,
                library=self._job.library,
                request=self._job.request,
                conf=self._conf,
                parameters=parameters,
            )
        )
        self._job_id = job_id
        operator.log.info("Submitted the job %s.", job_id)
        if self._is_killed:
            self.kill()
            raise AirflowException("The task was stopped while it submitted its job.")
        return job_id

    def get_job_status(self, external_id: str, context: Context) -> str:
        """Join the job of an earlier attempt, so that this task can kill it, and return its state.

        Raises:
            AirflowException: The service refuses the request, or has not answered for 15 minutes.
        """
        self._join(external_id, stored_nonce(self._operator, context, otherwise=self._job.nonce))
        watch = self._new_watch()
        while not self._read_state(watch, external_id):
            _pause(watch)
        return self._state.value

    def is_job_active(self, status: str) -> bool:
        """Whether a job in this state still runs."""
        return status == JobState.RUNNING

    def is_job_succeeded(self, status: str) -> bool:
        """Whether a job in this state has succeeded."""
        return status == JobState.SUCCEEDED

    def poll_until_complete(self, external_id: str, context: Context) -> None:
        """Wait until the job has ended, or defer the task until then.

        Raises:
            TaskDeferred: The triggerer waits for the end of the job.
            AirflowException: The job failed or does not exist any more. Or the service refuses the requests, or has not
                answered for 15 minutes.
        """
        if self._defers:
            nonce = stored_nonce(self._operator, context, otherwise=self._job.nonce)
            state = None if self._log is None else self._log.state_before_job
            deferral = Deferral(driver_id=external_id, nonce=nonce, state_before_job=state)
            dotted_path, arguments = self._submitter.serialize()
            trigger_arguments = {"conn_id": self._operator._conn_id, "submitter": [dotted_path, arguments]}
            defer(
                self._operator,
                context,
                deferral,
                trigger_arguments=trigger_arguments,
                poll_interval=self._poll_interval,
            )
        watch = self._new_watch()
        while not self._read_state(watch, external_id) or not watch.record_state(
            driver_state_of_job(self._state), _now_ms()
        ):
            _pause(watch)
        if self._state is not JobState.SUCCEEDED:
            raise AirflowException(f"The job {external_id} {_END_TEXTS[self._state]}.")

    @property
    def _poll_interval(self) -> float:
        """The seconds between two polls."""
        return max(float(self._operator._status_poll_interval), _MIN_PAUSE_SECONDS)

    def _new_watch(self) -> DriverWatch:
        return DriverWatch(started_ms=_now_ms(), poll_interval=self._poll_interval)

    def _read_state(self, watch: DriverWatch, job_id: str) -> bool:
        """Read the state of the job. Return False if the service does not answer.

        Raises:
            AirflowException: The service refuses the request, or has not answered for too long.
        """
        try:
            self._state = self._submitter.state(job_id)
        except Exception as error:
            end = watch.record_failure(error, _now_ms())
            self._operator.log.warning("Could not read the state of the job %s: %s", job_id, watch.error_text)
            if end is not None:
                raise AirflowException(
                    f"Could not follow the job {job_id}, which may still run: {watch.error_text}"
                ) from error
            return False
        return True

    def read_driver_output(self) -> None:
        """Read and log the output of the job, and remove the copies of its files. A failure is logged."""
        if self._job_id is None or self._has_read_output:
            return
        log = self._operator.log
        try:
            lines = self._submitter.read_log(self._job_id)
            log.info("Log of the driver of %s:", self._job_id)
            levelled_log = LevelledLog(cast("logging.Logger", log), self._output.omits)
            for line in self._output.to_log(lines, has_ended=True):
                levelled_log.info(line)
            self._has_read_output = True
        except Exception as error:  # noqa: BLE001  the table's log can still show the commit
            log.warning("Could not read the log of the job %s: %s", self._job_id, redacted(str(error)))
        self._clean_up()

    def _join(self, job_id: str, nonce: str | None) -> None:
        """Follow a job that an earlier attempt may have submitted."""
        self._job_id = job_id
        if nonce is not None:
            self._output.expect_nonce(nonce)

    def _clean_up(self) -> None:
        """Remove the copies of the job's files, unless the job may still read them. A failure is logged."""
        may_run = self._state is JobState.RUNNING and not self._is_killed
        if self._job_id is None or may_run:
            return
        remove_job_files(self._submitter, self._job_id, self._operator.log)

    def _link_application(self, job: JobStarted) -> None:
        history = self._conf.get("spark.yarn.historyServer.address")
        self._operator.links.store_application_link(job, history=history, resource_manager=None, hosts=())


def _pause(watch: DriverWatch) -> None:
    time.sleep(watch.pause_seconds(_now_ms(), random.random()))  # noqa: S311  no secret


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
