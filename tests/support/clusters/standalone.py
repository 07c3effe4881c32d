"""A standalone Spark cluster: a master and two workers."""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tests.support.clusters.processes import ServerProcesses
from tests.support.ports import free_ports

SPARK_HOME = Path(pyspark.__file__).parent
_WORKERS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class StandaloneCluster:
    """A running cluster. `processes` has the servers `master`, `worker1` and `worker2`."""

    master: str
    processes: ServerProcesses


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[StandaloneCluster]:
    """Run a cluster in `folder`."""
    port, page_port, *worker_ports = free_ports(2 + 2 * _WORKERS)
    environ = os.environ | {
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_MEMORY": "256m",
    }
    spark_class = str(SPARK_HOME / "bin" / "spark-class")
    master = f"spark://127.0.0.1:{port}"
    with ServerProcesses(folder / "logs") as processes:
        options = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page_port)]
        processes.start("master", [spark_class, "org.apache.spark.deploy.master.Master", *options], environ)
        for number in range(1, _WORKERS + 1):
            worker_port, worker_page_port = worker_ports[2 * number - 2 : 2 * number]
            options = ["--host", "127.0.0.1", "--port", str(worker_port), "--webui-port", str(worker_page_port)]
            options += ["--cores", "2", "--memory", "1g", "--work-dir", str(folder / f"work{number}")]
            command = [spark_class, "org.apache.spark.deploy.worker.Worker", *options, master]
            processes.start(f"worker{number}", command, environ)
        processes.wait_until("All workers registered", lambda: _live_worker_count(page_port) == _WORKERS)
        yield StandaloneCluster(master=master, processes=processes)


def _live_worker_count(page_port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{page_port}/json/", timeout=30) as answer:
        return int(json.load(answer)["aliveworkers"])
