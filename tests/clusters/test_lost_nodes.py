"""A write while a cluster loses a node, or the ResourceManager loses its applications: the table is right."""

from __future__ import annotations

import json

import pytest

from airflow_provider_deltalite.failures import DeltaJobError
from tests.clusters.conftest import wait_until
from tests.clusters.slow_jobs import is_in_the_middle, running, write_of
from tests.support.background_tasks import BackgroundTask
from tests.support.clusters.executors import executor_processes
from tests.support.clusters.table_checks import (
    check_table,
    files_that_a_vacuum_deletes,
    files_without_commit,
    written_task_numbers,
)

pytestmark = pytest.mark.campaign
LOST = "ExecutorLostFailure"
NODE_SETTING = "spark.kubernetes.driver.node.selector.kubernetes.io/hostname"


@pytest.mark.parametrize("mode", ["standalone"], indirect=True)
def test_a_write_that_loses_a_worker_has_every_row_once(mode, standalone, capsys):
    results = []
    with running(mode, write_of(mode, range(80), sleep_ms=250), results):
        standalone.processes.kill("worker1")
    standalone.start_worker_again("worker1")
    check_write(mode, results, capsys)


@pytest.mark.parametrize("mode", ["yarn-cluster"], indirect=True)
def test_a_write_that_loses_a_node_manager_has_every_row_once(mode, yarn, capsys):
    """The ResourceManager gives the node up after 20 seconds. The executor of the node runs on."""
    results = []
    with running(mode, write_of(mode, range(80), sleep_ms=2000), results) as application_id:
        lost_node = yarn.node_with_executors_only(application_id)
        yarn.processes.kill(lost_node)
    yarn.start_node_manager_again(lost_node)
    check_write(mode, results, capsys)


@pytest.mark.parametrize("mode", ["pod"], indirect=True)
def test_a_write_that_loses_a_kubernetes_node_has_every_row_once(mode, kubernetes, capsys):
    """Nobody reports the end of the pods, so Spark waits `spark.network.timeout` for heartbeats of the executors.

    The deletion of the node makes Kubernetes remove the pods. Only then does Spark request new executors.
    """
    mode.settings |= {
        NODE_SETTING: kubernetes.node(1).name,
        "spark.network.timeout": "30s",
        "spark.network.timeoutInterval": "10s",
    }
    results = []
    with kubernetes.second_node() as node, running(mode, write_of(mode, range(80), sleep_ms=1000), results):
        nodes = nodes_of_executors(kubernetes)
        assert len(nodes) == 2 and node.name in nodes
        node.crash(kubernetes.processes)
        assert nodes_of_executors(kubernetes) == nodes, "Kubernetes has not noticed the loss"
        wait_until("Kubernetes notices the loss", lambda: kubernetes.readiness(node) == "Unknown")
        kubernetes.kubectl("delete", "node", node.name)  # as a cloud does after the loss of its machine
    check_write(mode, results, capsys)


def nodes_of_executors(cluster):
    """The node of each executor that runs, as far as Kubernetes knows."""
    running_pods = ("--selector", "spark-role=executor", "--field-selector", "status.phase=Running")
    return cluster.kubectl("get", "pods", *running_pods, "--output", "jsonpath={.items[*].spec.nodeName}").split()


@pytest.mark.parametrize("mode", ["yarn-cluster", "yarn-deferred"], indirect=True)
def test_a_retry_commits_once_after_the_resource_manager_has_lost_its_applications(mode, yarn):
    """A ResourceManager without a state store starts with an empty list of applications. A driver may still commit."""
    load = write_of(mode, range(80), sleep_ms=1500)
    with BackgroundTask(lambda: mode.run(load)) as task:
        wait_until("the job writes its second files", lambda: is_in_the_middle(mode))
        yarn.processes.kill("resourcemanager")
        yarn.processes.start_again("resourcemanager")
        yarn.wait_for_nodes()
        task.wait(500)
    assert [type(error) for error in task.errors] == [DeltaJobError]
    result = mode.run(load, try_number=2)
    assert (result["version"], result["metrics"]["numOutputRows"]) == (0, 80)
    assert mode.commit_files("orders") == ["00000000000000000000.json"]
    check_table(mode.local_table("orders"), [(number, "old") for number in range(80)])


@pytest.mark.parametrize("mode", ["yarn-cluster", "yarn-deferred"], indirect=True)
def test_a_retry_writes_each_row_once_after_the_node_of_the_driver_has_crashed(mode, yarn, capsys):
    """The ResourceManager gives the node up after 20 seconds. The retry runs on the other node."""
    load = write_of(mode, range(80), sleep_ms=500)
    with BackgroundTask(lambda: mode.run(load)) as task:
        application_id = wait_until("the job runs", mode.event_logs.running_application)
        wait_until("the job writes its second files", lambda: is_in_the_middle(mode))
        with yarn.crashed_node(yarn.node_with_driver(application_id)):
            task.wait(500)
            assert [type(error) for error in task.errors] == [DeltaJobError]
            wait_until("the executors have ended", lambda: executor_processes(application_id) == {})
            assert mode.commit_files("orders") == []
            result = mode.run(load, try_number=2)
    assert (result["version"], result["metrics"]["numOutputRows"]) == (0, 80)
    table = mode.local_table("orders")
    check_table(table, [(number, "old") for number in range(80)])
    assert files_without_commit(table) <= files_that_a_vacuum_deletes(table, capsys)


@pytest.mark.parametrize("removal", ["by nobody", "by kubectl"])
@pytest.mark.parametrize("mode", ["pod", "pod-deferred"], indirect=True)
def test_a_task_ends_after_the_crash_of_the_node_with_its_driver(mode, kubernetes, removal):
    """Kubernetes deletes the pods of a node that does not report, but their phase stays `Running`.

    A deleted pod exists until its node reports the end of the pod, or until somebody deletes the node.
    """
    template = mode.folder / "driver.json"
    toleration = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
    # By default, Kubernetes deletes the pods of an unreachable node after five minutes.
    spec = {"tolerations": [{**toleration, "tolerationSeconds": 5}]}
    template.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", "spec": spec}))
    settings = {"spark.kubernetes.driver.podTemplateFile": str(template), NODE_SETTING: kubernetes.node(2).name}
    load = write_of(mode, range(80), sleep_ms=1000, conf=settings)
    earlier_jobs = set(mode.applications())
    with kubernetes.second_node() as node, BackgroundTask(lambda: mode.run(load)) as task:
        wait_until("the job writes its second files", lambda: is_in_the_middle(mode))
        (driver,) = set(mode.applications()) - earlier_jobs
        node.crash(kubernetes.processes)
        wait_until("Kubernetes deletes the driver's pod", lambda: mode.applications()[driver] == "KILLED")
        if removal == "by kubectl":
            kubernetes.kubectl("delete", "node", node.name)
        task.wait(500)
        assert (driver in mode.applications()) == (removal == "by nobody")
    assert [type(error) for error in task.errors] == [DeltaJobError]
    assert mode.commit_files("orders") == []
    result = mode.run(write_of(mode, range(80)), try_number=2)
    assert (result["version"], result["metrics"]["numOutputRows"]) == (0, 80)
    assert mode.commit_files("orders") == ["00000000000000000000.json"]
    check_table(mode.local_table("orders"), [(number, "old") for number in range(80)])


def check_write(mode, results, capsys):
    """Check the result and the table of a write of 80 rows that lost an executor."""
    assert LOST in {end.reason for end in mode.event_logs.task_ends()}
    assert results[0]["version"] == 0 and results[0]["metrics"]["numOutputRows"] == 80
    table = mode.local_table("orders")
    check_table(table, [(number, "old") for number in range(80)])
    assert written_task_numbers(table, 0) == [0, 1, 2, 3]
    assert files_without_commit(table) <= files_that_a_vacuum_deletes(table, capsys)
