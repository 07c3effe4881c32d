"""The checks that `deltalite doctor` runs with Airflow: the Spark connection, and a table opened by a connection.

The function `checks` is registered by the entry point group `deltalite.checks`, so the command line imports this module
only if it is installed. Connections are read as `airflow connections get` reads them: from the environment, the secrets
backends and, where this machine reaches it, Airflow's database.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.common.compat.sdk import AirflowException

from airflow_provider_deltalite.hooks.delta import DeltaHook
from airflow_provider_deltalite.preflight import Launch, check_target, found_connection
from deltalite.errors import DeltaLiteError
from deltalite.installation.checks import Check, Scope, Status, failed

_CONNECTION, _STORAGE = "connection", "storage"
# What the commands of Airflow set, so that connections in its database are found.
_CONTEXT = ("_AIRFLOW_PROCESS_CONTEXT", "server")


def checks(scope: Scope) -> Iterator[Check]:
    """Check the connections of a scope."""
    os.environ.setdefault(*_CONTEXT)
    yield check_connection(scope.conn_id)
    if scope.table is not None and scope.storage_conn_id is not None:
        yield check_storage(scope.table, scope.storage_conn_id)


def check_connection(conn_id: str) -> Check:
    """Check that the Spark connection exists, and that its master and deploy mode are ones that Spark has."""
    try:
        found_connection(conn_id)
        hook = SparkSubmitHook(conn_id=conn_id)
        launch = Launch(
            conn_id=conn_id,
            master=hook._connection["master"],  # noqa: SLF001  the hook resolves connections when it is made
            deploy_mode=hook._connection["deploy_mode"],  # noqa: SLF001
            binary=hook._connection["spark_binary"],  # noqa: SLF001
            environ=os.environ,
        )
        check_target(launch)
    except DeltaLiteError as error:
        return failed(_CONNECTION, error)
    except (AirflowException, ValueError, RuntimeError, NameError) as error:
        remedy = (
            f"Create or correct the connection '{conn_id}', or name another one by --conn-id. A machine without access "
            "to Airflow's database sees connections of the environment and of secrets backends only."
        )
        return Check(name=_CONNECTION, status=Status.ERROR, message=f"{conn_id}: {error}", remedy=remedy)
    mode = launch.deploy_mode or "client"
    message = f"'{conn_id}' submits to {launch.master} in {mode} mode by {launch.binary}"
    return Check(name=_CONNECTION, status=Status.OK, message=message)


def check_storage(table: str, storage_conn_id: str) -> Check:
    """Check that this machine reads the table's log with the connection."""
    from deltalite import watch

    try:
        version = watch.latest_version(DeltaHook(table, storage_conn_id).get_conn())
    except DeltaLiteError as error:
        return failed(_STORAGE, error)
    except AirflowException as error:
        remedy = f"Create or correct the connection '{storage_conn_id}'."
        return Check(name=_STORAGE, status=Status.ERROR, message=f"{storage_conn_id}: {error}", remedy=remedy)
    newest = "has no table yet" if version < 0 else f"has version {version}"
    message = f"{table} answers with '{storage_conn_id}' and {newest}"
    return Check(name=_STORAGE, status=Status.OK, message=message)
