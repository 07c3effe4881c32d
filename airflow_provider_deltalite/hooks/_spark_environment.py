"""Values that depend on this worker: the folder of Spark, the Python of a job, and the hosts of Spark's web pages."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterable, Mapping

import psutil

from airflow_provider_deltalite.links.delta import host_of
from airflow_provider_deltalite.preflight import Launch
from deltalite.installation.spark import find_spark_home

_PYTHON_VARIABLES = frozenset({"PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"})
_PYTHON_SETTINGS = frozenset({"spark.pyspark.python", "spark.pyspark.driver.python"})
# Spark takes the host in the address of its UI from these settings and variables (org.apache.spark.ui.WebUI,
# org.apache.spark.util.Utils).
_UI_SETTINGS = ("spark.driver.host", "spark.ui.reverseProxyUrl")
_UI_VARIABLES = ("SPARK_PUBLIC_DNS", "SPARK_LOCAL_HOSTNAME", "SPARK_LOCAL_IP")


def default_spark_home(launch: Launch) -> dict[str, str]:
    """Return the environment variable SPARK_HOME in cluster mode; empty in client mode, or if the variable is set.

    A `spark-submit` that pip installed asks a Python for the folder of Spark. In client mode, `default_python` names
    this worker's Python. In cluster mode, `spark-submit` would ask the `python3` on the PATH, which may have no Spark.
    """
    if not launch.in_cluster or "SPARK_HOME" in launch.environ:
        return {}
    return {"SPARK_HOME": str(find_spark_home(launch.binary, launch.environ))}


def default_python(launch: Launch, conf: Mapping[str, object]) -> dict[str, str]:
    """Return the environment variable that makes Spark use this worker's Python; empty if the user names a Python.

    All other ways to name a Python take precedence over this variable. The variable depends on the mode:

    - With a local master, it names the Python of the driver and the executors.
    - In client mode, it names only the Python of the driver, because executors have other paths.
    - In cluster mode there is no variable, because no Python of the job runs on this worker.
    """
    if launch.in_cluster or _PYTHON_VARIABLES & set(launch.environ) or _PYTHON_SETTINGS & set(conf):
        return {}
    return {"PYSPARK_PYTHON" if launch.is_local else "PYSPARK_DRIVER_PYTHON": sys.executable}


def hosts_of_web_pages(launch: Launch, conf: Mapping[str, object], servers: Iterable[str | None]) -> frozenset[str]:
    """Return the hosts that may serve the web pages of an application.

    They are the names and addresses of this worker, and the hosts in these addresses: the master, Spark's settings and
    variables, and `servers`.
    """
    addresses: list[object] = [launch.master, *servers]
    addresses += [conf.get(setting) for setting in _UI_SETTINGS]
    addresses += [launch.environ.get(variable) for variable in _UI_VARIABLES]
    hosts = {host for address in addresses if address and (host := host_of(str(address)))}
    return frozenset(hosts | _names_of_this_worker())


def _names_of_this_worker() -> set[str]:
    interfaces = psutil.net_if_addrs().values()
    addresses = {entry.address.partition("%")[0] for interface in interfaces for entry in interface}
    return {"localhost", socket.gethostname(), socket.getfqdn(), *addresses}
