"""Submits a job with Airflow's `SparkSubmitOperator` and a hook. DAG parsing does not import this module."""
# ruff: noqa: SLF001  Airflow's operator keeps its hook and its parameters in private attributes

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_provider_deltalite import preflight
from airflow_provider_deltalite.clusters.pod_waiting import MIN_PAUSE_SECONDS
from airflow_provider_deltalite.hooks.spark_submit import DeltaSparkSubmitHook
from airflow_provider_deltalite.operators._deferral import Deferral, defer, find_obstacle, wants_to_defer
from airflow_provider_deltalite.operators._submission import store_nonce, stored_nonce
from deltalite.redaction import secret_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_deltalite.operators._submit import DeltaSubmitOperator
    from airflow_provider_deltalite.operators._table_log import TableLog
    from airflow_provider_deltalite.shipping import ShippedJob
    from deltalite.results import JobStarted

_MIN_PAUSE_SECONDS_IN_YARN = 10.0  # between two polls, as in Airflow's hook


class SparkSubmission:
    """A job that `spark-submit` starts. `SparkSubmitOperator` handles deploy modes, tracks the job and kills it."""

    _defers = False

    def __init__(
        self, operator: DeltaSubmitOperator, job: ShippedJob, addresses: Sequence[str], log: TableLog | None
    ) -> None:
        self._operator = operator
        self._job = job
        self._addresses = addresses
        self._log = log
        self._may_defer = True

    @property
    def submitted_job(self) -> DeltaSparkSubmitHook | None:
        """The hook, which Airflow's operator keeps."""
        return self._operator._hook

    @property
    def _hook(self) -> DeltaSparkSubmitHook:
        return cast("DeltaSparkSubmitHook", self._operator._hook)

    def run(self, context: Context) -> None:
        """Run the job as `SparkSubmitOperator` does. The operator calls the other methods of this class."""
        SparkSubmitOperator.execute(self._operator, context)

    def resume(self, deferral: Deferral, context: Context) -> None:
        """Wait for a job after a deferral.

        The job has ended, unless the triggerer could not watch it, or the trigger did not resume the task. In the
        second case, the task may defer again.
        """
        operator = self._operator
        self._may_defer = deferral.has_foreign_event
        if deferral.nonce is not None:
            self._job = replace(self._job, nonce=deferral.nonce)
        operator._hook = self.make_hook()
        self._join(deferral.driver_id, context)
        deferral.kill_if_timed_out(operator, self.kill)
        self.poll_until_complete(deferral.driver_id, context)

    def kill(self) -> None:
        """Kill the job, if one was submitted.

        `SparkSubmitOperator` asks YARN's ResourceManager to kill the job. For a job that is not tracked, the operator
        may not know the address of the ResourceManager. The hook kills such a job, and the process of spark-submit.
        """
        if (hook := self.submitted_job) is None:
            return
        if hook.is_untracked_in_yarn:
            hook.on_kill()
        else:
            SparkSubmitOperator.on_kill(self._operator)

    def submit_job(self, context: Context) -> str | None:
        """Submit a job that a retry can join, and store the nonce of the job's markers for that retry."""
        store_nonce(self._operator, self._job.nonce, context)
        return SparkSubmitOperator.submit_job(self._operator, context)

    def get_job_status(self, external_id: str, context: Context) -> str:
        """Return the status of a job that an earlier task attempt submitted, and give the hook the job's id.

        The hook does not get the id of an application that has failed or is lost, because a kill would then end it
        instead of the next submission.
        """
        status = SparkSubmitOperator.get_job_status(self._operator, external_id, context)
        if self._hook.launch.runs_in_pod or self.is_job_active(status) or self.is_job_succeeded(status):
            self._join(external_id, context)
        return self._hook.status_of_joined_driver(status)

    def is_job_active(self, status: str) -> bool:
        """Whether a job with this status of YARN or Kubernetes still runs."""
        return SparkSubmitOperator.is_job_active(self._operator, status)

    def is_job_succeeded(self, status: str) -> bool:
        """Whether a job with this status of YARN or Kubernetes has succeeded."""
        return SparkSubmitOperator.is_job_succeeded(self._operator, status)

    def poll_until_complete(self, external_id: str, context: Context) -> None:
        """Wait for a tracked job, or defer the task until the job has ended."""
        operator, hook = self._operator, self._hook
        nonce = self._join(external_id, context)
        if self._defers:
            minimum = MIN_PAUSE_SECONDS if hook.launch.runs_in_pod else _MIN_PAUSE_SECONDS_IN_YARN
            state = None if self._log is None else self._log.state_before_job
            defer(
                operator,
                context,
                Deferral(driver_id=external_id, nonce=nonce, state_before_job=state),
                trigger_arguments={"conn_id": operator._conn_id, "uses_kerberos": hook.uses_kerberos},
                poll_interval=max(float(operator._status_poll_interval), minimum),
            )
        SparkSubmitOperator.poll_until_complete(operator, external_id, context)

    def _join(self, external_id: str, context: Context) -> str | None:
        """Give the hook the id of a tracked job, so that it can kill the job and read its output. Return the nonce."""
        nonce = stored_nonce(self._operator, context, otherwise=self._job.nonce)
        self._hook.join(external_id, nonce=nonce)
        return nonce

    def make_hook(self) -> DeltaSparkSubmitHook:
        """Make the hook for the job, and run the preflight checks."""
        operator = self._operator
        parameters = operator.hook_parameters()
        parameters["conf"] = dict(operator.conf or {})
        parameters["yarn_track_via_rm_api"] = operator.tracking_in_yarn
        parameters["track_driver_via_k8s_api"] = operator.tracking_in_kubernetes
        parameters |= {"on_start": self._link_application, "name": operator.name or operator.default_name()}
        parameters["hidden"] = frozenset(secret_values(operator.values_with_secrets()))
        hook = DeltaSparkSubmitHook(job=self._job, **parameters)
        hook.warn_of_mixed_pyspark()
        if not operator.shared_folder:
            preflight.check_no_local_tables(hook.launch, self._addresses)
        missing_table = None if self._log is None else self._log.missing_table
        preflight.reject_missing_table(missing_table, in_cluster=hook.launch.in_cluster)
        hook.warn_of_missing_connectors(self._addresses)
        self._defers = self._may_defer and wants_to_defer(operator, find_obstacle(hook))
        if hook.is_untracked_in_yarn:
            preflight.check_durable_without_tracking(operator.durable_parameter)
            if operator.durable:
                operator.log.info(preflight.NOT_TRACKED)
            operator.durable = False
        return hook

    def _link_application(self, job: JobStarted) -> None:
        hook = self._hook
        self._operator.links.store_application_link(
            job, history=hook.history_server, resource_manager=hook.resource_manager, hosts=hook.ui_hosts
        )
