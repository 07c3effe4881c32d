"""The client of Kubernetes, for a worker or a triggerer. Its errors name the request that failed and the remedy."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from airflow.providers.common.compat.sdk import AirflowException
from airflow.providers.common.compat.sdk import conf as airflow_settings

from deltalite.errors import InvalidRequestError

_RETRY_SETTING = ("kubernetes_executor", "api_client_retry_configuration")
_RETRIES = '{"total": 6, "backoff_factor": 1}'  # urllib3 pauses for 0, 2, 4, 8, 16 and 32 seconds
TIMEOUT_SECONDS = (5, 30)  # the limits for connecting and for reading
CLIENT_PACKAGE_REMEDY = "Install apache-airflow-providers-cncf-kubernetes."
_CLUSTER_SETTINGS_REMEDY = (
    "In a pod of this cluster, set [kubernetes_executor] in_cluster = True. On any other worker or triggerer, set "
    "in_cluster = False, and set config_file to a kubeconfig file that names this cluster."
)
_PERMISSIONS_REMEDY = (
    "Give the account of the worker or triggerer the permissions that the documentation lists (Run on Kubernetes), in "
    "the namespace of the Spark connection."
)
_REQUEST_REMEDY = "Correct the parameter that the answer names. A request with large SQL texts must fit into 1 MiB."
# The API server would answer a repeated request with the same status.
_PERMANENT_REMEDIES = {
    400: _REQUEST_REMEDY,
    401: _PERMISSIONS_REMEDY,
    403: _PERMISSIONS_REMEDY,
    404: _PERMISSIONS_REMEDY,
    413: _REQUEST_REMEDY,
    422: _REQUEST_REMEDY,
}


class KubernetesError(AirflowException):
    """Kubernetes did not answer, or could not serve a request now. Airflow retries the task."""


def has_client() -> bool:
    """Whether Airflow's provider for Kubernetes is installed."""
    try:
        return find_spec("airflow.providers.cncf.kubernetes.kube_client") is not None
    except ModuleNotFoundError:
        return False


def load_client(conn_id: str, *, repeats: bool = True) -> Any:
    """Return the client of the cluster that Airflow's settings name. This function sends no request.

    If a request does not reach the cluster, the client repeats it for about a minute. Airflow's setting
    `[kubernetes_executor] api_client_retry_configuration` changes this. The client never logs bodies of answers,
    because they contain Secrets.

    :param repeats: False returns a client that sends each request once, so that it does not block a thread for long.

    Raises:
        InvalidRequestError: Airflow's provider for Kubernetes is not installed, or Airflow's settings name no cluster.
    """
    try:
        from airflow.providers.cncf.kubernetes import kube_client

        logging.getLogger("kubernetes.client.rest").setLevel(logging.INFO)
        if repeats and not airflow_settings.getjson(*_RETRY_SETTING, fallback={}):
            # Airflow's default has no pauses between retries. The variable also reaches the clients of Airflow's hook.
            os.environ[f"AIRFLOW__{'__'.join(_RETRY_SETTING).upper()}"] = _RETRIES
        client = kube_client.get_kube_client()
        if not repeats:
            client.api_client.rest_client.pool_manager.connection_pool_kw["retries"] = False
    except ImportError as error:
        raise InvalidRequestError(
            f"The connection '{conn_id}' names a Kubernetes master, but this process has no client for it.",
            remedy=CLIENT_PACKAGE_REMEDY,
        ) from error
    except Exception as error:
        raise InvalidRequestError(
            "Airflow's settings here name no Kubernetes cluster, so this process cannot follow the job of the "
            f"connection '{conn_id}': {error}",
            remedy=_CLUSTER_SETTINGS_REMEDY,
        ) from error
    return client


@contextmanager
def explain_errors(action: str) -> Iterator[None]:
    """Raise an error of the client again, with the action that failed.

    :param action: What the block does, such as "create the Secret x in the namespace y".

    Raises:
        InvalidRequestError: Kubernetes rejected the request, and would reject it again.
        KubernetesError: Kubernetes did not answer, or may accept the same request later.
    """
    from kubernetes.client.exceptions import ApiException  # type: ignore[import-untyped]
    from urllib3.exceptions import HTTPError

    try:
        yield
    except ApiException as error:
        problem = f"Could not {action}: Kubernetes answered {error.status} ({_message(error)})."
        if error.status in _PERMANENT_REMEDIES:
            raise InvalidRequestError(problem, remedy=_PERMANENT_REMEDIES[error.status]) from error
        raise KubernetesError(problem) from error
    except HTTPError as error:
        raise KubernetesError(f"Could not {action}: Kubernetes did not answer ({error}).") from error


def has_status(error: BaseException, status: int) -> bool:
    """Whether Kubernetes answered a request with this HTTP status."""
    return getattr(error.__cause__ or error, "status", None) == status


def _message(error: Any) -> str:
    """Return the message in the answer's body, or else the reason of its status."""
    try:
        return str(json.loads(error.body)["message"])
    except (TypeError, ValueError, KeyError):
        return str(error.reason)
