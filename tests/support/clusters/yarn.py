"""A YARN cluster with HDFS: NameNode, DataNode, ResourceManager and two NodeManagers.

Each NodeManager has a separate loopback address, because Spark runs no two attempts of a task on one host.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import requests

from tests.support.clusters.processes import ServerProcesses
from tests.support.clusters.standalone import SPARK_HOME
from tests.support.ports import free_ports
from tests.support.remote import hadoop_jars

_NODES = 2
# The main classes of Spark in the containers of an application.
_DRIVER = "org.apache.spark.deploy.yarn.ApplicationMaster"
_EXECUTOR = "org.apache.spark.executor.YarnCoarseGrainedExecutorBackend"
_NODE_PATTERN = re.compile(r"/node(\d)/")  # in the path of a container's folder
AGGREGATED_LOGS = "/aggregated-logs"
"""The folder of HDFS for the logs of ended applications, if the cluster aggregates logs."""
_LOG_SERVER_PATH = "/ws/v1/applicationhistory"
_LOG4J = """\
log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{1}: %m%n
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class YarnCluster:
    """A running cluster.

    - `hdfs`: the address of the file system.
    - `name_node_page` and `resource_manager`: the HTTP addresses of the NameNode and of the ResourceManager.
    - `log_server`: the address of the log server. Only a cluster that aggregates logs runs it.
    - `folder`: the folder of the servers: their files, logs and containers.
    - `configuration`: the folder of Hadoop's configuration files.
    - `processes`: the servers `namenode`, `datanode`, `resourcemanager`, `nodemanager1` and `nodemanager2`, and
      `logserver` if the cluster aggregates logs.
    """

    hdfs: str
    name_node_page: str
    resource_manager: str
    log_server: str
    folder: Path
    configuration: Path
    processes: ServerProcesses

    @property
    def spark_settings(self) -> dict[str, str]:
        """The settings of a job: the jars and the Python of this environment, which the nodes have too."""
        return {
            "spark.yarn.jars": f"local:{SPARK_HOME / 'jars'}/*",
            "spark.pyspark.python": sys.executable,
        }

    def write_yarn_program(self, folder: Path) -> Path:
        """Write a program `yarn` to a folder. It runs the class of Hadoop's `yarn application`, which Spark has too."""
        program = folder / "yarn"
        main_class = "org.apache.hadoop.yarn.client.cli.ApplicationCLI"
        program.write_text(f'#!/bin/sh\nexec java -cp "{self.configuration}:{SPARK_HOME}/jars/*" {main_class} "$@"\n')
        program.chmod(0o755)
        return program

    def applications(self) -> list[dict[str, Any]]:
        """All applications, as the ResourceManager describes them."""
        answer = _get(f"{self.resource_manager}/ws/v1/cluster/apps")
        return (answer.get("apps") or {}).get("app", [])

    def node_with_executors_only(self, application_id: str) -> str:
        """The name of the NodeManager that runs executors of an application, but not its driver."""
        (node,) = _nodes_of(application_id, _EXECUTOR) - _nodes_of(application_id, _DRIVER)
        return node

    def node_with_driver(self, application_id: str) -> str:
        """The name of the NodeManager that runs the driver of an application."""
        (node,) = _nodes_of(application_id, _DRIVER)
        return node

    @contextmanager
    def crashed_node(self, name: str) -> Iterator[None]:
        """Send SIGKILL to a NodeManager and to all processes in its containers, as the crash of a machine ends them.

        The end of the context starts the NodeManager again.
        """
        self.processes.kill(name)  # first, so that it does not report the ends of its containers
        for process_id in self._processes_in_containers(name):
            with suppress(ProcessLookupError):  # the end of another process has ended it
                os.kill(process_id, signal.SIGKILL)
        try:
            yield
        finally:
            self.start_node_manager_again(name)

    def _processes_in_containers(self, name: str) -> list[int]:
        """The ids of the processes whose working folder is below the folder of a NodeManager."""
        folder = self.folder / name.replace("manager", "") / "local"
        process_ids = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # the process has ended
                if Path(os.readlink(process / "cwd")).is_relative_to(folder):
                    process_ids.append(int(process.name))
        return process_ids

    def container_logs(self) -> list[str]:
        """The log files of all containers. Every user can read them from the NodeManagers."""
        nodes = _get(f"{self.resource_manager}/ws/v1/cluster/nodes")["nodes"]["node"]
        texts = []
        for node in nodes:
            address = f"http://{node['nodeHTTPAddress']}/ws/v1/node/containers"
            for container in (_get(address).get("containers") or {}).get("container", []):
                logs = f"{address}/{container['id']}/logs"
                # A container may end in the meantime.
                answer = requests.get(logs, headers={"Accept": "application/json"}, timeout=60)
                groups = answer.json()["containerLogsInfo"] if answer.ok else []
                for group in groups if isinstance(groups, list) else [groups]:
                    names = [entry["fileName"] for entry in group.get("containerLogInfo", [])]
                    texts += [requests.get(f"{logs}/{name}", timeout=60).text for name in names]
        return texts

    def kill_driver(self, application_id: str) -> None:
        """Send SIGKILL to the JVM of an application's driver."""
        for process_id, _ in _containers_of(application_id, _DRIVER):
            os.kill(process_id, signal.SIGKILL)

    def start_node_manager_again(self, name: str) -> None:
        """Start a killed NodeManager again, and wait until the ResourceManager knows it."""
        self.processes.start_again(name)
        self.wait_for_nodes()

    def wait_for_nodes(self) -> None:
        """Wait until all NodeManagers are active."""
        metrics = f"{self.resource_manager}/ws/v1/cluster/metrics"
        self.processes.wait_until("YARN started", lambda: _get(metrics)["clusterMetrics"]["activeNodes"] == _NODES)

    def permissions_in(self, path: str) -> dict[str, str]:
        """The permissions of the files and folders in a folder of HDFS, in octal digits, by their names."""
        return {entry["pathSuffix"]: entry["permission"] for entry in self._entries(path)}

    def files_below(self, path: str) -> list[str]:
        """The names of all files below a folder of HDFS, sorted; empty if the folder does not exist."""
        names = []
        for entry in self._entries(path):
            name = entry["pathSuffix"]
            is_folder = entry["type"] == "DIRECTORY"
            names += [f"{name}/{below}" for below in self.files_below(f"{path}/{name}")] if is_folder else [name]
        return sorted(names)

    def _entries(self, path: str) -> list[dict[str, Any]]:
        """The content of a folder of HDFS, as the NameNode describes it; empty if the folder does not exist."""
        try:
            answer = _get(f"{self.name_node_page}/webhdfs/v1{path}?op=LISTSTATUS&user.name=root")
        except urllib.error.HTTPError as error:
            if error.code != HTTPStatus.NOT_FOUND:
                raise
            return []
        entries: list[dict[str, Any]] = answer["FileStatuses"]["FileStatus"]
        return entries

    def write(self, path: str, content: bytes, *, modified_s: float) -> None:
        """Write a file of HDFS, and set its modification time, in seconds since 1970."""
        # The NameNode redirects to the DataNode.
        self._put(path, "CREATE", content)
        self._put(path, f"SETTIMES&modificationtime={modified_s * 1000:.0f}")

    def create_folder(self, path: str, *, permission: str = "755") -> None:
        """Create a folder of HDFS."""
        self._put(path, f"MKDIRS&permission={permission}")

    def forbid_growth(self, path: str) -> None:
        """Let a folder of HDFS contain no more than a byte."""
        self._put(path, "SETQUOTA&storagespacequota=1")

    def read(self, path: str) -> bytes:
        """The content of a file of HDFS."""
        with urllib.request.urlopen(f"{self.name_node_page}/webhdfs/v1{path}?op=OPEN&user.name=root") as answer:
            return answer.read()

    def delete(self, path: str) -> None:
        """Delete a file of HDFS."""
        url = f"{self.name_node_page}/webhdfs/v1{path}?op=DELETE&user.name=root"
        requests.delete(url, timeout=60).raise_for_status()

    def _put(self, path: str, operation: str, content: bytes = b"") -> None:
        url = f"{self.name_node_page}/webhdfs/v1{path}?op={operation}&user.name=root"
        requests.put(url, data=content, timeout=60).raise_for_status()


@contextmanager
def yarn_cluster(folder: Path, *, aggregates_logs: bool = False) -> Iterator[YarnCluster]:
    """Run a cluster in `folder`.

    With `aggregates_logs`, a NodeManager moves the logs of an ended application to HDFS, and a log server reads them.
    """
    jars = ":".join(hadoop_jars("yarn"))
    configuration = folder / "conf"
    # The servers of HDFS need the folders of their web pages, which the jars do not contain.
    for pages in ("hdfs", "datanode"):
        (configuration / "webapps" / pages).mkdir(parents=True)
    ports = iter(free_ports(40))
    hdfs, page = f"hdfs://127.0.0.1:{next(ports)}", f"127.0.0.1:{next(ports)}"
    resource_manager = f"127.0.0.1:{next(ports)}"
    sites = _sites(folder, ports, hdfs=hdfs, page=page, resource_manager=resource_manager)
    log_server = f"127.0.0.1:{next(ports)}"
    if aggregates_logs:
        sites["yarn-site"] |= _settings_of_aggregation(log_server, ports)
    write_sites(configuration, sites)
    environ = os.environ | {"HADOOP_CONF_DIR": str(configuration), "SPARK_LOCAL_IP": "127.0.0.1"}

    def java(heap: str, main: str, *arguments: str, conf: Path = configuration) -> list[str]:
        options = [f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        options += ["--add-opens=java.base/java.lang=ALL-UNNAMED"]
        return ["java", *options, "-cp", f"{conf}:{jars}", f"org.apache.hadoop.{main}", *arguments]

    name_node = "hdfs.server.namenode.NameNode"
    subprocess.run(java("256m", name_node, "-format", "-nonInteractive"), env=environ, check=True, capture_output=True)
    with ServerProcesses(folder / "logs") as processes:
        processes.start("namenode", java("256m", name_node), environ)
        processes.start("datanode", java("256m", "hdfs.server.datanode.DataNode"), environ)
        processes.start("resourcemanager", java("384m", "yarn.server.resourcemanager.ResourceManager"), environ)
        for number in range(1, _NODES + 1):
            node_conf = folder / f"conf{number}"
            node_conf.mkdir()
            host = f"127.0.0.{number}"
            write_sites(node_conf, _node_sites(configuration, folder / f"node{number}", host, ports))
            node_manager = "yarn.server.nodemanager.NodeManager"
            environ_of_node = environ | {"HADOOP_CONF_DIR": str(node_conf), "SPARK_LOCAL_IP": host}
            processes.start(f"nodemanager{number}", java("256m", node_manager, conf=node_conf), environ_of_node)
        bean = "Hadoop:service=NameNode,name=FSNamesystemState"
        processes.wait_until(
            "HDFS started",
            lambda: [b["NumLiveDataNodes"] for b in _get(f"http://{page}/jmx?qry={bean}")["beans"]] == [1],
        )
        cluster = YarnCluster(
            hdfs=hdfs,
            name_node_page=f"http://{page}",
            resource_manager=f"http://{resource_manager}",
            log_server=f"http://{log_server}",
            folder=folder,
            configuration=configuration,
            processes=processes,
        )
        cluster.wait_for_nodes()
        if aggregates_logs:
            history_server = "yarn.server.applicationhistoryservice.ApplicationHistoryServer"
            processes.start("logserver", java("256m", history_server), environ)
            processes.wait_until(
                "The log server started", lambda: _get(f"http://{log_server}{_LOG_SERVER_PATH}/about") != {}
            )
        yield cluster


def write_sites(folder: Path, sites: Mapping[str, Mapping[str, str]]) -> None:
    """Write Hadoop's configuration files. `sites` has the properties of each file by the file's name without `.xml`."""
    (folder / "log4j.properties").write_text(_LOG4J)
    for name, properties in sites.items():
        lines = [
            f"<property><name>{escape(key)}</name><value>{escape(value)}</value></property>"
            for key, value in properties.items()
        ]
        (folder / f"{name}.xml").write_text("\n".join(["<configuration>", *lines, "</configuration>"]))


def _sites(
    folder: Path, ports: Iterator[int], *, hdfs: str, page: str, resource_manager: str
) -> dict[str, dict[str, str]]:
    scheduler = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler"
    return {
        "core-site": {"fs.defaultFS": hdfs, "hadoop.tmp.dir": str(folder / "data")},
        "hdfs-site": {
            "dfs.namenode.rpc-bind-host": "127.0.0.1",
            "dfs.namenode.http-address": page,
            "dfs.datanode.address": f"127.0.0.1:{next(ports)}",
            "dfs.datanode.http.address": f"127.0.0.1:{next(ports)}",
            "dfs.datanode.ipc.address": f"127.0.0.1:{next(ports)}",
            "dfs.datanode.hostname": "127.0.0.1",
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            "dfs.replication": "1",
            "dfs.namenode.fs-limits.min-block-size": "0",
        },
        "yarn-site": {
            "yarn.resourcemanager.hostname": "127.0.0.1",
            "yarn.resourcemanager.webapp.address": resource_manager,
            "yarn.resourcemanager.address": f"127.0.0.1:{next(ports)}",
            "yarn.resourcemanager.scheduler.address": f"127.0.0.1:{next(ports)}",
            "yarn.resourcemanager.resource-tracker.address": f"127.0.0.1:{next(ports)}",
            "yarn.resourcemanager.admin.address": f"127.0.0.1:{next(ports)}",
            "yarn.resourcemanager.scheduler.class": scheduler,
            # Each heartbeat of a node starts and ends containers. The default is a second.
            "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "200",
            "yarn.scheduler.minimum-allocation-mb": "128",
            "yarn.scheduler.maximum-allocation-mb": "4096",
            "yarn.nodemanager.resource.memory-mb": "4096",
            "yarn.nodemanager.resource.cpu-vcores": "8",
            "yarn.nodemanager.vmem-check-enabled": "false",  # A JVM reserves far more memory than it uses.
            # By default a disk that is 90 % full makes a node unhealthy, and nothing is scheduled.
            "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.5",
            "yarn.nodemanager.disk-health-checker.min-free-space-per-disk-mb": "0",
            "yarn.nm.liveness-monitor.expiry-interval-ms": "20000",
            # Otherwise a NodeManager copies the start script of a container, with its variables, into the logs.
            "yarn.nodemanager.log-container-debug-info.enabled": "false",
            "yarn.nodemanager.env-whitelist": "JAVA_HOME,HADOOP_CONF_DIR,SPARK_LOCAL_IP",
        },
        "capacity-scheduler": {
            "yarn.scheduler.capacity.root.queues": "default",
            "yarn.scheduler.capacity.root.default.capacity": "100",
            # By default all drivers share 10 % of the memory. One small driver takes it, so the next one would wait.
            "yarn.scheduler.capacity.maximum-am-resource-percent": "0.8",
            # One container for each heartbeat of a node, so that the two executors run on both nodes.
            "yarn.scheduler.capacity.per-node-heartbeat.multiple-assignments-enabled": "false",
        },
    }


def _settings_of_aggregation(log_server: str, ports: Iterator[int]) -> dict[str, str]:
    """The settings of log aggregation. The log server is the history server of YARN's timeline service."""
    return {
        "yarn.log-aggregation-enable": "true",
        "yarn.nodemanager.remote-app-log-dir": AGGREGATED_LOGS,
        "yarn.log.server.web-service.url": f"http://{log_server}{_LOG_SERVER_PATH}",
        "yarn.timeline-service.webapp.address": log_server,
        "yarn.timeline-service.address": f"127.0.0.1:{next(ports)}",
        "yarn.timeline-service.bind-host": "127.0.0.1",
        "yarn.timeline-service.store-class": "org.apache.hadoop.yarn.server.timeline.MemoryTimelineStore",
    }


def _node_sites(configuration: Path, folder: Path, host: str, ports: Iterator[int]) -> dict[str, dict[str, str]]:
    """The configuration of one NodeManager: the cluster's, with the address, the ports and the folders of the node."""
    sites = {
        name: {
            str(entry.findtext("name")): str(entry.findtext("value"))
            for entry in ET.parse(configuration / f"{name}.xml").iter("property")
        }
        for name in ("core-site", "hdfs-site", "yarn-site")
    }
    sites["yarn-site"] |= {
        "yarn.nodemanager.hostname": host,
        "yarn.nodemanager.bind-host": host,
        "yarn.nodemanager.address": f"{host}:{next(ports)}",
        "yarn.nodemanager.localizer.address": f"{host}:{next(ports)}",
        "yarn.nodemanager.collector-service.address": f"{host}:{next(ports)}",
        "yarn.nodemanager.webapp.address": f"{host}:{next(ports)}",
        "yarn.nodemanager.local-dirs": str(folder / "local"),
        "yarn.nodemanager.log-dirs": str(folder / "logs"),
    }
    return sites


def _nodes_of(application_id: str, main_class: str) -> set[str]:
    """The names of the NodeManagers that run this class for an application."""
    return {node for _, node in _containers_of(application_id, main_class)}


def _containers_of(application_id: str, main_class: str) -> list[tuple[int, str]]:
    """The JVMs that run this class for an application: their process ids, and the names of their NodeManagers.

    The folder of a NodeManager has the folders of its containers.
    """
    containers = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (process / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
            folder = os.readlink(process / "cwd")
        except OSError:  # the process has ended
            continue
        node = _NODE_PATTERN.search(folder)
        if node and main_class in arguments and f"/{application_id}/" in folder:
            containers.append((int(process.name), f"nodemanager{node[1]}"))
    return containers


def _get(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.load(answer)
