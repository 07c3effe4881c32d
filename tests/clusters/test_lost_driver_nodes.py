"""The node with the driver crashes in the middle of a write. The task fails, and its retry writes the rows once."""

from __future__ import annotations

import json

import pytest

from airflow_provider_deltalite.failures import DeltaJobError
from tests.clusters.conftest import wait_until
from tests.clusters.slow_jobs import is_in_the_middle, write_of
from tests.support.background_tasks import BackgroundTask
from tests.support.clusters.table_checks import check_table

pytestmark = pytest.mark.campaign
NODE_SETTING = "spark.kubernetes.driver.node.selector.kubernetes.io/hostname"


@pytest.mark.parametrize("removal", ["by nobody", "by kubectl"])
@pytest.mark.parametrize("mode", ["pod", "pod-deferred"], indirect=True)
def test_a_task_ends_after_the_crash_of_the_node_with_its_driver(mode, kubernetes, removal):
    """Kubernetes deletes the pods of a node that does not report, but their phase stays `Running`.

    A deleted pod exists until its node reports its end, or until somebody deletes the node.
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
