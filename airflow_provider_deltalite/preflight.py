"""What can be known to be wrong before a JVM is started, each with a sentence on what to do.

Everything here takes values and raises `InvalidRequestError`, or looks at this worker's connections and programs. Spark
would refuse most of it too, after half a minute and in a stack trace; a missing connection is worse, because Airflow's
hook then submits to YARN. What only the cluster knows (queues, memory, reachable storage) is left to Spark; a connector
to the storage that does not seem to be there is said beforehand, and tried.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from airflow.providers.apache.spark.hooks.spark_submit import ALLOWED_SPARK_BINARIES, DEFAULT_SPARK_BINARY
from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook

from deltalite.errors import InvalidRequestError

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Connection

# The masters that spark-submit takes: org.apache.spark.deploy.SparkSubmit.prepareSubmitEnvironment.
_MASTER = re.compile(r"yarn|spark://.+|k8s://.+|local(\[.+\])?|local-cluster\[.+\]")
# The jar with which Hadoop reaches a storage, by the scheme in an address: its name begins so.
_CONNECTORS = {
    "s3": "hadoop-aws",
    "s3a": "hadoop-aws",
    "s3n": "hadoop-aws",
    "abfs": "hadoop-azure",
    "abfss": "hadoop-azure",
    "gs": "gcs-connector",
}
_BRINGS_JARS = ("jars", "packages", "classpath")


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


def missing_connectors(launch: Launch, schemes: Iterable[str], given: Iterable[str]) -> list[str]:
    """The jars without which this worker's Spark does not reach storages of these schemes, as far as can be seen.

    `given` are settings and parameters of the job, by their names, that have a value. Nothing is missing where the
    driver runs elsewhere, where anything may bring more jars, or where Spark's own cannot be found.
    """
    folder = None if launch.in_cluster else _spark_home(launch) / "jars"
    wanted = {_CONNECTORS[scheme] for scheme in schemes if scheme in _CONNECTORS}
    if folder is None or not wanted or not folder.is_dir():
        return []
    conf = Path(launch.environ.get("SPARK_CONF_DIR") or folder.parent / "conf")
    told = [*given, *(_text(conf / name) for name in ("spark-defaults.conf", "spark-env.sh"))]
    if "SPARK_DIST_CLASSPATH" in launch.environ or any(part in text.lower() for text in told for part in _BRINGS_JARS):
        return []
    there = [jar.name for jar in folder.iterdir()]
    return sorted(name for name in wanted if not any(jar.startswith(name) for jar in there))


def _spark_home(launch: Launch) -> Path:
    """Where Spark is: named by the environment, or beside its program, or in this Python."""
    if home := launch.environ.get("SPARK_HOME"):
        return Path(home)
    beside = Path(find_spark_submit(launch.binary, launch.environ)).resolve().parent.parent
    if (beside / "jars").is_dir():
        return beside
    spec = find_spec("pyspark")
    return Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else beside


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""


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
