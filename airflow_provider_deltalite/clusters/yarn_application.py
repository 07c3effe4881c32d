"""The state of an application in YARN, from the REST service of the ResourceManager."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import requests
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.common.compat.sdk import AirflowException

from airflow_provider_deltalite.clusters.driver_state import DriverState
from deltalite.errors import InvalidRequestError
from deltalite.redaction import redacted

_TIMEOUT_SECONDS = (5, 30)  # the limits for connecting and for reading
# org.apache.hadoop.yarn.api.records.YarnApplicationState
_FINAL_STATES = {"FINISHED", "FAILED", "KILLED"}


class YarnError(AirflowException):
    """The ResourceManager did not answer, or its answer describes no application."""


class YarnApplication(SparkSubmitHook):
    """An application of a Spark connection, for a process that did not submit it.

    :param conn_id: The Spark connection, which names the ResourceManager.
    :param application_id: The id, such as ``application_1700000000000_0001``.
    :param uses_kerberos: Use Kerberos even if the connection has no keytab and no principal.
    """

    def __init__(self, conn_id: str, application_id: str, *, uses_kerberos: bool) -> None:
        auth = None
        if uses_kerberos:
            from requests_kerberos import HTTPKerberosAuth  # type: ignore[import-not-found]  # an optional package

            auth = HTTPKerberosAuth()
        super().__init__(conn_id=conn_id, deploy_mode="cluster", yarn_track_via_rm_api=True, yarn_rm_auth=auth)
        self._watched_id = application_id

    def state(self) -> DriverState:
        """Return the state of the application.

        Raises:
            InvalidRequestError: The ResourceManager refuses the request, or the connection does not name it.
            YarnError: See `application_state`.
        """
        try:
            address, auth = self._get_yarn_rm_base_url(), self._resolved_yarn_rm_auth
        except (ValueError, RuntimeError) as error:
            raise InvalidRequestError(str(error), remedy="Correct the connection.") from error
        return application_state(address, self._watched_id, auth)

    def kill(self) -> None:
        """Kill the application. Airflow's hook logs a failure."""
        self._kill_yarn_application(self._watched_id)


def application_state(address: str, application_id: str, auth: Any) -> DriverState:
    """Return the state of an application.

    A web server that is not the ResourceManager also answers 404 for each path. So 404 means a missing application only
    if the address shows the metrics of a cluster.

    :param address: The web address of the ResourceManager.
    :param application_id: The id, such as ``application_1700000000000_0001``.
    :param auth: An object that authenticates the request, as `requests` takes it; None if this is not necessary.

    Raises:
        InvalidRequestError: The ResourceManager refuses the request.
        YarnError: The ResourceManager does not answer, or returns another HTTP error. Or the answer describes no
            application, or the address is not that of a ResourceManager.
    """
    url = f"{address}/ws/v1/cluster/apps/{application_id}"
    answer = _get(url, auth)
    match answer.status_code:
        case HTTPStatus.OK:
            return _state_in(answer)
        case HTTPStatus.NOT_FOUND if _is_resource_manager(address, auth):
            return DriverState.MISSING
        case HTTPStatus.UNAUTHORIZED | HTTPStatus.FORBIDDEN:
            raise InvalidRequestError(
                f"{redacted(url)} returned HTTP {answer.status_code}.",
                remedy="Give the triggerer the access to the ResourceManager that the workers have.",
            )
        case status:
            raise YarnError(f"{redacted(url)} returned HTTP {status}.")


def _is_resource_manager(address: str, auth: Any) -> bool:
    answer = _get(f"{address}/ws/v1/cluster/metrics", auth)
    try:
        return answer.status_code == HTTPStatus.OK and "clusterMetrics" in answer.json()
    except (ValueError, TypeError):
        return False


def _get(url: str, auth: Any) -> requests.Response:
    try:
        return requests.get(url, auth=auth, timeout=_TIMEOUT_SECONDS)
    except requests.RequestException as error:
        raise YarnError(f"{redacted(url)} did not answer: {redacted(str(error))}") from error


def _state_in(answer: requests.Response) -> DriverState:
    try:
        state = str(answer.json()["app"]["state"])
    except (ValueError, KeyError, TypeError) as error:
        raise YarnError(f"The ResourceManager's answer describes no application: {error!r}.") from error
    return DriverState.ENDED if state in _FINAL_STATES else DriverState.RUNNING
