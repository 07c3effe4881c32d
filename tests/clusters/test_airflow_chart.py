"""The official chart of Airflow with our values, and the permissions of `rbac.yaml`, in a real Kubernetes.

The images of the values do not exist, so no container of Airflow starts. The API server checks each object of the
chart, and the controllers create the pods.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.clusters.conftest import wait_until
from tests.support.airflow_chart import objects_of_the_chart
from tests.support.clusters.kubernetes import KubernetesCluster

# The release is not in the namespace `airflow`, because the other tests use accounts there.
RELEASE_NAMESPACE = "chart"
PERMISSIONS = {
    "airflow-worker": {"create pods": True, "get pods/log": True, "create secrets": True, "create roles": False},
    "airflow-triggerer": {"get pods": True, "delete pods": True, "create pods": False, "get secrets": False},
    "airflow-scheduler": {"get pods": False, "create pods": False},
}


@pytest.mark.campaign
def test_kubernetes_accepts_the_chart_and_gives_tokens_only_to_workers_and_triggerer(kubernetes):
    with applied(kubernetes, objects_of_the_chart(RELEASE_NAMESPACE)):
        for component in ("worker", "triggerer"):
            pod = wait_until(f"the pod of the {component} exists", lambda name=component: pod_of(kubernetes, name))
            assert pod["spec"]["serviceAccountName"] == f"airflow-{component}"
            assert token_volumes(pod), "Kubernetes gives the pod a token of its account"
        scheduler = wait_until("the pod of the scheduler exists", lambda: pod_of(kubernetes, "scheduler"))
        assert not token_volumes(scheduler)


@pytest.mark.campaign
@pytest.mark.parametrize("account", PERMISSIONS)
def test_an_account_has_only_the_permissions_of_rbac_yaml(kubernetes, account):
    user = f"--as=system:serviceaccount:airflow:{account}"
    for action, is_allowed in PERMISSIONS[account].items():
        answer = kubernetes.kubectl("auth", "can-i", *action.split(), user, check=False).strip()
        assert answer == ("yes" if is_allowed else "no"), action


@contextmanager
def applied(cluster: KubernetesCluster, objects: list[dict[str, Any]]) -> Iterator[None]:
    """Create the objects in a separate namespace, and delete it afterwards."""
    file = cluster.folder / "chart.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    cluster.kubectl("create", "namespace", RELEASE_NAMESPACE)
    try:
        cluster.kubectl("apply", "--server-side", "--filename", str(file), "--namespace", RELEASE_NAMESPACE)
        yield
    finally:
        cluster.kubectl("delete", "namespace", RELEASE_NAMESPACE, "--wait=false")


def pod_of(cluster: KubernetesCluster, component: str) -> dict[str, Any] | None:
    """A pod of a component of Airflow, None if no controller has created it yet."""
    selector = ("--selector", f"component={component}", "--namespace", RELEASE_NAMESPACE)
    pods = json.loads(cluster.kubectl("get", "pods", *selector, "--output", "json"))["items"]
    return pods[0] if pods else None


def token_volumes(pod: dict[str, Any]) -> list[str]:
    """The names of the pod's volumes with a token for the API server."""
    return [
        volume["name"]
        for volume in pod["spec"]["volumes"]
        if any("serviceAccountToken" in source for source in volume.get("projected", {}).get("sources", []))
    ]
