"""The part of the hook that knows which driver belongs to its job, and kills that driver.

The base class also follows a driver of another job, if a line of the output names its application or its pod.
"""

from __future__ import annotations

import re
from contextlib import suppress
from subprocess import TimeoutExpired
from typing import TYPE_CHECKING

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.common.compat.sdk import AirflowException

from airflow_provider_deltalite.clusters.driver_state import DriverState
from airflow_provider_deltalite.clusters.pod_waiting import wait_for_success
from airflow_provider_deltalite.clusters.processes import kill, process_tree, terminate_driver
from airflow_provider_deltalite.clusters.yarn_application import YarnError, application_state
from deltalite.errors import InvalidRequestError
from deltalite.redaction import redacted

if TYPE_CHECKING:
    from airflow_provider_deltalite.clusters.pod_submission import PodSubmission
    from airflow_provider_deltalite.preflight import Launch

_YARN_ID_PATTERN = re.compile(r"application_[0-9]+_[0-9]+")
_ACTIVE_PHASES = ("Pending", "Running")
_GRACE_SECONDS = 3.0  # Airflow kills a task that does not end within five seconds


class DriverHook(SparkSubmitHook):
    """Follow the driver of one job. The driver runs on this worker, in YARN, or in a pod of Kubernetes."""

    launch: Launch
    _yarn_id_of_job: str | None = None
    _pod_submission: PodSubmission | None = None
    _has_joined = False
    _is_killed = False

    @property
    def was_submitted(self) -> bool:
        """Whether this hook started spark-submit, or joined a driver that an earlier hook submitted."""
        return self._submit_sp is not None or self._has_joined

    @property
    def tracked_id(self) -> str | None:
        """The YARN application or the pod of this job; None if it is unknown, or if the driver runs on this worker."""
        return self._yarn_application_id or self._kubernetes_driver_pod

    @property
    def _yarn_application_id(self) -> str | None:
        """The YARN application of this job.

        The base class sets it for each line that names an application. The setter keeps the first id.
        """
        return self._yarn_id_of_job

    @_yarn_application_id.setter
    def _yarn_application_id(self, value: str | None) -> None:
        if value is None or (self._yarn_id_of_job is None and _YARN_ID_PATTERN.fullmatch(value)):
            self._yarn_id_of_job = value

    @property
    def _kubernetes_driver_pod(self) -> str | None:
        """The name of this job's driver pod.

        The base class sets it for each line that names a pod. If a line names this pod, the pod exists, and the
        setter makes it the owner of the job's Secret.
        """
        pod = None if self._pod_submission is None else self._pod_submission.pod
        return None if pod is None else pod.name

    @_kubernetes_driver_pod.setter
    def _kubernetes_driver_pod(self, value: str | None) -> None:
        if self._pod_submission is not None and value is not None and value == self._kubernetes_driver_pod:
            self._pod_submission.make_pod_owner(has_ended=False)

    def adopt_driver(self, external_id: str) -> bool:
        """Follow a driver in a cluster, which an earlier hook may have submitted.

        :param external_id: The YARN application, or a pod as `namespace:name`. `on_kill` kills it from now on.
        :returns: Whether it is a YARN application that this hook did not know.
        """
        self._has_joined = True
        if self._pod_submission is not None:
            namespace, _, pod = external_id.partition(":")
            self._connection["namespace"] = namespace  # the base class polls there
            self._pod_submission.adopt(namespace, pod)
        elif self._is_yarn_cluster_mode and self._yarn_id_of_job != external_id:
            self._yarn_id_of_job = external_id
            return True
        return False

    def status_of_joined_driver(self, status: str) -> str:
        """Return the status of a driver that an earlier hook submitted.

        The status is ``Terminating`` for a pod that is being deleted. Such a pod has the phase of a running one until
        its containers have ended. A task attempt must not join it.

        :param status: The phase of the pod, or the state of the YARN application.
        :raises InvalidRequestError: The worker may not read pods.
        :raises KubernetesError: Kubernetes does not answer, or cannot serve the request now.
        """
        pod = None if self._pod_submission is None else self._pod_submission.pod
        if status not in _ACTIVE_PHASES or pod is None or not pod.is_being_deleted():
            return status
        return "Terminating"

    def query_yarn_application_status(self, application_id: str) -> str:
        """Return the status of an application that an earlier hook submitted.

        The status is ``MISSING`` if the ResourceManager does not know the application, for example after it lost its
        state. Without this method, the base class raises an error, and each retry fails.

        :raises YarnError: The ResourceManager does not answer, or refuses the request.
        """
        try:
            return str(super().query_yarn_application_status(application_id))
        except RuntimeError as error:
            if self._is_missing_in_yarn(application_id):
                return "MISSING"
            raise YarnError(
                f"Could not read the state of {application_id}, the application of an earlier task attempt. The "
                "application may still run, so this attempt submits no job. Check the ResourceManager, and its address "
                "in the connection's extra 'yarn_resourcemanager_webapp_address'. The reason: "
                f"{redacted(str(error))}"
            ) from error

    def _is_missing_in_yarn(self, application_id: str) -> bool:
        address, auth = self._get_yarn_rm_base_url(), self._resolved_yarn_rm_auth
        try:
            return application_state(address, application_id, auth) is DriverState.MISSING
        except (InvalidRequestError, YarnError):
            return False

    def forget_driver(self) -> None:
        """Forget the driver of an earlier hook, before a new submission."""
        self._yarn_id_of_job = None
        self._has_joined = False

    def on_kill(self) -> None:
        """Kill the job, also one that the main thread is about to submit.

        A driver on this worker gets SIGTERM and three seconds first, so that it removes its uncommitted files.
        """
        self._is_killed = True
        running = self._submit_sp if self._submit_sp and self._submit_sp.poll() is None else None
        processes = process_tree(running.pid) if running else []
        if running and not self.launch.in_cluster:
            terminate_driver(processes)
            with suppress(TimeoutExpired):
                # psutil's `wait` would take the exit code, and the thread that reads the output would not get it.
                running.wait(_GRACE_SECONDS)
        if self._pod_submission is None:
            self._kill_with_base_class()
        kill(processes)
        if self._pod_submission is not None:
            self._pod_submission.delete_pod()  # the last step, because spark-submit may just have created it
            self._run_post_submit_commands()

    def _kill_with_base_class(self) -> None:
        """Kill spark-submit, and the application in YARN if there is one. A missing `yarn` program causes a warning."""
        try:
            super().on_kill()
        except FileNotFoundError as error:
            self.log.warning(
                "Could not kill %s: this worker has no program '%s'. The application may still run.",
                self._yarn_application_id,
                error.filename,
            )

    def _poll_k8s_driver_via_api(self) -> str | None:
        """Wait until the pod has succeeded, read its output, delete the pod, and return its phase.

        The base class would wait for a pod on a lost node until Kubernetes removes the pod.
        """
        pod = None if self._pod_submission is None else self._pod_submission.pod
        if pod is None:
            raise AirflowException("spark-submit created no pod for the driver.")
        try:
            wait_for_success(pod, poll_interval=float(self._status_poll_interval))
            self._delete_driver_pod()
        finally:
            self._run_post_submit_commands()
        return "Succeeded"
