"""Fixtures of the tests on clusters: the clusters, and tasks that run a job on one of them.

The clusters are real processes on this machine. A task runs in this process as a worker runs it: Airflow's own hook
starts `spark-submit`. The worker reads no HDFS, so a result from there came back by the cluster.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters.standalone import StandaloneCluster, standalone_cluster
from tests.support.clusters.tasks import context_of
from tests.support.clusters.yarn import YarnCluster, yarn_cluster

CHECKOUT = Path(__file__).resolve().parents[2]

# Two executors that fit beside all servers of the clusters and a driver.
_SMALL = {
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.instances": "2",
    "spark.cores.max": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


@dataclass(slots=True, kw_only=True)
class Mode:
    """A way to run jobs on a cluster.

    `lake` is an address below which tables lie. `settings` are those of every job. Spark writes its event logs to
    `events` in `folder`. `yarn` is the cluster if it is YARN.
    """

    lake: str
    connection: Mapping[str, Any]
    settings: dict[str, str]
    folder: Path
    environ: dict[str, str] = field(default_factory=dict)
    shared_folder: bool = False
    yarn: YarnCluster | None = None

    def parameters(self, task_id: str, table: str, **parameters: Any) -> dict[str, Any]:
        """The parameters of an operator."""
        conf = {**self.settings, **parameters.pop("conf", {})}
        return {
            "task_id": task_id,
            "table": f"{self.lake}/{table}",
            "shared_folder": self.shared_folder,
            "retries": 2,
            "conf": conf,
            **parameters,
        }

    def applications(self) -> dict[str, dict[str, Any]]:
        """YARN's applications by id; none on another cluster."""
        return {} if self.yarn is None else {application["id"]: application for application in self.yarn.applications()}

    def state(self, task_id: str) -> Path:
        """The file of the task state store."""
        return self.folder / f"state-{task_id}.json"

    def run(self, operator: Any, *, try_number: int = 1) -> dict[str, Any]:
        """Run an attempt of a task, and return its XCom."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.environment.items():
                patch.setenv(name, value)
            return operator.execute(context_of(operator.task_id, self.state(operator.task_id), try_number=try_number))

    def start_worker(self, operator: str, parameters: Mapping[str, Any]) -> subprocess.Popen[bytes]:
        """Start an attempt of a task in a separate process."""
        task_id = parameters["task_id"]
        file = self.folder / f"{task_id}.json"
        state = str(self.state(task_id))
        file.write_text(json.dumps({"operator": operator, "parameters": parameters, "state": state}))
        environ = os.environ | self.environment
        with (self.folder / f"{task_id}.log").open("wb") as log:
            command = [sys.executable, "-m", "tests.clusters.worker", str(file)]
            return subprocess.Popen(command, cwd=CHECKOUT, env=environ, stdout=log, stderr=log, start_new_session=True)

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of the worker."""
        connection = {"AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(self.connection)}
        return {"SPARK_LOCAL_IP": "127.0.0.1", **connection, **self.environ}

    def executors(self) -> set[str]:
        """The executors that finished a task, in all event logs so far, each as application and number."""
        executors = set()
        for log in (self.folder / "events").rglob("*"):
            if log.is_file():
                events = [json.loads(line) for line in log.read_text().splitlines() if "SparkListenerTaskEnd" in line]
                executors |= {f"{log.name} {event['Task Info']['Executor ID']}" for event in events}
        return executors


@pytest.fixture(scope="session")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """A standalone cluster."""
    with standalone_cluster(tmp_path_factory.mktemp("standalone")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[YarnCluster]:
    """A YARN cluster with HDFS."""
    with yarn_cluster(tmp_path_factory.mktemp("yarn")) as cluster:
        yield cluster


@pytest.fixture
def mode(request: pytest.FixtureRequest, tmp_path: Path) -> Mode:
    """The mode that the parameter names; `untracked` is YARN's cluster mode without an address of YARN."""
    name: str = request.param
    events = tmp_path / "events"
    events.mkdir()
    settings = _SMALL | {"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{events}"}
    settings |= {"spark.eventLog.rolling.enabled": "false", "spark.eventLog.compress": "false"}
    if name == "standalone":
        cluster = request.getfixturevalue("standalone")
        connection = {"conn_type": "spark", "host": cluster.master, "extra": {"deploy-mode": "client"}}
        settings |= {"spark.driver.host": "127.0.0.1"}
        return Mode(
            lake=str(tmp_path / "lake"),
            connection=connection,
            settings=settings,
            folder=tmp_path,
            shared_folder=True,
        )
    yarn = request.getfixturevalue("yarn")
    extra = {"deploy-mode": "client" if name == "yarn-client" else "cluster"}
    if name == "yarn-cluster":
        extra["yarn_resourcemanager_webapp_address"] = yarn.resource_manager
    return Mode(
        yarn=yarn,
        lake=f"{yarn.hdfs}/{tmp_path.name}-{os.getpid()}",
        connection={"conn_type": "spark", "host": "yarn", "extra": extra},
        settings=settings | yarn.spark_settings,
        folder=tmp_path,
        environ={"HADOOP_CONF_DIR": str(yarn.configuration)},
    )
