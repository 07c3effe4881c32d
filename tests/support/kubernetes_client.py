"""A stand-in for the client of Kubernetes, with one namespace."""

from __future__ import annotations

import base64
import datetime as dt
import io
import json
from collections.abc import Callable
from email.utils import format_datetime
from types import SimpleNamespace
from typing import Any

from kubernetes.client.exceptions import ApiException

NAMESPACE = "lake"
POD = "load-0123456789abcdef-driver"  # a name that the operator may choose
UID = "0d1e2f"


class KubernetesClient:
    """A stand-in for `CoreV1Api`. It has the driver's pod `pod_name` and Secrets.

    - `phases`: an item is a phase of the pod, a function that returns a phase, or None for a missing pod. Each read of
      the pod returns the next phase, and the last phase stays.
    - `log`: the log of the pod, or None if it cannot be read.
    - `is_being_deleted`: whether the pod has a time of deletion. The deletion was `deleted_seconds_ago`.
    - `slow_by_seconds`: the clock of the API server is this time behind.
    - `forbidden`: the names of the methods that the account may not call.
    - `rejection`: the HTTP status of the answer to every request for a new Secret.
    - `before_secret`: a function that the client calls before each of these requests.
    """

    def __init__(self, pod_name: str) -> None:
        self.pod_name = pod_name
        self.phases: list[str | Callable[[], str] | None] = ["Running"]
        self.log: str | None = ""
        self.exit_code = 0
        self.is_being_deleted = False
        self.deleted_seconds_ago = 0.0
        self.slow_by_seconds = 0.0
        self.forbidden: set[str] = set()
        self.rejection: int | None = None
        self.before_secret: Callable[[], None] = lambda: None
        self.deleted_pods: list[str] = []
        self.secrets: dict[str, SimpleNamespace] = {}

    def files_of(self, prefix: str) -> dict[str, bytes]:
        """The content of each file in the one Secret whose name starts with `prefix`, by the file's name."""
        (secret,) = [secret for name, secret in self.secrets.items() if name.startswith(prefix)]
        return {name: base64.b64decode(content) for name, content in secret.data.items()}

    def add_secret(
        self,
        name: str,
        *,
        age_seconds: float = 0,
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
    ) -> None:
        """Add an empty Secret."""
        created = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=age_seconds)
        metadata = SimpleNamespace(
            name=name,
            labels=labels or {},
            annotations=annotations,
            creation_timestamp=created,
            owner_references=None,
        )
        self.secrets[name] = SimpleNamespace(metadata=metadata, data={}, immutable=False)

    def read_namespaced_pod(self, name: str, namespace: str, **_: Any) -> SimpleNamespace:
        """Return the pod in its next phase."""
        self._check("read_namespaced_pod", namespace)
        phase = self.phases.pop(0) if len(self.phases) > 1 else self.phases[0]
        if callable(phase):
            phase = phase()
        if phase is None or name != self.pod_name or name in self.deleted_pods:
            raise _error(404, f'pods "{name}" not found')
        deletion_time = None
        if self.is_being_deleted:
            deletion_time = self._now() - dt.timedelta(seconds=self.deleted_seconds_ago)
        containers = [SimpleNamespace(name="proxy"), SimpleNamespace(name="spark-kubernetes-driver")]
        waiting = SimpleNamespace(type="PodScheduled", message="0/1 nodes are available: 1 Insufficient cpu.")
        return SimpleNamespace(
            metadata=SimpleNamespace(name=name, uid=UID, deletion_timestamp=deletion_time),
            spec=SimpleNamespace(containers=containers, node_name="node2"),
            status=SimpleNamespace(
                phase=phase,
                reason=None,
                container_statuses=_ends(phase, self.exit_code),
                conditions=[waiting] if phase == "Pending" else [],
            ),
        )

    def read_namespaced_pod_with_http_info(
        self, name: str, namespace: str, **_: Any
    ) -> tuple[SimpleNamespace, int, dict[str, str]]:
        """Return the pod in its next phase, with the status and the headers of the answer."""
        return self.read_namespaced_pod(name, namespace), 200, {"Date": format_datetime(self._now(), usegmt=True)}

    def _now(self) -> dt.datetime:
        """The time by the clock of the API server."""
        return dt.datetime.now(dt.UTC) - dt.timedelta(seconds=self.slow_by_seconds)

    def read_namespaced_pod_log(self, name: str, namespace: str, *, container: str, **_: Any) -> SimpleNamespace:
        """Return the log of the driver's container as a stream."""
        self._check("read_namespaced_pod_log", namespace)
        if self.log is None or name != self.pod_name:
            raise _error(404, f'pods "{name}" not found')
        assert container == "spark-kubernetes-driver"
        stream = io.BytesIO(self.log.encode())
        return SimpleNamespace(stream=lambda size: iter(lambda: stream.read(size), b""))

    def delete_namespaced_pod(self, name: str, namespace: str, **_: Any) -> None:
        """Delete the pod."""
        self._check("delete_namespaced_pod", namespace)
        if name != self.pod_name or self.phases == [None]:
            raise _error(404, f'pods "{name}" not found')
        self.deleted_pods.append(name)

    def create_namespaced_secret(self, namespace: str, body: dict[str, Any], **_: Any) -> None:
        """Create a Secret."""
        self._check("create_namespaced_secret", namespace)
        self.before_secret()
        name = body["metadata"]["name"]
        if self.rejection is not None:
            raise _error(self.rejection, f'cannot create secrets "{name}"')
        if name in self.secrets:
            raise _error(409, f'secrets "{name}" already exists')
        self.add_secret(name, labels=body["metadata"]["labels"], annotations=body["metadata"]["annotations"])
        self.secrets[name].data = body["data"]

    def read_namespaced_secret(self, name: str, namespace: str, **_: Any) -> SimpleNamespace:
        """Return a Secret."""
        self._check("read_namespaced_secret", namespace)
        return self.secrets[name]

    def patch_namespaced_secret(self, name: str, namespace: str, body: dict[str, Any], **_: Any) -> None:
        """Set the owners of a Secret."""
        self._check("patch_namespaced_secret", namespace)
        self.secrets[name].metadata.owner_references = body["metadata"]["ownerReferences"]

    def list_namespaced_secret(self, namespace: str, *, label_selector: str, **_: Any) -> SimpleNamespace:
        """Return the Secrets with all labels of the selector."""
        self._check("list_namespaced_secret", namespace)
        labels = dict(label.split("=") for label in label_selector.split(","))
        selected = [s for s in self.secrets.values() if labels.items() <= s.metadata.labels.items()]
        return SimpleNamespace(items=selected)

    def delete_namespaced_secret(self, name: str, namespace: str, **_: Any) -> None:
        """Delete a Secret."""
        self._check("delete_namespaced_secret", namespace)
        if name not in self.secrets:
            raise _error(404, f'secrets "{name}" not found')
        del self.secrets[name]

    def _check(self, method: str, namespace: str) -> None:
        assert namespace == NAMESPACE
        if method in self.forbidden:
            raise _error(403, f"the account cannot call {method}")


def _ends(phase: str, exit_code: int) -> list[SimpleNamespace]:
    """The states of both containers of the pod. Only the driver may end with another exit code than 0."""
    if phase not in ("Succeeded", "Failed"):
        return []
    exit_codes = {"proxy": 0, "spark-kubernetes-driver": exit_code}
    ends = {name: SimpleNamespace(exit_code=code, reason="Error") for name, code in exit_codes.items()}
    return [SimpleNamespace(name=name, state=SimpleNamespace(terminated=end)) for name, end in ends.items()]


def _error(status: int, message: str) -> ApiException:
    error = ApiException(status=status, reason="Error")
    error.body = json.dumps({"message": message})
    return error
