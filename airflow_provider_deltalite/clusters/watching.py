"""Opens the driver of a deferred task for a process that did not submit it: the triggerer.

Only names reach this process. It reads the Spark connection and Airflow's settings for Kubernetes itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_deltalite.clusters.driver_pod import DriverPod
from airflow_provider_deltalite.clusters.kubernetes_api import load_client
from airflow_provider_deltalite.clusters.yarn_application import YarnApplication

if TYPE_CHECKING:
    from airflow_provider_deltalite.clusters.driver_state import WatchedDriver


def open_driver(conn_id: str, driver_id: str, *, uses_kerberos: bool) -> WatchedDriver:
    """Return the driver with this id. The function sends no request to the cluster.

    :param conn_id: The Spark connection of the task.
    :param driver_id: The YARN application, or a pod as ``namespace:name``.
    :param uses_kerberos: Whether the task names a keytab and a principal, as the connection may do too.
    :raises InvalidRequestError: This process has no client of Kubernetes, or Airflow's settings name no cluster.
    :raises ValueError: The connection is invalid.
    """
    namespace, _, pod = driver_id.partition(":")
    if pod:
        return DriverPod(api=load_client(conn_id, repeats=False), namespace=namespace, name=pod)
    return YarnApplication(conn_id, driver_id, uses_kerberos=uses_kerberos)
