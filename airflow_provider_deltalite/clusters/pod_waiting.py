"""Waits on a worker until the driver's pod has ended. For a deferred task, the triggerer waits instead."""

from __future__ import annotations

import logging
import random
import time

from airflow.providers.common.compat.sdk import AirflowException

from airflow_provider_deltalite.clusters.driver_pod import DriverPod, PodStatus
from airflow_provider_deltalite.clusters.driver_state import DriverState, DriverWatch
from airflow_provider_deltalite.clusters.kubernetes_api import KubernetesError
from deltalite.errors import InvalidRequestError

MIN_PAUSE_SECONDS = 20.0  # between two polls, as in Airflow's hook
_PENDING_POLLS_BEFORE_WARNING = 10

_log = logging.getLogger(__name__)


def wait_for_success(pod: DriverPod, *, poll_interval: float) -> None:
    """Wait until a pod has succeeded.

    Failed polls are repeated as in `DriverWatch`. The wait ends at the first poll that does not find the pod.

    :param poll_interval: Seconds between two polls. A value below `MIN_PAUSE_SECONDS` has no effect.
    :raises AirflowException: The pod has failed, does not exist, or was on a lost node. For a failed pod, the text has
        the exit code of the driver, if Kubernetes knows it.
    :raises KubernetesError: Kubernetes refused three polls in a row, or has not answered for 15 minutes. The driver may
        still run.
    """
    watch = DriverWatch(started_ms=_now_ms(), poll_interval=max(poll_interval, MIN_PAUSE_SECONDS))
    phase, pending_polls = "", 0
    while True:
        try:
            status = pod.status()
        except (InvalidRequestError, KubernetesError) as error:
            if watch.record_failure(error, _now_ms()) is not None:
                raise KubernetesError(f"{error} The driver may still run and commit.") from error
            _log.warning("%s The task polls again.", error)
        else:
            if status is None:
                raise AirflowException(f"The driver's pod {pod.name} no longer exists. Someone deleted it.")
            if status.phase != phase:
                phase = status.phase
                _log.info("The phase of the driver's pod %s is %s.", pod.name, phase)
            if status.state is not DriverState.RUNNING:
                _check_success(pod, status)
                return
            watch.record_state(status.state, _now_ms())
            pending_polls = pending_polls + 1 if phase == "Pending" else 0
            if pending_polls == _PENDING_POLLS_BEFORE_WARNING:
                _warn_of_pending(pod, status)
        time.sleep(watch.pause_seconds(_now_ms(), random.random()))  # noqa: S311  no secret


def _check_success(pod: DriverPod, status: PodStatus) -> None:
    """Raise an error if the pod, which no longer runs, has failed or was on a lost node."""
    if status.state is DriverState.MISSING:
        raise AirflowException(
            f"The driver's pod {pod.name} was deleted, but its node {status.node} has not reported the end of the pod. "
            "The node has probably crashed. A retry submits a new job. If the driver still runs, only one of the two "
            "jobs commits."
        )
    if status.phase == "Failed":
        exit_code = "" if status.exit_code is None else f" exit_code={status.exit_code}"
        raise AirflowException(f"The driver's pod {pod.name} failed ({status.reason or 'no reason'}{exit_code}).")


def _warn_of_pending(pod: DriverPod, status: PodStatus) -> None:
    _log.warning(
        "The driver's pod %s still waits for its start after %d polls%s. To limit the wait, set execution_timeout.",
        pod.name,
        _PENDING_POLLS_BEFORE_WARNING,
        f" ({status.reason})" if status.reason else "",
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
