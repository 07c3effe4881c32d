"""A Kubernetes: etcd, API server, controller manager, scheduler, CoreDNS, and one or two nodes.

The servers and the pods are in a network namespace without a route to other machines. A forwarder makes the API server
reachable at a port of this machine's loopback interface. `scripts/kubernetes/build.sh` builds the programs and images.
Root rights are necessary.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.clusters.kubernetes_node import Node
from tests.support.clusters.kubernetes_tools import (
    BUILD,
    CHECKOUT,
    NETWORK,
    in_network,
    program_environment,
    run,
)
from tests.support.clusters.processes import ServerProcesses
from tests.support.ports import free_ports

NAMESPACE = "spark"  # The jobs run in this namespace.
_AIRFLOW_NAMESPACE = "airflow"
# The accounts of Airflow. `rbac.yaml` names the first two, and the documentation has the command for the third.
_WORKER, _TRIGGERER, _CLIENT_WORKER = "airflow-worker", "airflow-triggerer", "airflow-client-worker"
_NODE, _SERVICES, _API = "10.240.0.1", "10.96.0.0/16", "10.96.0.1"
_SECOND_NODE = "10.240.0.2"
_PORT = 6443  # The API server listens on this port of the network namespace.
# The kubelet changes these settings of the kernel. The end of the cluster restores them.
_KERNEL_SETTINGS = ("vm.overcommit_memory", "kernel.panic", "kernel.panic_on_oops")
_READY = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
_FORWARDER = str(Path(__file__).with_name("forwarder.py"))


def is_built() -> bool:
    """Whether the programs and images exist."""
    return (BUILD / ".done").exists()


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesCluster:
    """A running cluster. `master` is its address for Spark. The account in `kubeconfig` has all permissions."""

    master: str
    kubeconfig: Path
    folder: Path
    processes: ServerProcesses

    @property
    def worker_kubeconfig(self) -> Path:
        """The kubeconfig of an account with the permissions that the documentation gives to a worker."""
        return self.kubeconfig_of(_WORKER)

    @property
    def triggerer_kubeconfig(self) -> Path:
        """The kubeconfig of an account with the permissions that the documentation gives to a triggerer."""
        return self.kubeconfig_of(_TRIGGERER)

    @property
    def worker_token(self) -> str:
        """The token of the account of a worker."""
        token: str = json.loads(self.worker_kubeconfig.read_text())["users"][0]["user"]["token"]
        return token

    def kubeconfig_of(self, account: str) -> Path:
        """The kubeconfig of an account of Airflow."""
        return self.folder / f"kubeconfig-{account}"

    def kubectl(self, *arguments: str, check: bool = True) -> str:
        """Run kubectl in the namespace of the jobs, and return its output. With `check`, its failure fails the test."""
        command = [str(BUILD / "bin" / "kubernetes"), "kubectl", "--kubeconfig", str(self.kubeconfig)]
        completed = subprocess.run(
            [*command, "--namespace", NAMESPACE, *arguments], capture_output=True, text=True, check=False
        )
        assert completed.returncode == 0 or not check, completed.stderr
        return completed.stdout

    def apply(self, definition: Mapping[str, Any]) -> None:
        """Create an object in the namespace of the jobs."""
        file = self.folder / f"{definition['kind']}-{definition['metadata']['name']}.json"
        file.write_text(json.dumps(definition))
        self.kubectl("apply", "--filename", str(file))

    def objects(self, kind: str) -> list[dict[str, Any]]:
        """The objects of a kind, such as ``pods``."""
        return list(json.loads(self.kubectl("get", kind, "--output", "json"))["items"])

    def driver_pods(self) -> list[dict[str, Any]]:
        """The pods of drivers."""
        labels = [(pod, pod["metadata"].get("labels", {})) for pod in self.objects("pods")]
        return [pod for pod, pod_labels in labels if pod_labels.get("spark-role") == "driver"]

    def owners_of_secrets(self) -> list[str]:
        """The names of the objects that own a Secret."""
        owners = [secret["metadata"].get("ownerReferences", []) for secret in self.objects("secrets")]
        return [owner["name"] for owner_list in owners for owner in owner_list]

    def node(self, number: int) -> Node:
        """The first or the second node. Only the first runs all the time."""
        return Node(
            number=number,
            address={1: _NODE, 2: _SECOND_NODE}[number],
            pods=f"10.244.{number}.0/24",
            folder=self.folder / f"node{number}",
            dns=_NODE,
            authority=self.folder / "keys" / "ca.crt",
            has_control_groups=number == 1,
        )

    @contextmanager
    def second_node(self) -> Iterator[Node]:
        """Add a second node for the block. Afterwards the node crashes, and is deleted from Kubernetes."""
        node = self.node(2)
        try:
            node.start(self.processes, self.folder / f"kubeconfig-{_PORT}")
            self.processes.wait_until("The second node is ready", lambda: self.is_ready(node))
            yield node
        finally:
            node.crash(self.processes)
            self.kubectl("delete", "node", node.name, check=False)

    def is_ready(self, node: Node) -> bool:
        """Whether Kubernetes knows the node, and the node accepts pods."""
        return self.readiness(node) == "True"

    def readiness(self, node: Node) -> str:
        """The state of the condition `Ready` of a node: `True`, `False` or `Unknown`; empty without the node."""
        return self.kubectl("get", "node", node.name, "--output", _READY, check=False)

    @property
    def spark_settings(self) -> dict[str, str]:
        """The settings of a job that fits on the node."""
        return {
            "spark.kubernetes.container.image": "localhost/spark:1",
            "spark.kubernetes.container.image.pullPolicy": "Never",
            "spark.kubernetes.authenticate.driver.serviceAccountName": "spark",
            "spark.kubernetes.driver.request.cores": "0.2",
            "spark.kubernetes.executor.request.cores": "0.2",
            # The variable PYSPARK_PYTHON of the tests names a path that the pods do not have.
            "spark.pyspark.python": "python3",
        }

    def submission_from_the_node(self, folder: Path) -> NodeSubmission:
        """The submission of a driver that runs on the node, outside of pods. The pods reach no other address."""
        program = folder / "spark-submit"
        spark_submit = Path(sys.executable).with_name("spark-submit")
        program.write_text(f'#!/bin/sh\nexec {" ".join(in_network(str(spark_submit)))} "$@"\n')
        program.chmod(0o755)
        return NodeSubmission(
            master=f"k8s://https://127.0.0.1:{_PORT}",
            kubeconfig=self.kubeconfig_of(_CLIENT_WORKER),
            program=program,
            host=_NODE,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSubmission:
    """A submission in client mode.

    `program` is a `spark-submit` that runs on the node, and `host` is the address of the node. The account in
    `kubeconfig` has the permissions that the documentation gives to a worker in client mode.
    """

    master: str
    kubeconfig: Path
    program: Path
    host: str


@contextmanager
def kubernetes_cluster(folder: Path) -> Iterator[KubernetesCluster]:
    """Run a cluster in `folder`."""
    (outside_port,) = free_ports(1)
    kernel_settings = _read_kernel_settings()
    run("ip", "netns", "add", NETWORK)
    networks_before = _networks_of_pods()
    try:
        run(*in_network("ip", "link", "set", "lo", "up"))
        # The service `kubernetes` is the only one with an address that pods use, so kube-proxy is not necessary.
        for address in (_NODE, _SECOND_NODE, _API):
            run(*in_network("ip", "address", "add", f"{address}/32", "dev", "lo"))
        run(*in_network("sysctl", "-qw", "net.ipv4.ip_forward=1"))
        _create_keys(folder / "keys")
        kubeconfigs = {port: _write_kubeconfig(folder, port) for port in (_PORT, outside_port)}
        _write_configuration_of_dns(folder)
        with ServerProcesses(folder / "logs") as processes:
            cluster = KubernetesCluster(
                master=f"k8s://https://127.0.0.1:{outside_port}",
                kubeconfig=kubeconfigs[outside_port],
                folder=folder,
                processes=processes,
            )
            try:
                _start_servers(cluster, kubeconfigs[_PORT], outside_port)
                yield cluster
            finally:
                _end_pods(cluster)
    finally:
        run("ip", "netns", "del", NETWORK)
        for network in _networks_of_pods() - networks_before:
            run("ip", "netns", "del", network, check=False)
        _clean_up(folder)
        for name, value in kernel_settings.items():
            run("sysctl", "-qw", f"{name}={value}")


def _start_servers(cluster: KubernetesCluster, kubeconfig: Path, outside_port: int) -> None:
    folder, processes = cluster.folder, cluster.processes
    keys = folder / "keys"
    environ = program_environment()
    kubernetes = str(BUILD / "bin" / "kubernetes")

    def start(name: str, *command: str) -> None:
        processes.start(name, in_network(*command), environ)

    start("etcd", str(BUILD / "bin" / "etcd"), "--data-dir", str(folder / "etcd"), "--unsafe-no-fsync")
    start(
        "apiserver",
        kubernetes,
        "kube-apiserver",
        "--etcd-servers=http://127.0.0.1:2379",
        f"--service-cluster-ip-range={_SERVICES}",
        f"--advertise-address={_NODE}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--secure-port={_PORT}",
        f"--tls-cert-file={keys}/server.crt",
        f"--tls-private-key-file={keys}/server.key",
        f"--client-ca-file={keys}/ca.crt",
        f"--kubelet-client-certificate={keys}/admin.crt",
        f"--kubelet-client-key={keys}/admin.key",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={keys}/accounts.key",
        f"--service-account-signing-key-file={keys}/accounts.key",
        "--authorization-mode=RBAC",
        f"--cert-dir={folder / 'run'}",
    )
    namespace_file = f"/run/netns/{NETWORK}"
    start("service", sys.executable, _FORWARDER, f"{_API}:443", str(_PORT))
    processes.start(
        "forwarder",
        [sys.executable, _FORWARDER, f"127.0.0.1:{outside_port}", str(_PORT), namespace_file],
        os.environ,
    )
    processes.wait_until(
        "The API server is ready", lambda: "ok" in cluster.kubectl("get", "--raw", "/readyz", check=False)
    )
    start(
        "manager",
        kubernetes,
        "kube-controller-manager",
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--use-service-account-credentials",
        f"--service-account-private-key-file={keys}/accounts.key",
        f"--root-ca-file={keys}/ca.crt",
    )
    start("scheduler", kubernetes, "kube-scheduler", f"--kubeconfig={kubeconfig}", "--leader-elect=false")
    start("coredns", str(BUILD / "bin" / "coredns"), "-conf", str(folder / "Corefile"))
    cluster.node(1).start(processes, kubeconfig)
    processes.wait_until("The node is ready", lambda: cluster.is_ready(cluster.node(1)))
    _create_accounts(cluster)


def _create_accounts(cluster: KubernetesCluster) -> None:
    """Create the accounts that the documentation describes, and their kubeconfigs."""
    cluster.kubectl("apply", "--filename", str(CHECKOUT / "deployments" / "kubernetes" / "rbac.yaml"))
    cluster.kubectl("create", "namespace", _AIRFLOW_NAMESPACE)
    cluster.kubectl(
        *("create", "rolebinding", "client-workers", "--role=spark-driver"),
        f"--serviceaccount={_AIRFLOW_NAMESPACE}:{_CLIENT_WORKER}",
    )
    in_namespace = ("--namespace", _AIRFLOW_NAMESPACE)
    for account in (_WORKER, _TRIGGERER, _CLIENT_WORKER):
        cluster.kubectl("create", "serviceaccount", account, *in_namespace)
        token = cluster.kubectl("create", "token", account, *in_namespace, "--duration=24h").strip()
        kubeconfig = json.loads(cluster.kubeconfig.read_text())
        kubeconfig["users"][0]["user"] = {"token": token}
        if account == _CLIENT_WORKER:  # it runs on the node
            kubeconfig["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{_PORT}"
        cluster.kubeconfig_of(account).write_text(json.dumps(kubeconfig))
    cluster.processes.wait_until(
        "The default account exists",
        lambda: "default" in cluster.kubectl("get", "serviceaccounts", check=False),
    )


def _end_pods(cluster: KubernetesCluster) -> None:
    """Delete the pods, then end the node with the remaining containers."""
    cluster.kubectl("delete", "pods", "--all", "--grace-period=1", "--timeout=20s", check=False)
    cluster.node(1).crash(cluster.processes)


def _clean_up(folder: Path) -> None:
    """Unmount the mounts of the kubelet and of containerd, and remove the control groups of the pods."""
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for mount in sorted((mount for mount in mounts if mount.startswith(f"{folder}/")), reverse=True):
        run("umount", mount, check=False)
    # The pods of the second node are in `k8s.io`, where containerd puts containers without a parent.
    patterns = ("*kubepods*", "k8s.io")
    groups = [group for name in patterns for group in Path("/sys/fs/cgroup").rglob(name) if group.is_dir()]
    for group in groups:
        for child in sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True):
            with suppress(OSError):
                child.rmdir()
        with suppress(OSError):
            group.rmdir()


def _networks_of_pods() -> set[str]:
    """The network namespaces of pods, which stay if containers end without the kubelet."""
    return {file.name for file in Path("/run/netns").glob("cni-*")}


def _create_keys(folder: Path) -> None:
    """Create the keys and certificates. They are RSA keys, because Spark's client cannot read openssl's EC keys."""
    folder.mkdir(parents=True)

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    authority = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=tests"]
    openssl(*authority, "-keyout", "ca.key", "-out", "ca.crt")
    openssl("genrsa", "-out", "accounts.key", "2048")
    service = "kubernetes.default.svc"
    names = [f"IP:{address}" for address in ("127.0.0.1", _NODE, _API)]
    names += [f"DNS:{name}" for name in ("localhost", "kubernetes", service, f"{service}.cluster.local")]
    certificates = {
        "server": ("/CN=kube-apiserver", f"subjectAltName={','.join(names)}"),
        "admin": ("/O=system:masters/CN=admin", "extendedKeyUsage=clientAuth"),
    }
    for name, (subject, extension) in certificates.items():
        (folder / f"{name}.ext").write_text(extension)
        request = ["req", "-newkey", "rsa:2048", "-nodes", "-subj", subject]
        openssl(*request, "-keyout", f"{name}.key", "-out", f"{name}.csr")
        signature = ["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "30"]
        openssl("x509", "-req", "-in", f"{name}.csr", *signature, "-out", f"{name}.crt", "-extfile", f"{name}.ext")


def _write_kubeconfig(folder: Path, port: int) -> Path:
    """Write the kubeconfig of an administrator who connects to this port."""

    def encoded(name: str) -> str:
        return base64.b64encode((folder / "keys" / name).read_bytes()).decode()

    server = {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": encoded("ca.crt")}
    user = {"client-certificate-data": encoded("admin.crt"), "client-key-data": encoded("admin.key")}
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "tests", "cluster": server}],
        "users": [{"name": "tests", "user": user}],
        "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests", "namespace": NAMESPACE}}],
        "current-context": "tests",
    }
    file = folder / f"kubeconfig-{port}"
    file.write_text(json.dumps(kubeconfig))
    return file


def _write_configuration_of_dns(folder: Path) -> None:
    """Write the configuration of CoreDNS."""
    (folder / "Corefile").write_text(
        f""".:53 {{
    bind {_NODE}
    errors
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {folder}/kubeconfig-{_PORT} tests
        ttl 5
    }}
}}
"""
    )


def _read_kernel_settings() -> dict[str, str]:
    return {name: run("sysctl", "--values", name).stdout.strip() for name in _KERNEL_SETTINGS}
