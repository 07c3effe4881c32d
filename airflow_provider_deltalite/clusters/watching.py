"""Opens the driver of a deferred task for a process that did not submit it.

The process is the triggerer, or the worker that kills the driver after the deferral has timed out. The caller passes
the name of the connection, and no secrets. The opened driver gets the connection, and Airflow's settings for
Kubernetes, in this process.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_deltalite.clusters.driver_pod import DriverPod
from airflow_provider_deltalite.clusters.driver_state import DriverState
from airflow_provider_deltalite.clusters.kubernetes_api import load_client
from airflow_provider_deltalite.clusters.yarn_application import YarnApplication
from airflow_provider_deltalite.job_submitter import JobState, load_submitter
from deltalite.redaction import redacted

if TYPE_CHECKING:
    from airflow_provider_deltalite.clusters.driver_state import WatchedDriver
    from airflow_provider_deltalite.job_submitter import JobSubmitter

_DRIVER_STATES = {
    JobState.RUNNING: DriverState.RUNNING,
    JobState.SUCCEEDED: DriverState.ENDED,
    JobState.FAILED: DriverState.ENDED,
    JobState.MISSING: DriverState.MISSING,
}

_log = logging.getLogger(__name__)


def driver_state(state: JobState) -> DriverState:
    """Return the state of a driver from the state of its job in a service."""
    return _DRIVER_STATES[state]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceDriver:
    """The driver of a job that a `JobSubmitter` has handed to a service, such as Livy."""

    submitter: JobSubmitter
    job_id: str

    def state(self) -> DriverState:
        """Return the state of the driver. The errors are those of the submitter's `state`."""
        return driver_state(self.submitter.state(self.job_id))

    def kill(self) -> None:
        """Kill the job, and remove the copies of its script, library and request. The method logs a failure."""
        try:
            self.submitter.kill(self.job_id)
            self.submitter.clean_up(self.job_id)
        except Exception as error:  # noqa: BLE001  the task has ended
            _log.warning("Could not kill the job %s, which may still run: %s", self.job_id, redacted(str(error)))


def open_driver(
    conn_id: str, driver_id: str, *, uses_kerberos: bool, submitter: tuple[str, Mapping[str, Any]] | None = None
) -> WatchedDriver:
    """Return the driver with this id. The function sends no request to the cluster.

    :param conn_id: The connection of the task.
    :param driver_id: The YARN application, a pod as ``namespace:name``, or the id that the submitter returned.
    :param uses_kerberos: Whether requests to YARN's ResourceManager use Kerberos. They also use it if the connection
        has a keytab and a principal.
    :param submitter: The dotted path and the arguments of a `JobSubmitter`; None for `spark-submit`.
    :raises InvalidRequestError: This process has no client of Kubernetes, Airflow's settings name no cluster, or there
        is no such submitter.
    :raises ValueError: The connection is invalid.
    :raises ImportError: The requests use Kerberos, and this process lacks the package `requests-kerberos`.
    :raises AirflowNotFoundException: Airflow has no such connection, or its secrets backend did not answer.
    """
    if submitter is not None:
        return ServiceDriver(submitter=load_submitter(*submitter), job_id=driver_id)
    namespace, _, pod = driver_id.partition(":")
    if pod:
        return DriverPod(api=load_client(conn_id, repeats=False), namespace=namespace, name=pod)
    return YarnApplication(conn_id, driver_id, uses_kerberos=uses_kerberos)
