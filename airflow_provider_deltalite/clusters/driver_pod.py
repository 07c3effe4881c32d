"""The pod of a driver in Kubernetes. The worker chooses the pod's name, so it can delete the pod at any time."""

from __future__ import annotations

import datetime as dt
import logging
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from airflow_provider_deltalite.clusters.driver_state import DriverState
from airflow_provider_deltalite.clusters.kubernetes_api import (
    TIMEOUT_SECONDS,
    KubernetesError,
    explain_errors,
    has_status,
)
from airflow_provider_deltalite.clusters.log_lines import MAX_BYTES, DriverLogError, lines_of
from deltalite.errors import InvalidRequestError

# The driver's container, unless the user's pod template names another (org.apache.spark.deploy.k8s.Constants).
_CONTAINER = "spark-kubernetes-driver"
_FINAL_PHASES = ("Succeeded", "Failed")
_MAX_LINES = 20_000
# The limit for the part of a pod's name that names the application. A complete name then has at most 63 characters,
# the limit for a host name.
_MAX_APPLICATION_CHARACTERS = 39
_LOG_ATTEMPTS, _PAUSE_SECONDS = 3, 2.0
_CREATION_SECONDS = 1.0  # the last request of a killed spark-submit may create the pod within this time
_LATE_SECONDS = 60.0  # a healthy node ends a deleted pod within its grace period, or a little later

_log = logging.getLogger(__name__)


def pod_name(application: str, job_id: str) -> str:
    """Return the name of the pod for a job, such as ``sales-load-0a1b2c3d4e5f6071-driver``."""
    readable = re.sub(r"[^a-z0-9]+", "-", application.lower())[:_MAX_APPLICATION_CHARACTERS].strip("-")
    return f"{readable or 'deltalite'}-{job_id}-driver"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStatus:
    """The status of a pod that exists.

    `node` is the name of its node. `exit_code` is the exit code of the driver's container, if it has ended. `reason`
    says why the pod or this container has ended, or why the pod waits for its start. Each is empty or None if
    Kubernetes does not know it.
    """

    state: DriverState
    phase: str
    node: str = ""
    exit_code: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverPod:
    """A pod that may not exist yet. `api` is a `CoreV1Api`."""

    api: Any
    namespace: str
    name: str

    def become_owner(self, secret: str) -> bool:
        """Make the pod the owner of a Secret, and return whether the pod exists. Kubernetes deletes both together.

        Raises:
            InvalidRequestError: The worker may not read the pod or change the Secret, or the Secret does not exist.
            KubernetesError: Kubernetes does not answer, or cannot serve the request now.
        """
        pod_and_time = self._read_if_exists()
        if pod_and_time is None:
            return False
        pod, _ = pod_and_time
        owner = {"apiVersion": "v1", "kind": "Pod", "name": self.name, "uid": str(pod.metadata.uid)}
        with explain_errors(f"make the pod {self.name} the owner of the Secret {secret}"):
            self.api.patch_namespaced_secret(
                secret,
                self.namespace,
                {"metadata": {"ownerReferences": [owner]}},
                _request_timeout=TIMEOUT_SECONDS,
            )
        return True

    def state(self) -> DriverState:
        """Return the state of the pod. `status` explains when a pod that still exists counts as `MISSING`.

        Raises:
            InvalidRequestError: The worker may not read pods.
            KubernetesError: Kubernetes does not answer, or cannot serve the request now.
        """
        status = self.status()
        return DriverState.MISSING if status is None else status.state

    def status(self) -> PodStatus | None:
        """Return the status of the pod; None if it does not exist.

        A pod that is being deleted runs until its containers have ended. If the node has crashed, nobody reports their
        end, and the phase stays `Running`. So the state of a pod is `MISSING` a minute after its grace period.

        Raises:
            InvalidRequestError: The worker may not read pods.
            KubernetesError: Kubernetes does not answer, or cannot serve the request now.
        """
        pod_and_time = self._read_if_exists()
        return None if pod_and_time is None else _status_of(*pod_and_time)

    def is_being_deleted(self) -> bool:
        """Whether someone has deleted the pod, but the pod still exists.

        Raises:
            InvalidRequestError: The worker may not read pods.
            KubernetesError: Kubernetes does not answer, or cannot serve the request now.
        """
        pod_and_time = self._read_if_exists()
        return pod_and_time is not None and pod_and_time[0].metadata.deletion_timestamp is not None

    def read_log(self) -> list[str]:
        """Return the newest lines of the driver's output.

        If Kubernetes does not answer, the method pauses and tries again, up to three times in all. A long line is
        returned in several parts.

        Raises:
            DriverLogError: The pod does not exist, or Kubernetes does not return its log.
        """
        attempt = 1
        while True:
            try:
                return self._read_log()
            except (InvalidRequestError, KubernetesError) as error:
                if isinstance(error, InvalidRequestError) or attempt == _LOG_ATTEMPTS:
                    raise DriverLogError(str(error)) from error
            time.sleep(_PAUSE_SECONDS * attempt)
            attempt += 1

    def _read_log(self) -> list[str]:
        container = _driver_container(self._read()[0])
        with explain_errors(f"read the log of the pod {self.name}"):
            answer = self.api.read_namespaced_pod_log(
                self.name,
                self.namespace,
                container=container,
                tail_lines=_MAX_LINES,
                _preload_content=False,
                _request_timeout=TIMEOUT_SECONDS,
            )
            return lines_of(_newest_text(answer))

    def delete(self) -> bool:
        """Delete the pod, and return whether it existed. If it is missing, pause and try once more.

        Raises:
            InvalidRequestError: The worker may not delete pods.
            KubernetesError: Kubernetes does not answer, or cannot serve the request now.
        """
        if self._delete():
            return True
        time.sleep(_CREATION_SECONDS)
        return self._delete()

    def kill(self) -> None:
        """Delete the pod, if it exists. The method logs a failure."""
        try:
            if self.delete():
                _log.info("Deleted the driver's pod %s.", self.name)
        except (InvalidRequestError, KubernetesError) as error:
            _log.warning(
                "%s The driver may still run and commit. To end it: kubectl delete pod %s --namespace %s",
                error,
                self.name,
                self.namespace,
            )

    def _delete(self) -> bool:
        try:
            with explain_errors(f"delete the pod {self.name}"):
                self.api.delete_namespaced_pod(self.name, self.namespace, _request_timeout=TIMEOUT_SECONDS)
        except InvalidRequestError as error:
            if has_status(error, 404):
                return False
            raise
        return True

    def _read_if_exists(self) -> tuple[Any, dt.datetime] | None:
        """Return the pod, and the time of the answer by the clock of the API server; None if the pod does not exist."""
        try:
            return self._read()
        except InvalidRequestError as error:
            if has_status(error, 404):
                return None
            raise

    def _read(self) -> tuple[Any, dt.datetime]:
        with explain_errors(f"read the pod {self.name}"):
            pod, _, headers = self.api.read_namespaced_pod_with_http_info(
                self.name, self.namespace, _request_timeout=TIMEOUT_SECONDS
            )
        return pod, _time_of(headers)


def _status_of(pod: Any, now: dt.datetime) -> PodStatus:
    phase = pod.status.phase or "Pending"
    if phase in _FINAL_PHASES:
        state = DriverState.ENDED
    else:
        state = DriverState.MISSING if _is_deletion_late(pod, now) else DriverState.RUNNING
    terminated_states = [
        container.state.terminated
        for container in pod.status.container_statuses or []
        if container.name == _driver_container(pod) and container.state and container.state.terminated
    ]
    reasons = [pod.status.reason, *(terminated.reason for terminated in terminated_states)]
    if phase == "Pending":
        conditions = pod.status.conditions or []
        reasons += [condition.message for condition in conditions if condition.type == "PodScheduled"]
    return PodStatus(
        state=state,
        phase=phase,
        node=pod.spec.node_name or "",
        exit_code=terminated_states[0].exit_code if terminated_states else None,
        reason=next((str(reason) for reason in reasons if reason), ""),
    )


def _is_deletion_late(pod: Any, now: dt.datetime) -> bool:
    """Whether a pod still exists, although its node should have ended it within the grace period.

    The deletion timestamp is the end of the grace period.
    """
    deletion: dt.datetime | None = pod.metadata.deletion_timestamp
    return deletion is not None and (now - deletion).total_seconds() > _LATE_SECONDS


def _time_of(headers: Mapping[str, str]) -> dt.datetime:
    """Return the time of an answer by the clock of the API server. If the answer has no time, use this machine's."""
    with suppress(KeyError, ValueError):
        return parsedate_to_datetime(headers["Date"])
    return dt.datetime.now(dt.UTC)


def _driver_container(pod: Any) -> str:
    """Return the name of the driver's container: the name that Spark gives it, or else that of the first container."""
    names = [container.name for container in pod.spec.containers]
    return _CONTAINER if _CONTAINER in names else str(names[0])


def _newest_text(answer: Any) -> str:
    content = bytearray()
    for part in answer.stream(64 * 1024):
        content += part
        del content[:-MAX_BYTES]
    return content.decode("utf-8", "replace")
