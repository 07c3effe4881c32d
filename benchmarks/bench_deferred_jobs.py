"""The cost of deferred jobs: the CPU time of a real triggerer with 50 of them, compared with an idle triggerer.

The jobs are deferred tasks of a real DAG run in a separate database. Each trigger polls its driver as often as in
production: every 10 s in YARN, every 20 s in Kubernetes (`--kubernetes`). The cluster is an HTTP server of this
process, and its CPU time does not count. Its answer for a pod is that of a real Kubernetes. No other process of Airflow
runs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

from benchmarks.triggerer import share_of_a_core  # noqa: E402
from tests.support.airflow_processes import WholeAirflow  # noqa: E402
from tests.support.kubernetes_server import ApiServer, kubeconfig_of  # noqa: E402
from tests.support.resource_manager import RUNNING_STATE, ResourceManager, resource_manager  # noqa: E402

DAG = """
from airflow.sdk import DAG
from airflow_provider_deltalite.operators.delta import DeltaOptimizeOperator

with DAG("waiting", schedule=None):
    for n in range({count}):
        DeltaOptimizeOperator(task_id=f"job_{{n}}", table="s3://lake/t", deferrable=True)
"""
# Defers the tasks in place of the scheduler and the workers, in a separate process with Airflow's environment.
DEFER_PROGRAM = """
import sys
from datetime import UTC, datetime, timedelta

from airflow.models.taskinstance import TaskInstance
from airflow.models.trigger import Trigger
from airflow.utils.session import create_session
from airflow_provider_deltalite.triggers.driver import SparkDriverTrigger
from sqlalchemy import select

with create_session() as session:
    for number, task in enumerate(session.scalars(select(TaskInstance).where(TaskInstance.dag_id == "waiting"))):
        path, kwargs = SparkDriverTrigger(
            conn_id="spark_default", driver_id=sys.argv[1].format(number), poll_interval=float(sys.argv[2])
        ).serialize()
        trigger = Trigger(classpath=path, kwargs=kwargs)
        session.add(trigger)
        session.flush()
        task.state, task.trigger_id = "deferred", trigger.id
        task.next_method, task.trigger_timeout = "execute_complete", datetime.now(UTC) + timedelta(days=1)
"""


class Yarn:
    """A ResourceManager on which all applications run."""

    driver_id, poll_interval = "application_1700000000000_{:04}", 10

    def __init__(self, manager: ResourceManager) -> None:
        self._manager = manager
        manager.answers = [RUNNING_STATE]
        self.variables = {"AIRFLOW_CONN_SPARK_DEFAULT": manager.connection}

    def end_jobs(self) -> None:
        """End all applications."""
        self._manager.answers = [self._manager.finished_state()]


class Kubernetes:
    """An API server on which all pods run. It answers with `driver_pod.json`, the driver's pod of a real job."""

    driver_id, poll_interval = "lake:job-{}-driver", 20

    def __init__(self, server: ApiServer, folder: Path) -> None:
        self._server = server
        self._pod = json.loads(Path(__file__).with_name("driver_pod.json").read_text())
        server.body = json.dumps(self._pod)
        self.variables = {
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "k8s://https://k8s:443"}),
            "AIRFLOW__KUBERNETES_EXECUTOR__IN_CLUSTER": "False",
            "AIRFLOW__KUBERNETES_EXECUTOR__CONFIG_FILE": str(kubeconfig_of(server.port, folder)),
        }

    def end_jobs(self) -> None:
        """End all pods."""
        self._pod["status"]["phase"] = "Succeeded"
        self._server.body = json.dumps(self._pod)


@contextlib.contextmanager
def run_cluster(folder: Path, *, kubernetes: bool) -> Iterator[Yarn | Kubernetes]:
    """Run a stand-in for a cluster during the block. `folder` gets the configuration file for Kubernetes."""
    if kubernetes:
        with ApiServer() as server:
            yield Kubernetes(server, folder)
    else:
        with resource_manager() as manager:
            yield Yarn(manager)


def main() -> None:
    """Measure an idle triggerer and one with deferred jobs, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=180.0, help="seconds for which each triggerer is measured")
    parser.add_argument("--kubernetes", action="store_true", help="watch pods instead of YARN applications")
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="deltalite-jobs-")))
        cluster = stack.enter_context(run_cluster(home, kubernetes=arguments.kubernetes))
        airflow = WholeAirflow(home / "airflow", variables=cluster.variables)
        for folder in (airflow.dags, airflow.logs, airflow.process_logs):
            folder.mkdir(parents=True)
        airflow.cli("db", "migrate", timeout=300)
        idle_share = share_of_a_core(airflow, 0, arguments.seconds)
        (airflow.dags / "waiting.py").write_text(DAG.format(count=arguments.jobs))
        airflow.cli("dags", "reserialize", timeout=300)
        airflow.cli("dags", "trigger", "waiting", timeout=300)
        parameters = [cluster.driver_id, str(cluster.poll_interval)]
        subprocess.run([sys.executable, "-c", DEFER_PROGRAM, *parameters], env=airflow.environment, check=True)
        busy_share = share_of_a_core(airflow, arguments.jobs, arguments.seconds, end_waits=cluster.end_jobs)
    jobs_share = busy_share - idle_share
    print(f"{'triggerer':<42} {'share of a core':>15}")
    print(f"{'without a job':<42} {idle_share:>15.1%}")
    print(f"{f'with {arguments.jobs}, each polled every {cluster.poll_interval} s':<42} {busy_share:>15.1%}")
    print(f"{'the jobs':<42} {jobs_share:>15.1%}")
    print(f"{'a poll':<42} {jobs_share * cluster.poll_interval / arguments.jobs * 1000:>12.2f} ms")


if __name__ == "__main__":
    main()
