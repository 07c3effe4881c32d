"""Checks a submission before a JVM starts. Each error names its remedy.

The functions check values, and the connections and programs of this worker. Spark rejects most of these errors too, but
half a minute later and with a stack trace. A missing connection is worse: Airflow's hook would submit to YARN.

Spark itself checks queues, memory and reachable storage, which only the cluster knows. A storage connector that seems
missing causes only a warning. `deltalite.installation` finds Spark on this worker; `deltalite doctor` uses it too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow.providers.apache.spark.hooks.spark_submit import ALLOWED_SPARK_BINARIES
from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook

from deltalite.errors import InvalidRequestError, TableNotFoundError
from deltalite.installation.spark import (
    PySparkFiles,
    find_java,
    find_spark_home,
    find_spark_submit,
    installed_pyspark,
    missing_connectors,
)
from deltalite.storage.locations import parse_location

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Connection

# The masters that spark-submit takes: org.apache.spark.deploy.SparkSubmit.prepareSubmitEnvironment.
_MASTER_PATTERN = re.compile(r"yarn|spark://.+|k8s://.+|local(\[.+\])?|local-cluster\[.+\]")

_RESOURCE_MANAGER = "the extra 'yarn_resourcemanager_webapp_address' of the connection (such as http://rm:8088)"
NOT_TRACKED = (
    "Submitting without tracking: a retry submits a new job, even while this one still runs. "
    f"To let a retry join the running job, set {_RESOURCE_MANAGER}."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The way in which the hook submits a job. `environ` is the environment of the spark-submit process."""

    conn_id: str
    master: str
    deploy_mode: str | None
    binary: str
    environ: Mapping[str, str]

    @property
    def is_local(self) -> bool:
        """Whether the driver and the executors run on this worker."""
        return self.master.startswith("local")

    @property
    def in_cluster(self) -> bool:
        """Whether the driver runs on a machine of the cluster, so that this worker lacks its files and its output."""
        return self.deploy_mode == "cluster"

    @property
    def on_kubernetes(self) -> bool:
        """Whether the executors are pods of Kubernetes."""
        return self.master.startswith("k8s://")

    @property
    def runs_in_pod(self) -> bool:
        """Whether the driver is a pod of Kubernetes."""
        return self.in_cluster and self.on_kubernetes


def get_spark_connection(conn_id: str) -> Connection:
    """Return the Spark connection.

    Raises:
        AirflowNotFoundException: Airflow did not find the connection. Airflow's hook would submit to YARN instead.
            Airflow raises the same error if a secrets backend did not answer, so the task may be retried.
    """
    try:
        return BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        raise AirflowNotFoundException(
            f"There is no Airflow connection '{conn_id}', or the secrets backend did not answer. "
            "If the connection is missing, create it with type 'spark' and the Spark master as its host, "
            f"""for example AIRFLOW_CONN_{conn_id.upper()}='{{"conn_type": "spark", "host": "local[*]"}}'."""
        ) from error


def check_launch(launch: Launch) -> None:
    """Raise if spark-submit would reject the master or deploy mode, or if this worker cannot start spark-submit."""
    check_target(launch)
    program = find_spark_submit(launch.binary, launch.environ)
    if not launch.in_cluster and os.path.basename(program) in ALLOWED_SPARK_BINARIES:
        find_java(program, launch.environ)


def check_target(launch: Launch) -> None:
    """Raise if Spark does not know the master or the deploy mode, or does not support both together."""
    _check_master(launch)
    _check_deploy_mode(launch)


def check_no_local_tables(launch: Launch, addresses: Iterable[str]) -> None:
    """Raise if a table is a local folder and the job runs on several machines."""
    if not launch.is_local:
        reject_local_tables(addresses, f"the Spark master {launch.master} runs the job on several")


def reject_local_tables(addresses: Iterable[str], reason: str) -> None:
    """Raise if a table is a local folder.

    :param reason: A clause that says where the job runs.
    """
    for address in addresses:
        if parse_location(address).is_local:
            raise InvalidRequestError(
                f"The table {address} is a folder of one machine, but {reason}.",
                remedy="Use a storage that all machines reach, such as hdfs:// or s3://. If the folder is mounted on "
                "this worker and on all nodes, set shared_folder=True.",
            )


def reject_missing_table(missing_table: str | None, *, in_cluster: bool) -> None:
    """Raise if the table does not exist. A local table may still exist where a driver in a cluster runs.

    :param missing_table: The address of a table that this worker did not find; None if it found all tables.
    :param in_cluster: Whether the driver runs on another machine.
    """
    if missing_table is not None and not (in_cluster and parse_location(missing_table).is_local):
        raise TableNotFoundError(
            f"There is no Delta table at {missing_table}, so no job was submitted.",
            remedy="Check the address, or write the table first.",
        )


def check_durable_without_tracking(durable: bool | None) -> None:  # noqa: FBT001  the parameter of the operator
    """Raise if the author set `durable` for a job in YARN that is not tracked."""
    if durable:
        raise InvalidRequestError(
            "durable=True needs a tracked job, and this job in YARN is not tracked: the address of the "
            "ResourceManager is unknown, or yarn_track_via_rm_api is False.",
            remedy=f"Set {_RESOURCE_MANAGER}, and leave yarn_track_via_rm_api out; or leave durable out.",
        )


def find_missing_connectors(launch: Launch, schemes: Iterable[str], settings: Iterable[str]) -> list[str]:
    """Return the connector jars that this worker's Spark probably lacks for storages of these schemes.

    Returns an empty list if the driver runs on another machine.

    :param launch: How the job is submitted.
    :param schemes: Schemes of addresses, such as ``s3``.
    :param settings: Names of the job's settings and parameters that have a value.
    """
    if launch.in_cluster:
        return []
    home = find_spark_home(launch.binary, launch.environ)
    return missing_connectors(home, launch.environ, schemes, settings)


def find_mixed_pyspark(launch: Launch) -> PySparkFiles | None:
    """Return the job's PySpark if its Python files and its jars belong to different releases.

    The result is None in any other case, even if the driver runs on another machine or the job uses another Spark.
    """
    files = None if launch.in_cluster else installed_pyspark()
    if files is None or not files.is_mixed:
        return None
    return files if files.folder.samefile(find_spark_home(launch.binary, launch.environ)) else None


def _check_master(launch: Launch) -> None:
    if not _MASTER_PATTERN.fullmatch(launch.master):
        raise InvalidRequestError(
            f"Invalid Spark master '{launch.master}' in the connection '{launch.conn_id}'.",
            remedy=(
                "Put the complete master into the connection's host: "
                "'local[*]', 'spark://host:7077', 'yarn' or 'k8s://https://host:443'."
            ),
        )


def _check_deploy_mode(launch: Launch) -> None:
    if launch.deploy_mode not in (None, "client", "cluster"):
        raise InvalidRequestError(
            f"Invalid deploy mode '{launch.deploy_mode}'.", remedy="Choose 'client' or 'cluster', or leave it out."
        )
    if launch.in_cluster and launch.master.startswith("spark://"):
        raise InvalidRequestError(
            "A standalone cluster of Spark does not run Python applications in deploy mode 'cluster'.",
            remedy="Set deploy_mode='client', in the task or in the extra 'deploy-mode' of the connection.",
        )
    if launch.in_cluster and launch.is_local:
        raise InvalidRequestError(
            f"The deploy mode is 'cluster', but the master '{launch.master}' has no cluster.",
            remedy="Leave the deploy mode out, or put a cluster's master into the connection.",
        )
