"""The pod template of `deployments/kubernetes`, in a namespace that enforces the Pod Security Standard `restricted`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from airflow_provider_deltalite.operators.delta import DeltaWriteOperator
from tests.clusters.conftest import CHECKOUT, Mode, slow_write
from tests.support.clusters.kubernetes import NAMESPACE, KubernetesCluster

TEMPLATE = CHECKOUT / "deployments" / "kubernetes" / "pod-template.yaml"
ROLES = ("driver", "executor")


@pytest.mark.campaign
@pytest.mark.parametrize("mode", ["pod"], indirect=True)
def test_pods_of_the_template_run_in_a_restricted_namespace(mode):
    mode.settings = settings_with_claims(mode)
    write = slow_write(mode, "orders")
    with claims(mode.kubernetes, test=mode.folder, lake=mode.folder / "lake"), restricted(mode.kubernetes):
        refused_pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "root"}, "spec": pod_of_root()}
        with pytest.raises(AssertionError, match='violates PodSecurity "restricted'):
            mode.kubernetes.apply(refused_pod)
        result = mode.run(DeltaWriteOperator(**write))
    assert (result["committed"], result["metrics"]["numOutputRows"]) == (True, 1)


@contextmanager
def claims(cluster: KubernetesCluster, **folders: Path) -> Iterator[None]:
    """Create volumes of these folders of the node, and claims for them. The standard forbids pods to mount a folder."""
    size = {"storage": "1Gi"}
    common = {"storageClassName": "", "accessModes": ["ReadWriteMany"]}
    for name, folder in folders.items():
        specifications = {
            "PersistentVolume": {**common, "hostPath": {"path": str(folder)}, "capacity": size},
            "PersistentVolumeClaim": {**common, "volumeName": name, "resources": {"requests": size}},
        }
        for kind, specification in specifications.items():
            cluster.apply({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "spec": specification})
    try:
        yield
    finally:
        for kind in ("PersistentVolumeClaim", "PersistentVolume"):
            cluster.kubectl("delete", kind, *folders, "--wait=false")


def settings_with_claims(mode: Mode) -> dict[str, str]:
    """The settings of the mode, with the template, and with claims in place of the folders of the node."""
    settings = {name: value for name, value in mode.settings.items() if ".volumes.hostPath." not in name}
    for role in ROLES:
        settings[f"spark.kubernetes.{role}.podTemplateFile"] = str(TEMPLATE)
        for name, path in (("test", str(mode.folder)), ("lake", mode.lake)):
            prefix = f"spark.kubernetes.{role}.volumes.persistentVolumeClaim.{name}"
            settings |= {f"{prefix}.mount.path": path, f"{prefix}.options.claimName": name}
    return settings


def pod_of_root() -> dict[str, object]:
    """The specification of a pod that the standard forbids."""
    return {"containers": [{"name": "root", "image": "localhost/pause:1"}]}


@contextmanager
def restricted(cluster: KubernetesCluster) -> Iterator[None]:
    """Let the namespace of the jobs refuse every pod that does not fit the standard."""
    label = "pod-security.kubernetes.io/enforce"
    cluster.kubectl("label", "namespace", NAMESPACE, f"{label}=restricted")
    try:
        yield
    finally:
        cluster.kubectl("label", "namespace", NAMESPACE, f"{label}-")
