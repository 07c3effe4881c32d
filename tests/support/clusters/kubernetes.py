"""A Kubernetes of one node: etcd, API server, controller manager, scheduler, kubelet, containerd and CoreDNS.

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

from tests.support.clusters.processes import ServerProcesses
from tests.support.ports import free_ports

CHECKOUT = Path(__file__).resolve().parents[3]
BUILD = CHECKOUT / ".kubernetes"
NAMESPACE = "spark"  # The jobs run in this namespace.
_AIRFLOW_NAMESPACE = "airflow"
# The accounts of Airflow. `rbac.yaml` names the first two, and the documentation has the command for the third.
_WORKER, _TRIGGERER, _CLIENT_WORKER = "airflow-worker", "airflow-triggerer", "airflow-client-worker"
_NETWORK = "deltalite-kubernetes"
_NODE, _PODS, _SERVICES, _API = "10.240.0.1", "10.244.0.0/24", "10.96.0.0/16", "10.96.0.1"
_PORT = 6443  # The API server listens on this port of the network namespace.
# The kubelet changes these settings of the kernel. The end of the cluster restores them.
_KERNEL_SETTINGS = ("vm.overcommit_memory", "kernel.panic", "kernel.panic_on_oops")
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
        program.write_text(f'#!/bin/sh\nexec {" ".join(_in_network(str(spark_submit)))} "$@"\n')
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
    _run("ip", "netns", "add", _NETWORK)
    try:
        _run(*_in_network("ip", "link", "set", "lo", "up"))
        # The service `kubernetes` is the only one with an address that pods use, so kube-proxy is not necessary.
        for address in (_NODE, _API):
            _run(*_in_network("ip", "address", "add", f"{address}/32", "dev", "lo"))
        _run(*_in_network("sysctl", "-qw", "net.ipv4.ip_forward=1"))
        _create_keys(folder / "keys")
        kubeconfigs = {port: _write_kubeconfig(folder, port) for port in (_PORT, outside_port)}
        _write_configuration(folder)
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
        _run("ip", "netns", "del", _NETWORK)
        _clean_up(folder)
        for name, value in kernel_settings.items():
            _run("sysctl", "-qw", f"{name}={value}")


def _start_servers(cluster: KubernetesCluster, kubeconfig: Path, outside_port: int) -> None:
    folder, processes = cluster.folder, cluster.processes
    keys = folder / "keys"
    environ = _environ()
    kubernetes = str(BUILD / "bin" / "kubernetes")

    def start(name: str, *command: str) -> None:
        processes.start(name, _in_network(*command), environ)

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
    start("containerd", "containerd", "--config", str(folder / "containerd.toml"))
    namespace_file = f"/run/netns/{_NETWORK}"
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
    processes.wait_until("containerd is ready", lambda: _ctr(folder, "version", check=False).returncode == 0)
    for image in ("pause", "spark"):
        _ctr(folder, "images", "import", str(BUILD / "images" / f"{image}.tar"))
    start(
        "kubelet",
        kubernetes,
        "kubelet",
        f"--kubeconfig={kubeconfig}",
        f"--config={folder / 'kubelet.yaml'}",
        f"--root-dir={folder / 'kubelet'}",
        "--hostname-override=node1",
        f"--node-ip={_NODE}",
    )
    processes.wait_until(
        "The node is ready", lambda: "True" in cluster.kubectl("get", "nodes", "-o", _READY, check=False)
    )
    _create_accounts(cluster)


_READY = "jsonpath={.items[*].status.conditions[?(@.type=='Ready')].status}"


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
    """Delete the pods, then kill the remaining containers, because their processes would outlive containerd."""
    cluster.kubectl("delete", "pods", "--all", "--grace-period=1", "--timeout=20s", check=False)
    with suppress(KeyError):
        cluster.processes.kill("kubelet")
    for command in (("tasks", "kill", "--signal", "KILL"), ("tasks", "rm", "--force"), ("containers", "rm")):
        containers = _ctr(cluster.folder, command[0], "ls", "--quiet", check=False).stdout.split()
        for container in containers:
            _ctr(cluster.folder, *command, container, check=False)


def _clean_up(folder: Path) -> None:
    """Unmount the mounts of the kubelet and of containerd, and remove the control groups of the pods."""
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for mount in sorted((mount for mount in mounts if mount.startswith(f"{folder}/")), reverse=True):
        _run("umount", mount, check=False)
    groups = [group for group in Path("/sys/fs/cgroup").rglob("*kubepods*") if group.is_dir()]
    for group in groups:
        for child in sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True):
            with suppress(OSError):
                child.rmdir()
        with suppress(OSError):
            group.rmdir()


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


def _write_configuration(folder: Path) -> None:
    """Write the configuration of containerd, of the pods' network, of the kubelet and of CoreDNS."""
    for name in ("cni", "run"):
        (folder / name).mkdir()
    runtime = 'plugins."io.containerd.grpc.v1.cri"'
    (folder / "containerd.toml").write_text(
        f"""version = 2
root = "{folder}/containerd"
state = "{folder}/run/containerd"
[grpc]
  address = "{folder}/run/containerd.sock"
[{runtime}]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true # without CAP_SYS_RESOURCE, runc cannot lower the score of a process
  [{runtime}.cni]
    bin_dir = "{BUILD}/debian/usr/lib/cni"
    conf_dir = "{folder}/cni"
  [{runtime}.containerd]
    default_runtime_name = "runc"
    [{runtime}.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [{runtime}.containerd.runtimes.runc.options]
        BinaryName = "{BUILD}/debian/usr/sbin/runc"
"""
    )
    addresses = {
        "type": "host-local",
        "dataDir": f"{folder}/addresses",
        "ranges": [[{"subnet": _PODS}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": False, "ipam": addresses}
    network = {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]}
    (folder / "cni" / "10-bridge.conflist").write_text(json.dumps(network))
    (folder / "resolv.conf").touch()
    kubelet = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{folder}/run/containerd.sock",
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        "clusterDNS": [_NODE],
        "clusterDomain": "cluster.local",
        "resolvConf": f"{folder}/resolv.conf",
        "podLogsDir": f"{folder}/pods",
        "makeIPTablesUtilChains": False,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": f"{folder}/keys/ca.crt"},
        },
        "authorization": {"mode": "AlwaysAllow"},
    }
    (folder / "kubelet.yaml").write_text(json.dumps(kubelet))
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


def _environ() -> dict[str, str]:
    debian = BUILD / "debian" / "usr"
    search_path = f"{BUILD / 'bin'}:{debian / 'bin'}:{debian / 'sbin'}:{os.environ['PATH']}"
    return os.environ | {"PATH": search_path, "LD_LIBRARY_PATH": str(debian / "lib" / "x86_64-linux-gnu")}


def _ctr(folder: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run the client of containerd."""
    socket = str(folder / "run" / "containerd.sock")
    return _run("ctr", "--address", socket, "--namespace", "k8s.io", *arguments, check=check, environ=_environ())


def _in_network(*command: str) -> list[str]:
    """Return a command that runs in the network namespace. `ip netns exec` would hide /sys/fs/cgroup."""
    return ["nsenter", f"--net=/run/netns/{_NETWORK}", *command]


def _read_kernel_settings() -> dict[str, str]:
    return {name: _run("sysctl", "--values", name).stdout.strip() for name in _KERNEL_SETTINGS}


def _run(
    *command: str, check: bool = True, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    completed = subprocess.run(list(command), capture_output=True, text=True, check=False, env=environ)
    assert completed.returncode == 0 or not check, f"{command}: {completed.stderr}"
    return completed
