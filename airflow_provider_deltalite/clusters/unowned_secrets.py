"""Cleans up job Secrets that have no owner.

A Secret has no owner until `spark-submit` has created the driver's pod. It stays without an owner if the worker was
killed before that, or if Kubernetes did not accept the owner. In both cases the driver's pod may still wait for a node,
and needs the Secret to start. So each Secret names its pod in an annotation. For a Secret that is older than an hour,
the clean-up asks for this pod first:

- The pod waits or runs: the pod becomes the owner of the Secret.
- The pod has ended, does not exist, or was on a lost node: the clean-up deletes the Secret.
- Kubernetes does not show the state of the pod: the Secret stays.
"""

from __future__ import annotations

import datetime as dt
import logging
from contextlib import suppress
from typing import Any

from airflow_provider_deltalite.clusters.driver_pod import DriverPod
from airflow_provider_deltalite.clusters.driver_state import DriverState
from airflow_provider_deltalite.clusters.kubernetes_api import (
    TIMEOUT_SECONDS,
    KubernetesError,
    explain_errors,
    has_status,
)
from deltalite.errors import InvalidRequestError

LABELS = {"app.kubernetes.io/managed-by": "airflow-provider-deltalite"}
JOB_LABELS = {**LABELS, "app.kubernetes.io/component": "job"}
POD_ANNOTATION = "airflow-provider-deltalite/driver-pod"  # its value is the name of the driver's pod
# After this time, no `spark-submit` creates the pod of a Secret any more.
_MAX_SUBMISSION_SECONDS = 3600

_log = logging.getLogger(__name__)


def clean_up_unowned_secrets(api: Any, namespace: str) -> None:
    """For each old job Secret without an owner, make the pod its owner or delete the Secret.

    The function ignores errors of Kubernetes. For example, this worker may not be allowed to list Secrets.

    :param api: A `CoreV1Api`.
    :param namespace: The namespace of the jobs.
    """
    with suppress(InvalidRequestError, KubernetesError):
        for secret in _old_unowned_secrets(api, namespace):
            with suppress(InvalidRequestError, KubernetesError):
                _clean_up(api, namespace, secret.metadata)


def delete_secret(api: Any, namespace: str, name: str) -> None:
    """Delete a Secret, if it exists. The function logs a failure.

    :param api: A `CoreV1Api`.
    :param namespace: The namespace of the Secret.
    :param name: The name of the Secret.
    """
    try:
        with explain_errors(f"delete the Secret {name}"):
            api.delete_namespaced_secret(name, namespace, _request_timeout=TIMEOUT_SECONDS)
    except (InvalidRequestError, KubernetesError) as error:
        if not has_status(error, 404):
            _log.warning("%s It stays in the namespace %s.", error, namespace)


def _clean_up(api: Any, namespace: str, metadata: Any) -> None:
    pod_name = (metadata.annotations or {}).get(POD_ANNOTATION)
    pod = None if pod_name is None else DriverPod(api=api, namespace=namespace, name=pod_name)
    if pod is not None and pod.state() is DriverState.RUNNING:
        pod.become_owner(metadata.name)
    else:
        delete_secret(api, namespace, metadata.name)


def _old_unowned_secrets(api: Any, namespace: str) -> list[Any]:
    selector = ",".join(f"{name}={value}" for name, value in JOB_LABELS.items())
    with explain_errors(f"list the Secrets of the namespace {namespace}"):
        secrets = api.list_namespaced_secret(namespace, label_selector=selector, _request_timeout=TIMEOUT_SECONDS).items
    newest_creation = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=_MAX_SUBMISSION_SECONDS)
    return [
        secret
        for secret in secrets
        if not secret.metadata.owner_references and secret.metadata.creation_timestamp < newest_creation
    ]
