"""Fixtures of the tests on clusters: the clusters, and tasks that run a job on one of them.

The clusters are real processes on this machine. A task runs in this process as a worker runs it: Airflow's own hook
starts `spark-submit`. The worker cannot read HDFS, so it knows the result of a write there only from the cluster. The
same is true for the pods' folder `/lake`, which does not exist on the worker.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters.executors import EventLogs
from tests.support.clusters.kubernetes import NAMESPACE, KubernetesCluster, is_built, kubernetes_cluster
from tests.support.clusters.standalone import StandaloneCluster, standalone_cluster
from tests.support.clusters.tasks import context_of, run_attempt
from tests.support.clusters.yarn import YarnCluster, yarn_cluster
from tests.support.folder_servers import servers_of
from tests.support.required import skip_or_fail

CHECKOUT = Path(__file__).resolve().parents[2]

# The settings of a driver and two executors that fit on this machine beside all servers of the clusters.
_SMALL_JOB_SETTINGS = {
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.instances": "2",
    "spark.cores.max": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.sql.shuffle.partitions": "2",
    "spark.locality.wait": "0s",  # Otherwise one executor may run all tasks of a small shuffle.
    "spark.ui.enabled": "false",
    # The JVMs live for seconds.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}

CLUSTER_MODES = ["standalone", "yarn-client", "yarn-cluster", "yarn-deferred", "untracked"]
CLUSTER_MODES += ["pod", "pod-client", "pod-untracked", "pod-deferred"]
MODES = ["local", *CLUSTER_MODES]
UNLISTED_MODES = ("local", "standalone", "pod-client")
"""The modes in which no cluster lists the applications, see `Mode.applications`."""
# A job takes half a minute. `make test` therefore runs one test on a standalone cluster in test_operations.py, and two
# in YARN's cluster mode in test_kills.py and test_typed_errors.py. The campaign runs every test in every mode.
EACH_MODE = pytest.mark.parametrize("mode", MODES, indirect=True)
# Each cluster, with the driver in every place that the cluster allows: on the worker, or in the cluster.
EACH_DRIVER = pytest.mark.parametrize(
    "mode", ["standalone", "yarn-client", "yarn-cluster", "pod-client", "pod"], indirect=True
)

_LOCAL_CONNECTION = {"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}}

SLOW_QUERY = "SELECT java_method('java.lang.Thread', 'sleep', 10000L * id) AS slept, id FROM source"


@dataclass(slots=True, kw_only=True)
class Mode:
    """A way to run jobs on a cluster. `name` is the parameter of the fixture.

    `lake` is the address of the folder of the tables. `settings` are the Spark settings of every job. Spark writes its
    event logs to `events` in `folder`. `standalone`, `yarn` or `kubernetes` is the cluster; `local` has none.
    `cluster_variables` are environment variables for the worker, and `triggerer_variables` replace some of them for the
    triggerer. `task_parameters` are further parameters of every operator.
    """

    name: str
    lake: str
    connection: Mapping[str, Any]
    settings: dict[str, str]
    folder: Path
    cluster_variables: dict[str, str] = field(default_factory=dict)
    triggerer_variables: dict[str, str] = field(default_factory=dict)
    shared_folder: bool = False
    task_parameters: dict[str, Any] = field(default_factory=dict)
    standalone: StandaloneCluster | None = None
    yarn: YarnCluster | None = None
    kubernetes: KubernetesCluster | None = None

    @property
    def executors(self) -> int:
        """The number of executors of a job."""
        return 1 if self.name == "local" else 2

    def parameters(self, task_id: str, table: str, **parameters: Any) -> dict[str, Any]:
        """The parameters of an operator."""
        conf = {**self.settings, **parameters.pop("conf", {})}
        return {
            "task_id": task_id,
            "table": f"{self.lake}/{table}",
            "shared_folder": self.shared_folder,
            "retries": 2,
            "conf": conf,
            **self.task_parameters,
            **parameters,
        }

    def applications(self) -> dict[str, str]:
        """The states of YARN's applications or of Kubernetes' driver pods, by id. Empty in the other modes."""
        if self.yarn is not None:
            return {application["id"]: application["state"] for application in self.yarn.applications()}
        if self.kubernetes is not None:
            return {pod["metadata"]["name"]: _state(pod) for pod in self.kubernetes.driver_pods()}
        return {}

    def files(self, table: str) -> list[str]:
        """The names of all files below the folder of a table, sorted."""
        if self.yarn is not None:
            return self.yarn.files_below(f"{self.lake.removeprefix(self.yarn.hdfs)}/{table}")
        folder = self.folder / "lake" / table
        return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())

    def commit_files(self, table: str) -> list[str]:
        """The names of the commit files of a table."""
        log_files = [name.split("/") for name in self.files(table) if name.endswith(".json")]
        return [names[1] for names in log_files if names[0] == "_delta_log" and len(names) == 2]

    def put_table(self, table: Path) -> None:
        """Copy a table from this machine to the folder of the tables, with the modification times of its files."""
        if self.yarn is None:
            copy = self.folder / "lake" / table.name
            shutil.copytree(table, copy)
            if self.kubernetes is not None:  # The pods run as another user.
                for folder in (copy, *(path for path in copy.rglob("*") if path.is_dir())):
                    folder.chmod(0o777)
            return
        for file in table.rglob("*"):
            if file.is_file():
                path = f"{self.lake.removeprefix(self.yarn.hdfs)}/{table.name}/{file.relative_to(table)}"
                self.yarn.write(path, file.read_bytes(), modified_s=file.stat().st_mtime)

    def local_table(self, table: str) -> Path:
        """The folder of a table on this machine. If the table is in HDFS, the folder of a new copy of it."""
        if self.yarn is None:
            return self.folder / "lake" / table
        copy = Path(tempfile.mkdtemp(dir=self.folder)) / table
        path = f"{self.lake.removeprefix(self.yarn.hdfs)}/{table}"
        for name in self.files(table):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes(self.yarn.read(f"{path}/{name}"))
        return copy

    def state_file(self, task_id: str) -> Path:
        """The file of the task state store of a task."""
        return self.folder / f"state-{task_id}.json"

    def run(self, operator: Any, *, try_number: int = 1) -> dict[str, Any]:
        """Run an attempt of a task, with its deferral if it defers, and return its XCom."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.worker_environment.items():
                patch.setenv(name, value)
            state_file = self.state_file(operator.task_id)
            context = context_of(operator.task_id, state_file, try_number=try_number)
            return run_attempt(operator, context, self.triggerer())

    @contextmanager
    def triggerer(self) -> Iterator[None]:
        """A block with the environment variables of the triggerer."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.triggerer_variables.items():
                patch.setenv(name, value)
            yield

    def start_worker(self, operator: str, parameters: Mapping[str, Any]) -> subprocess.Popen[bytes]:
        """Start an attempt of a task in a separate process."""
        task_id = parameters["task_id"]
        task_file = self.folder / f"{task_id}.json"
        state_file = str(self.state_file(task_id))
        task_file.write_text(json.dumps({"operator": operator, "parameters": parameters, "state_file": state_file}))
        environment = os.environ | self.worker_environment
        with (self.folder / f"{task_id}.log").open("wb") as log:
            command = [sys.executable, "-m", "tests.clusters.worker", str(task_file)]
            return subprocess.Popen(
                command, cwd=CHECKOUT, env=environment, stdout=log, stderr=log, start_new_session=True
            )

    @property
    def worker_environment(self) -> dict[str, str]:
        """The environment variables of the worker."""
        connection = {"AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(self.connection)}
        return {"SPARK_LOCAL_IP": "127.0.0.1", **connection, **self.cluster_variables}

    @property
    def event_logs(self) -> EventLogs:
        """The event logs of all jobs so far."""
        return EventLogs(self.folder / "events")


def slow_write(mode: Mode, table: str, **parameters: Any) -> dict[str, Any]:
    """The parameters of a write whose query sleeps for ten seconds, so that a test can act while the job runs."""
    rows_file = mode.folder / "rows.csv"
    rows_file.write_text("id\n1\n")
    source = {"format": "csv", "path": f"file://{rows_file}", "options": {"header": "true"}, "schema": "id LONG"}
    return {**mode.parameters("load", table, **parameters), "source": source, "query": SLOW_QUERY}


def submit_and_kill_worker(mode: Mode, parameters: dict[str, Any]) -> str:
    """Kill the worker of a write as soon as it has submitted its job; returns the id of the job."""
    earlier_jobs = mode.applications().keys()
    worker = mode.start_worker("DeltaWriteOperator", parameters)
    try:
        state_file = mode.state_file("load")
        wait_until("the job is submitted", lambda: state_file.exists() and "spark_job_id_0" in state_file.read_text())
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
    (job_id,) = mode.applications().keys() - earlier_jobs
    return job_id


def wait_until(event: str, condition: Callable[[], Any], *, seconds: float = 500) -> Any:
    """Wait until `condition` returns a true value, and return this value. The error after a timeout names `event`."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"Timed out after {seconds} s while waiting until {event}"
        time.sleep(0.5)
    return value


def _state(driver_pod: Mapping[str, Any]) -> str:
    """The state of a pod, in the words of YARN. A pod that is being deleted counts as killed."""
    if "deletionTimestamp" in driver_pod["metadata"]:
        return "KILLED"
    phases = {"Running": "RUNNING", "Succeeded": "FINISHED", "Failed": "FAILED"}
    return phases.get(driver_pod["status"]["phase"], "ACCEPTED")


@pytest.fixture(scope="session")
def standalone(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> StandaloneCluster:
    """A standalone cluster."""
    servers = servers_of(Path(__file__).parent, pytestconfig)
    return servers.enter_context(standalone_cluster(tmp_path_factory.mktemp("standalone")))


@pytest.fixture(scope="session")
def yarn(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> YarnCluster:
    """A YARN cluster with HDFS."""
    return servers_of(Path(__file__).parent, pytestconfig).enter_context(yarn_cluster(tmp_path_factory.mktemp("yarn")))


@pytest.fixture(scope="session")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesCluster]:
    """A Kubernetes cluster of one node."""
    if not is_built():
        skip_or_fail("Kubernetes is not built: scripts/kubernetes/build.sh")
    with kubernetes_cluster(tmp_path_factory.mktemp("kubernetes")) as cluster:
        yield cluster


@pytest.fixture
def mode(request: pytest.FixtureRequest, tmp_path: Path) -> Mode:
    """The mode that the parameter names.

    `local` runs driver and executors in one process. `untracked` is YARN's cluster mode if the connection has no
    address of the ResourceManager. `pod-untracked` is Kubernetes if the worker does not poll the pod. In
    `yarn-deferred` and `pod-deferred` each task defers.
    """
    name: str = request.param
    events = tmp_path / "events"
    events.mkdir()
    settings = _SMALL_JOB_SETTINGS | {"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{events}"}
    settings |= {"spark.eventLog.rolling.enabled": "false", "spark.eventLog.compress": "false"}
    if name == "local":
        lake = str(tmp_path / "lake")
        return Mode(name=name, lake=lake, connection=_LOCAL_CONNECTION, settings=settings, folder=tmp_path)
    if name == "standalone":
        return _standalone_mode(request.getfixturevalue("standalone"), settings, tmp_path)
    if name.startswith("yarn") or name == "untracked":
        return _yarn_mode(name, request.getfixturevalue("yarn"), settings, tmp_path)
    return _kubernetes_mode(name, request.getfixturevalue("kubernetes"), settings, tmp_path)


def _standalone_mode(cluster: StandaloneCluster, settings: dict[str, str], folder: Path) -> Mode:
    return Mode(
        name="standalone",
        standalone=cluster,
        lake=str(folder / "lake"),
        connection={"conn_type": "spark", "host": cluster.master, "extra": {"deploy-mode": "client"}},
        # The executors use the archive of classes that the drivers of all tests use.
        settings=settings
        | {"spark.driver.host": "127.0.0.1", "spark.executor.extraJavaOptions": os.environ["SPARK_SUBMIT_OPTS"]},
        folder=folder,
        shared_folder=True,
    )


def _yarn_mode(name: str, cluster: YarnCluster, settings: dict[str, str], folder: Path) -> Mode:
    extra = {"deploy-mode": "client" if name == "yarn-client" else "cluster"}
    if name in ("yarn-cluster", "yarn-deferred"):
        extra["yarn_resourcemanager_webapp_address"] = cluster.resource_manager
    return Mode(
        name=name,
        yarn=cluster,
        lake=f"{cluster.hdfs}/{folder.name}-{os.getpid()}",
        connection={"conn_type": "spark", "host": "yarn", "extra": extra},
        settings=settings | cluster.spark_settings,
        folder=folder,
        cluster_variables={"HADOOP_CONF_DIR": str(cluster.configuration)},
        task_parameters={"deferrable": True} if name == "yarn-deferred" else {},
    )


def _kubernetes_mode(name: str, cluster: KubernetesCluster, settings: dict[str, str], folder: Path) -> Mode:
    """A mode whose pods mount the folder of the test at the same path, and its `lake` at `/lake`."""
    settings = settings | cluster.spark_settings
    lake = folder / "lake"
    lake.mkdir()
    for shared_folder in (folder, lake, folder / "events"):
        shared_folder.chmod(0o777)  # The pods run as another user.
    for role in ("driver", "executor"):
        for volume, path, host_path in (("test", folder, folder), ("lake", "/lake", lake)):
            prefix = f"spark.kubernetes.{role}.volumes.hostPath.{volume}"
            settings |= {f"{prefix}.mount.path": str(path), f"{prefix}.options.path": str(host_path)}
    if name == "pod-client":
        submission = cluster.submission_from_the_node(folder)
        settings |= {"spark.driver.host": submission.host, "spark.kubernetes.namespace": NAMESPACE}
        # The driver and the executors run as different users.
        settings["spark.hadoop.fs.permissions.umask-mode"] = "000"
        return Mode(
            name=name,
            kubernetes=cluster,
            lake=str(lake),
            connection={"conn_type": "spark", "host": submission.master, "extra": {"deploy-mode": "client"}},
            settings=settings,
            folder=folder,
            cluster_variables={"KUBECONFIG": str(submission.kubeconfig)},
            shared_folder=True,
            task_parameters={"spark_binary": str(submission.program)},
        )
    waiting_parameters = {
        "pod-untracked": {"track_driver_via_k8s_api": False},
        "pod-deferred": {"deferrable": True},
    }
    return Mode(
        name=name,
        kubernetes=cluster,
        lake="/lake",
        connection={
            "conn_type": "spark",
            "host": cluster.master,
            "extra": {"deploy-mode": "cluster", "namespace": NAMESPACE},
        },
        settings=settings,
        folder=folder,
        cluster_variables={
            "KUBECONFIG": str(cluster.worker_kubeconfig),
            "AIRFLOW__KUBERNETES_EXECUTOR__IN_CLUSTER": "False",
            "AIRFLOW__KUBERNETES_EXECUTOR__CONFIG_FILE": str(cluster.worker_kubeconfig),
        },
        triggerer_variables={"AIRFLOW__KUBERNETES_EXECUTOR__CONFIG_FILE": str(cluster.triggerer_kubeconfig)},
        shared_folder=True,
        task_parameters=waiting_parameters.get(name, {}),
    )
