"""A standalone Spark cluster: a master and two workers.

Each worker has a separate loopback address, because Spark runs no two attempts of a task on one host.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark

from tests.support.clusters.processes import ServerProcesses
from tests.support.ports import free_ports

SPARK_HOME = Path(pyspark.__file__).parent
_WORKERS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class StandaloneCluster:
    """A running cluster.

    - `master`, `page`: the address of the master, and the address of its web page.
    - `folder`: the logs of the servers, and the folders of the executors.
    - `processes`: the servers `master`, `worker1` and `worker2`.
    """

    master: str
    page: str
    folder: Path
    processes: ServerProcesses

    def state(self) -> str:
        """The workers and applications, as the master describes them in JSON."""
        with urllib.request.urlopen(f"{self.page}/json/", timeout=30) as answer:
            return str(answer.read(), "utf-8")

    def finished_applications(self) -> list[dict[str, Any]]:
        """The applications that have ended, as the master describes them in JSON. The newest one is the last."""
        applications: list[dict[str, Any]] = json.loads(self.state())["completedapps"]
        return sorted(applications, key=lambda application: application["starttime"])

    def start_worker_again(self, name: str) -> None:
        """Start a killed worker again, and wait until the master knows it."""
        self.processes.start_again(name)
        self.wait_for_workers(_WORKERS)

    def wait_for_workers(self, count: int) -> None:
        """Wait until the cluster has this number of workers."""
        self.processes.wait_until(f"{count} workers", lambda: json.loads(self.state())["aliveworkers"] == count)


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[StandaloneCluster]:
    """Run a cluster in `folder`."""
    port, page_port, *worker_ports = free_ports(2 + 2 * _WORKERS)
    environ = os.environ | {
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": os.environ["SPARK_SUBMIT_OPTS"],  # the servers live for a minute, as the drivers do
    }
    spark_class = str(SPARK_HOME / "bin" / "spark-class")
    master = f"spark://127.0.0.1:{port}"
    with ServerProcesses(folder / "logs") as processes:
        options = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page_port)]
        processes.start("master", [spark_class, "org.apache.spark.deploy.master.Master", *options], environ)
        for number in range(1, _WORKERS + 1):
            worker_port, worker_page_port = worker_ports[2 * number - 2 : 2 * number]
            host = f"127.0.0.{number}"
            options = ["--host", host, "--port", str(worker_port), "--webui-port", str(worker_page_port)]
            options += ["--cores", "2", "--memory", "1g", "--work-dir", str(folder / f"work{number}")]
            command = [spark_class, "org.apache.spark.deploy.worker.Worker", *options, master]
            processes.start(f"worker{number}", command, environ | {"SPARK_LOCAL_IP": host})
        page = f"http://127.0.0.1:{page_port}"
        cluster = StandaloneCluster(master=master, page=page, folder=folder, processes=processes)
        cluster.wait_for_workers(_WORKERS)
        yield cluster
