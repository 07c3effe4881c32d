"""What can be known to be wrong before a JVM is started, each with a sentence on what to do.

Everything here takes values and raises `InvalidRequestError`, or looks at this worker's connections and programs. Spark
would refuse most of it too, after half a minute and in a stack trace; a missing connection is worse, because Airflow's
hook then submits to YARN. What only the cluster knows (queues, memory, reachable storage) is left to Spark.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from airflow.providers.apache.spark.hooks.spark_submit import ALLOWED_SPARK_BINARIES, DEFAULT_SPARK_BINARY
from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook

from deltalite.errors import InvalidRequestError

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


def check_connection(conn_id: str) -> None:
    """Refuse a Spark connection that does not exist: Airflow's hook would submit to YARN instead."""
    try:
        BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        raise InvalidRequestError(
            f"There is no Airflow connection '{conn_id}'.",
            remedy=(
                "Create it with type 'spark' and the Spark master as its host, "
                f"""for example AIRFLOW_CONN_{conn_id.upper()}='{{"conn_type": "spark", "host": "local[*]"}}'."""
            ),
        ) from error


def check_launch(launch: Launch) -> None:
    """Refuse what spark-submit would refuse, and a worker that cannot start it."""
    _check_master(launch)
    _check_deploy_mode(launch)
    binary = find_spark_submit(launch.binary, launch.environ)
    if not launch.in_cluster and os.path.basename(binary) in ALLOWED_SPARK_BINARIES:
        _check_java(binary, launch.environ)


def find_spark_submit(named: str, environ: Mapping[str, str]) -> str:
    """The program to run: `named` as the PATH resolves it; the default is also looked for beside this Python.

    A `pip install pyspark` puts spark-submit beside the interpreter, where a scheduler's PATH often does not look.
    """
    beside = os.path.join(os.path.dirname(sys.executable), DEFAULT_SPARK_BINARY)
    if found := shutil.which(named, path=environ.get("PATH")):
        return found
    if named == DEFAULT_SPARK_BINARY and os.access(beside, os.X_OK):
        return beside
    raise InvalidRequestError(
        f"The program '{named}' is not on the PATH of this worker.",
        remedy="Install Spark (pip install 'airflow-provider-deltalite[pyspark]'), or name it by `spark_binary`.",
    )


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


def _check_java(binary: str, environ: Mapping[str, str]) -> None:
    """Look for Java where Spark's `bin/spark-class` does: JAVA_HOME, which `spark-env.sh` may set, then the PATH."""
    if home := environ.get("JAVA_HOME"):
        if os.access(os.path.join(home, "bin", "java"), os.X_OK):
            return
        raise InvalidRequestError(
            f"JAVA_HOME is '{home}', and there is no program bin/java in it.",
            remedy="Correct it, or unset it and have Java 17 or later on the PATH.",
        )
    if shutil.which("java", path=environ.get("PATH")) or _has_spark_env(binary, environ):
        return
    raise InvalidRequestError(
        "There is no Java on this worker: JAVA_HOME is not set, and 'java' is not on the PATH.",
        remedy="Install Java 17 or later (on Debian: apt-get install openjdk-17-jre-headless).",
    )


def _has_spark_env(binary: str, environ: Mapping[str, str]) -> bool:
    home = environ.get("SPARK_HOME") or Path(binary).resolve().parent.parent
    return Path(environ.get("SPARK_CONF_DIR") or Path(home, "conf"), "spark-env.sh").exists()
