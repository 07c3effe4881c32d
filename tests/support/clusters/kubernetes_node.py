"""A node of the Kubernetes for tests: a kubelet, and a containerd with the images of the tests."""

from __future__ import annotations

import json
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.clusters.kubernetes_tools import BUILD, in_network, program_environment, run
from tests.support.clusters.processes import ServerProcesses


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node. All nodes are in one network namespace, so they reach each other's pods through their bridges.

    `number` names the node. `address` and `pods` are the addresses of the node and of its pods, and `dns` is the
    address of the pods' name server. `folder` has the files of the node. `authority` is the certificate of the
    cluster's authority. `has_control_groups` is true for one node only: its kubelet manages the control groups of pods,
    and removes all groups that it does not know.
    """

    number: int
    address: str
    pods: str
    folder: Path
    dns: str
    authority: Path
    has_control_groups: bool

    @property
    def name(self) -> str:
        """The name of the node in Kubernetes."""
        return f"node{self.number}"

    def start(self, processes: ServerProcesses, kubeconfig: Path) -> None:
        """Start the node. The caller waits until Kubernetes reports the node as ready."""
        self._write_configuration()
        environ = program_environment()
        containerd = ["containerd", "--config", str(self.folder / "containerd.toml")]
        processes.start(self._containerd, in_network(*containerd), environ)
        processes.wait_until("containerd is ready", lambda: self._ctr("version", check=False).returncode == 0)
        for image in ("pause", "spark"):
            self._ctr("images", "import", str(BUILD / "images" / f"{image}.tar"))
        kubelet = [
            *(str(BUILD / "bin" / "kubernetes"), "kubelet"),
            f"--kubeconfig={kubeconfig}",
            f"--config={self.folder / 'kubelet.yaml'}",
            f"--root-dir={self.folder / 'kubelet'}",
            f"--hostname-override={self.name}",
            f"--node-ip={self.address}",
        ]
        processes.start(self._kubelet, in_network(*kubelet), environ)

    def crash(self, processes: ServerProcesses) -> None:
        """Kill the kubelet, the containers and containerd. A second crash does nothing.

        A killed kubelet reports nothing. The containers end first, because their processes would outlive containerd.
        """
        with suppress(KeyError):
            processes.kill(self._kubelet)
        for command in (("tasks", "kill", "--signal", "KILL"), ("tasks", "rm", "--force"), ("containers", "rm")):
            containers = self._ctr(command[0], "ls", "--quiet", check=False).stdout.split()
            for container in containers:
                self._ctr(*command, container, check=False)
        with suppress(KeyError):
            processes.kill(self._containerd)

    @property
    def _kubelet(self) -> str:
        return f"kubelet of {self.name}"

    @property
    def _containerd(self) -> str:
        return f"containerd of {self.name}"

    def _ctr(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run the client of containerd."""
        socket = str(self.folder / "run" / "containerd.sock")
        client = ("ctr", "--address", socket, "--namespace", "k8s.io")
        return run(*client, *arguments, check=check, environ=program_environment())

    def _write_configuration(self) -> None:
        """Write the configuration of containerd, of the pods' network and of the kubelet."""
        folder = self.folder
        for name in ("cni", "run"):
            (folder / name).mkdir(parents=True, exist_ok=True)
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
            "ranges": [[{"subnet": self.pods}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        bridge = {"type": "bridge", "bridge": f"cni{self.number}", "isGateway": True, "ipMasq": False}
        network = {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge | {"ipam": addresses}]}
        (folder / "cni" / "10-bridge.conflist").write_text(json.dumps(network))
        (folder / "resolv.conf").touch()
        kubelet = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.address,
            "healthzPort": 0,
            "containerRuntimeEndpoint": f"unix://{folder}/run/containerd.sock",
            "cgroupDriver": "cgroupfs",
            "cgroupsPerQOS": self.has_control_groups,
            "failCgroupV1": False,
            "failSwapOn": False,
            "enforceNodeAllocatable": [],
            "clusterDNS": [self.dns],
            "clusterDomain": "cluster.local",
            "resolvConf": f"{folder}/resolv.conf",
            "podLogsDir": f"{folder}/pods",
            "makeIPTablesUtilChains": False,
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
            "imageGCHighThresholdPercent": 100,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": False},
                "x509": {"clientCAFile": str(self.authority)},
            },
            "authorization": {"mode": "AlwaysAllow"},
        }
        (folder / "kubelet.yaml").write_text(json.dumps(kubelet))
