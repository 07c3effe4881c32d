"""What can be known to be wrong before a JVM is started, each with a sentence on what to do.

Everything here takes values and raises `InvalidRequestError`, or looks at this worker's connections and programs. Spark
would refuse most of it too, after half a minute and in a stack trace; a missing connection is worse, because Airflow's
hook then submits to YARN. What only the cluster knows (queues, memory, reachable storage) is left to Spark; a connector
to the storage that does not seem to be there is said beforehand, and tried. Where Spark is on this worker is found by
`deltalite.installation`, which `deltalite doctor` uses too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow.providers.apache.spark.hooks.spark_submit import ALLOWED_SPARK_BINARIES
from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook

from deltalite.errors import InvalidRequestError
from deltalite.installation.spark import (
    PySparkFiles,
    find_java,
    find_spark_home,
    find_spark_submit,
    installed_pyspark,
    missing_connectors,
)

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Connection

# The masters that spark-submit takes: org.apache.spark.deploy.SparkSubmit.prepareSubmitEnvironment.
_MASTER = re.compile(r"yarn|spark://.+|k8s://.+|local(\[.+\])?|local-cluster\[.+\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How a job is about to be submitted. `environ` is the environment of the spark-submit process."""

    conn_id: str
    master: str
    deploy_mode: str | None
    binary: str
    environ: Mapping[str, str]

    @property
    def is_local(self) -> bool:
        """Whether driver and executors are one process on this worker."""
        return self.master.startswith("local")

    @property
    def in_cluster(self) -> bool:
        """Whether the driver runs elsewhere: neither its files nor its output are on this worker."""
        return self.deploy_mode == "cluster"


def found_connection(conn_id: str) -> Connection:
    """The Spark connection; Airflow's hook would submit to YARN where it does not exist.

    Airflow says the same of a connection that nobody has made and of a store of secrets that did not answer, so it may
    be there at another try: the error is one that Airflow retries.
    """
    try:
        return BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        raise AirflowNotFoundException(
            f"There is no Airflow connection '{conn_id}', or what keeps it did not answer. "
            "If there is none, create it with type 'spark' and the Spark master as its host, "
            f"""for example AIRFLOW_CONN_{conn_id.upper()}='{{"conn_type": "spark", "host": "local[*]"}}'."""
        ) from error


def check_launch(launch: Launch) -> None:
    """Refuse what spark-submit would refuse, and a worker that cannot start it."""
    check_target(launch)
    program = find_spark_submit(launch.binary, launch.environ)
    if not launch.in_cluster and os.path.basename(program) in ALLOWED_SPARK_BINARIES:
        find_java(program, launch.environ)


def check_target(launch: Launch) -> None:
    """Refuse a master or a deploy mode that Spark does not have, or not together."""
    _check_master(launch)
    _check_deploy_mode(launch)


def lacking_connectors(launch: Launch, schemes: Iterable[str], settings: Iterable[str]) -> list[str]:
    """Return the connector jars that this worker's Spark probably lacks for storages of these schemes.

    Nothing is reported if the driver runs elsewhere.

    :param launch: How the job is submitted.
    :param schemes: Schemes of addresses, such as ``s3``.
    :param settings: Names of the job's settings and parameters that have a value.
    """
    if launch.in_cluster:
        return []
    home = find_spark_home(launch.binary, launch.environ)
    return missing_connectors(home, launch.environ, schemes, settings)


def mixed_pyspark(launch: Launch) -> PySparkFiles | None:
    """Return the PySpark that the job uses if its Python files are of another release than its jars."""
    files = None if launch.in_cluster else installed_pyspark()
    if files is None or not files.is_mixed:
        return None
    return files if files.folder.samefile(find_spark_home(launch.binary, launch.environ)) else None


def _check_master(launch: Launch) -> None:
    if not _MASTER.fullmatch(launch.master):
        raise InvalidRequestError(
            f"The connection '{launch.conn_id}' gives the Spark master '{launch.master}', which is none.",
            remedy=(
                "Write the whole master into the connection's host: "
                "'local[*]', 'spark://host:7077', 'yarn' or 'k8s://https://host:443'."
            ),
        )


def _check_deploy_mode(launch: Launch) -> None:
    if launch.deploy_mode not in (None, "client", "cluster"):
        raise InvalidRequestError(
            f"The deploy mode is '{launch.deploy_mode}'.", remedy="Choose 'client' or 'cluster', or leave it out."
        )
    if launch.in_cluster and launch.master.startswith("spark://"):
        raise InvalidRequestError(
            "Spark does not run Python applications in cluster deploy mode on a standalone cluster.",
            remedy="Set deploy_mode='client', in the task or in the extra 'deploy-mode' of the connection.",
        )
    if launch.in_cluster and launch.is_local:
        raise InvalidRequestError(
            f"The deploy mode is 'cluster', and the master '{launch.master}' has no cluster.",
            remedy="Leave the deploy mode out, or name a cluster in the connection.",
        )
