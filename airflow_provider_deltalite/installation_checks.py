"""The checks that `deltalite doctor` runs with Airflow: the Spark connection, and the storage connection of a table.

The entry point group `deltalite.checks` registers the function `checks`, so the command line imports this module only
if the provider is installed. The checks read connections as `airflow connections get` does: from the environment, from
secrets backends, and from Airflow's database if this machine can reach it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.common.compat.sdk import AirflowException

from airflow_provider_deltalite.clusters.kubernetes_api import load_client
from airflow_provider_deltalite.hooks.delta import DeltaHook
from airflow_provider_deltalite.preflight import Launch, check_target, get_spark_connection
from deltalite.errors import DeltaLiteError
from deltalite.installation.checks import STORAGE_CHECK, Check, Scope, Status, check_storage, failed_check

_CONNECTION = "connection"
# Airflow's own commands set this variable, so that they find connections in its database.
_PROCESS_CONTEXT = ("_AIRFLOW_PROCESS_CONTEXT", "server")


def checks(scope: Scope) -> Iterator[Check]:
    """Run the checks for the connections of a scope, and yield their results."""
    os.environ.setdefault(*_PROCESS_CONTEXT)
    yield check_connection(scope.conn_id)
    if scope.table is not None and scope.storage_conn_id is not None:
        yield check_storage_connection(scope.table, scope.storage_conn_id)


def check_connection(conn_id: str) -> Check:
    """Check that the Spark connection exists, and that Spark knows its master and deploy mode.

    If the driver is a pod, this machine also needs a client of Kubernetes. The check sends no request.
    """
    try:
        get_spark_connection(conn_id)
        hook = SparkSubmitHook(conn_id=conn_id)
        launch = Launch(
            conn_id=conn_id,
            master=hook._connection["master"],  # noqa: SLF001  the hook's constructor resolves the connection
            deploy_mode=hook._connection["deploy_mode"],  # noqa: SLF001
            binary=hook._connection["spark_binary"],  # noqa: SLF001
            environ=os.environ,
        )
        check_target(launch)
        if launch.runs_in_pod:
            load_client(conn_id)
    except DeltaLiteError as error:
        return failed_check(_CONNECTION, error)
    except (AirflowException, ValueError, RuntimeError, NameError) as error:
        remedy = (
            f"Create or correct the connection '{conn_id}', or name another one with --conn-id. Without access to "
            "Airflow's database, this machine reads connections only from the environment and from secrets backends."
        )
        return Check(name=_CONNECTION, status=Status.ERROR, message=f"{conn_id}: {error}", remedy=remedy)
    mode = launch.deploy_mode or "client"
    message = f"'{conn_id}' submits to {launch.master} in {mode} mode with {launch.binary}"
    return Check(name=_CONNECTION, status=Status.OK, message=message)


def check_storage_connection(table: str, storage_conn_id: str) -> Check:
    """Check that this machine can read the table's log with the connection."""
    from deltalite import watch  # loads pyarrow, which the check of the Spark connection does not need

    try:
        return check_storage(table, lambda: watch.latest_version(DeltaHook(table, storage_conn_id).get_conn()))
    except AirflowException as error:
        remedy = f"Create or correct the connection '{storage_conn_id}'."
        return Check(name=STORAGE_CHECK, status=Status.ERROR, message=f"{storage_conn_id}: {error}", remedy=remedy)
