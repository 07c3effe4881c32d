"""Functions that evict a pod, delete it, or kill or stop its processes while a job runs."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from tests.support.clusters.kubernetes import NAMESPACE, KubernetesCluster


def evict(cluster: KubernetesCluster, pod: str) -> None:
    """Evict a pod with Kubernetes' API of evictions, as `kubectl drain` does."""
    eviction = cluster.folder / f"eviction-{pod}.json"
    metadata = {"name": pod, "namespace": NAMESPACE}
    eviction.write_text(json.dumps({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}))
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/eviction"
    cluster.kubectl("create", "--raw", path, "--filename", str(eviction))


def delete(cluster: KubernetesCluster, pod: str) -> None:
    """Delete a pod, as a person does. The pod ends within its grace period."""
    cluster.kubectl("delete", "pod", pod, "--wait=false")


def delete_now(cluster: KubernetesCluster, pod: str) -> None:
    """Delete a pod without a grace period, as after the loss of a node."""
    cluster.kubectl("delete", "pod", pod, "--grace-period=0", "--force", "--wait=false")


def kill_processes(cluster: KubernetesCluster, pod: str) -> None:
    """Send SIGKILL to the JVM of a pod."""
    _signal_java(cluster, pod, signal.SIGKILL)


def stop_processes(cluster: KubernetesCluster, pod: str) -> None:
    """Send SIGSTOP to the JVM of a pod, which then ignores SIGTERM until the end of the pod's grace period."""
    _signal_java(cluster, pod, signal.SIGSTOP)


def executor_pods(cluster: KubernetesCluster) -> dict[str, str]:
    """The names of the running pods of executors, by the id of the executor."""
    return {
        pod["metadata"]["labels"]["spark-exec-id"]: pod["metadata"]["name"]
        for pod in cluster.objects("pods")
        if pod["metadata"].get("labels", {}).get("spark-role") == "executor"
        and pod["status"]["phase"] == "Running"
        and "deletionTimestamp" not in pod["metadata"]
    }


def _signal_java(cluster: KubernetesCluster, pod: str, signal_number: int) -> None:
    process_ids = _java_processes(cluster, pod)
    assert process_ids, f"the pod {pod} has no JVM"
    for process_id in process_ids:
        os.kill(process_id, signal_number)


def _java_processes(cluster: KubernetesCluster, pod: str) -> list[int]:
    """The process ids of the JVMs in a pod, by the name of its control group, which contains the pod's unique id."""
    uid = cluster.kubectl("get", "pod", pod, "--output", "jsonpath={.metadata.uid}").strip()
    process_ids = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            is_java = (process / "comm").read_text().strip() == "java"
            if is_java and f"pod{uid}" in (process / "cgroup").read_text():
                process_ids.append(int(process.name))
        except OSError:  # the process has ended
            continue
    return process_ids
