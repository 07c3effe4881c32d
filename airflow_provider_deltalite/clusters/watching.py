"""Reaches the driver of a deferred task from a process that did not submit the driver.

The process is the triggerer, or the worker that kills the driver after the deferral has timed out. The caller passes
the name of the connection, and no secrets. This process reads what it needs to reach the driver: the connection for
YARN, Airflow's settings for Kubernetes, and the arguments of the `JobSubmitter` for a service.
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
    from logging import Logger

    from airflow_provider_deltalite.clusters.driver_state import WatchedDriver
    from airflow_provider_deltalite.job_submitter import JobSubmitter

_DRIVER_STATES = {
    JobState.RUNNING: DriverState.RUNNING,
    JobState.SUCCEEDED: DriverState.ENDED,
    JobState.FAILED: DriverState.ENDED,
    JobState.MISSING: DriverState.MISSING,
}

_log = logging.getLogger(__name__)


def driver_state_of_job(state: JobState) -> DriverState:
    """Return the state of a driver from the state of its job in a service."""
    return _DRIVER_STATES[state]


def kill_job(submitter: JobSubmitter, job_id: str, log: Logger) -> None:
    """Kill a job in its service. The function logs a failure."""
    try:
        submitter.kill(job_id)
    except Exception as error:  # noqa: BLE001  the task ends anyway
        log.warning("Could not kill the job %s, which may still run and commit: %s", job_id, redacted(str(error)))


def remove_job_files(submitter: JobSubmitter, job_id: str, log: Logger) -> None:
    """Remove the copies of a job's script, library and request. The function logs a failure."""
    try:
        submitter.clean_up(job_id)
    except Exception as error:  # noqa: BLE001  the job has ended
        log.warning("Could not remove the files of the job %s: %s", job_id, redacted(str(error)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceDriver:
    """The driver of a job that a `JobSubmitter` has handed to a service, such as Livy."""

    submitter: JobSubmitter
    job_id: str

    def state(self) -> DriverState:
        """Return the state of the driver. The errors are those of the submitter's `state`."""
        return driver_state_of_job(self.submitter.state(self.job_id))

    def kill(self) -> None:
        """Kill the job, and remove the copies of its files, even if the kill fails. The method logs each failure."""
        kill_job(self.submitter, self.job_id, _log)
        remove_job_files(self.submitter, self.job_id, _log)


def watched_driver(
    conn_id: str, driver_id: str, *, uses_kerberos: bool, submitter: tuple[str, Mapping[str, Any]] | None = None
) -> WatchedDriver:
    """Return the driver with this id. The function sends no request to the cluster.

    :param conn_id: The connection of the task. Only YARN needs it; for a pod, errors name it.
    :param driver_id: The YARN application, a pod as ``namespace:name``, or the id that the submitter returned.
    :param uses_kerberos: As in `YarnApplication`. Only YARN needs it.
    :param submitter: The dotted path and the arguments of a `JobSubmitter`; None for `spark-submit`.
    :raises InvalidRequestError: The submitter could not be made. For a pod: this process has no client of
        Kubernetes, or Airflow's settings name no cluster.
    :raises ValueError: The driver is a YARN application, and the connection is invalid. A missing connection is no
        error here: the driver's `state` raises an `InvalidRequestError`.
    :raises ImportError: `uses_kerberos` is set, and this process lacks the package `requests-kerberos`.
    """
    if submitter is not None:
        return ServiceDriver(submitter=load_submitter(*submitter), job_id=driver_id)
    namespace, _, pod = driver_id.partition(":")
    if pod:
        return DriverPod(api=load_client(conn_id, repeats=False), namespace=namespace, name=pod)
    return YarnApplication(conn_id, driver_id, uses_kerberos=uses_kerberos)
