"""Pods that Kubernetes loses in the middle of a write: the table is right, and a retry commits once."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from airflow_provider_deltalite.clusters import unowned_secrets
from airflow_provider_deltalite.clusters.kubernetes_api import load_client
from airflow_provider_deltalite.failures import DeltaJobError
from airflow_provider_deltalite.operators.delta import DeltaWriteOperator
from tests.clusters.conftest import Mode, slow_write, wait_until
from tests.support.background_tasks import BackgroundTask
from tests.support.clusters.kubernetes import NAMESPACE
from tests.support.clusters.pods import delete, delete_now, evict, executor_pods, kill_processes, stop_processes
from tests.support.clusters.table_checks import check_table, files_without_commit, written_task_numbers

pytestmark = pytest.mark.campaign
IDS = range(80)


def long_write(mode: Mode) -> dict[str, Any]:
    """The parameters of a write with four tasks of five seconds. Each executor runs one task at a time."""
    parameters = slow_write(mode, "orders")
    (mode.folder / "rows.csv").write_text("\n".join(["id", *map(str, IDS)]) + "\n")
    sleep = "java_method('java.lang.Thread', 'sleep', 250L)"
    query = f"SELECT id, left({sleep}, 0) AS empty FROM (SELECT /*+ REPARTITION(4) */ * FROM source)"
    return parameters | {"query": query}


def has_written_a_part(mode: Mode) -> bool:
    """Whether a task of the write has finished its file, and the job has not committed."""
    folders = [folder for folder, _, _ in os.walk(mode.folder / "lake" / "orders")]
    return any("_temporary/0/task_" in folder for folder in folders) and not mode.commit_files("orders")


def check_written_once(mode: Mode, result: dict[str, Any]) -> None:
    """Check that the table has one commit with each row once, from one file of each task."""
    assert (result["version"], result["committed"], result["metrics"]["numOutputRows"]) == (0, True, len(IDS))
    assert mode.commit_files("orders") == ["00000000000000000000.json"]
    table = mode.local_table("orders")
    check_table(table, [(number, "") for number in IDS])
    assert written_task_numbers(table, 0) == [0, 1, 2, 3]


def running_driver(mode: Mode, earlier_jobs: set[str]) -> str | None:
    """The driver's pod of the job that began after the earlier ones and is running, or None."""
    running_jobs = [
        name for name, state in mode.applications().items() if name not in earlier_jobs and state == "RUNNING"
    ]
    return running_jobs[0] if running_jobs else None


@pytest.mark.parametrize("loss", [delete_now, kill_processes])
@pytest.mark.parametrize("mode", ["pod", "pod-client"], indirect=True)
def test_a_write_that_loses_an_executor_has_every_row_once(mode, loss):
    results: list[dict[str, Any]] = []
    load = DeltaWriteOperator(**long_write(mode))
    with BackgroundTask(lambda: results.append(mode.run(load))) as task:
        wait_until("a part of the rows is written", lambda: has_written_a_part(mode))
        executor_id, pod = min(executor_pods(mode.kubernetes).items())
        loss(mode.kubernetes, pod)
        task.wait(500)
    assert task.errors == []
    check_written_once(mode, results[0])
    assert files_without_commit(mode.local_table("orders")) == set()
    lost_executors = {end.executor for end in mode.event_logs.task_ends() if end.reason == "ExecutorLostFailure"}
    assert lost_executors == {executor_id}


@pytest.mark.parametrize("loss", [evict, delete])
@pytest.mark.parametrize("mode", ["pod", "pod-untracked", "pod-deferred"], indirect=True)
def test_a_task_whose_driver_is_evicted_or_deleted_can_be_retried_and_its_retry_commits_once(mode, loss):
    earlier_jobs = set(mode.applications())
    parameters = long_write(mode)
    with BackgroundTask(lambda: mode.run(DeltaWriteOperator(**parameters))) as task:
        wait_until("a part of the rows is written", lambda: has_written_a_part(mode))
        driver = running_driver(mode, earlier_jobs)
        loss(mode.kubernetes, driver)
        task.wait(500)
    assert [type(error) for error in task.errors] == [DeltaJobError]
    assert mode.commit_files("orders") == []
    check_written_once(mode, mode.run(DeltaWriteOperator(**parameters), try_number=2))
    wait_until("the pod is deleted", lambda: driver not in mode.applications())


@pytest.mark.parametrize("mode", ["pod"], indirect=True)
def test_a_retry_submits_a_new_job_while_the_pod_of_its_earlier_job_is_being_deleted(mode):
    earlier_jobs = set(mode.applications())
    parameters = long_write(mode)
    worker = mode.start_worker("DeltaWriteOperator", parameters)
    try:
        wait_until("a part of the rows is written", lambda: has_written_a_part(mode))
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
    driver = running_driver(mode, earlier_jobs)
    stop_processes(mode.kubernetes, driver)
    mode.kubernetes.kubectl("delete", "pod", driver, "--wait=false")
    check_written_once(mode, mode.run(DeltaWriteOperator(**parameters), try_number=2))
    wait_until("the pod is deleted", lambda: driver not in mode.applications())
    assert mode.commit_files("orders") == ["00000000000000000000.json"]


@pytest.mark.parametrize("mode", ["pod"], indirect=True)
def test_a_secret_without_an_owner_stays_until_its_waiting_pod_has_ended(mode, monkeypatch):
    for name, value in mode.worker_environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(unowned_secrets, "_MAX_SUBMISSION_SECONDS", -60)
    cluster = mode.kubernetes
    container = {"name": "spark-kubernetes-driver", "image": "localhost/pause:1", "imagePullPolicy": "Never"}
    spec = {"containers": [container], "nodeSelector": {"example.com/missing": "label"}}
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "waiting-driver"}, "spec": spec})
    for name, pod in (("of-waiting-pod", "waiting-driver"), ("of-missing-pod", "missing-driver")):
        annotations = {unowned_secrets.POD_ANNOTATION: pod}
        metadata = {"name": name, "labels": unowned_secrets.JOB_LABELS, "annotations": annotations}
        cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
    unowned_secrets.clean_up_unowned_secrets(load_client("spark_default"), NAMESPACE)
    names = {secret["metadata"]["name"] for secret in cluster.objects("secrets")}
    assert "of-waiting-pod" in names and "of-missing-pod" not in names
    assert "waiting-driver" in cluster.owners_of_secrets()
    cluster.kubectl("delete", "pod", "waiting-driver", "--wait=false")
    wait_until("the Secret is deleted", lambda: "waiting-driver" not in cluster.owners_of_secrets())
