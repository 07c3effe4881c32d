"""Fixtures of the provider's tests: tables that a test writes itself, and a stand-in for Spark.

The tests need no Spark. Only the tests that run a DAG need a metadata database. The stand-in is a real program
called `spark-submit` on the PATH. It records its arguments and its environment, and then runs the few lines of
Python that the test sets. The tests therefore run Airflow's hook, its process handling and the provider's reading of
the output. The stand-in puts the nonce of its request into the markers that it prints, as a real job does.
"""

from __future__ import annotations

import json
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.providers.cncf.kubernetes import kube_client

from airflow_provider_deltalite.clusters import pod_submission
from tests.support.airflow_versions import NEVER_EXPIRE
from tests.support.kubernetes_client import NAMESPACE, POD, KubernetesClient
from tests.support.resource_manager import ResourceManager, resource_manager

LOCAL_SPARK = '{"conn_type": "spark", "host": "local[*]"}'
_STAND_IN = """\
#!{python}
import json, os, sys
with open({call_file!r}, "w") as file:
    json.dump({{"argv": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd()}}, file)
sys.path[:0] = {path!r}
from functools import partial
from deltalite import markers
shipped_files = [path for argument in sys.argv[1:] for path in argument.split(",") if os.path.isfile(path)]
request_files = [path for path in shipped_files if os.path.basename(path) == os.path.basename(sys.argv[-1])]
nonce = markers.nonce_of(open(request_files[0]).read()) if request_files else markers.NO_NONCE
for name in ("started_marker", "result_marker", "result_markers", "question_markers", "error_marker"):
    setattr(markers, name, partial(getattr(markers, name), nonce=nonce))
with open({script!r}) as file:
    exec(file.read())
"""


class Table:
    """A Delta table whose commits a test writes action by action."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __str__(self) -> str:
        return str(self.root)

    def commit(
        self,
        version: int,
        *actions: dict,
        operation: str = "WRITE",
        timestamp: int = 1_700_000_000_000,
        user_metadata: dict | None = None,
    ) -> None:
        """Write the commit `version` with these actions. The commit stores `user_metadata` as JSON."""
        log = self.root / "_delta_log"
        log.mkdir(parents=True, exist_ok=True)
        info = {"commitInfo": {"timestamp": timestamp + version, "operation": operation, "operationMetrics": {}}}
        if user_metadata is not None:
            info["commitInfo"]["userMetadata"] = json.dumps(user_metadata)
        lines = [json.dumps(action) for action in (info, *actions)]
        (log / f"{version:020}.json").write_text("\n".join(lines) + "\n")

    def create(self, *actions: dict, partition_columns: Sequence[str] = (), **commit_options) -> None:
        """Write version 0: the protocol, the metadata and these actions. `commit()` gets `commit_options`."""
        types = {"id": "long", **dict.fromkeys(partition_columns, "string")}
        fields = [{"name": name, "type": type_, "nullable": True, "metadata": {}} for name, type_ in types.items()]
        schema = {"type": "struct", "fields": fields}
        self.commit(
            0,
            {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
            {
                "metaData": {
                    "id": "0b6d0a9e-7c5d-4d57-9a53-3c3b1d3c0f10",
                    "format": {"provider": "parquet", "options": {}},
                    "schemaString": json.dumps(schema),
                    "partitionColumns": list(partition_columns),
                    "configuration": {},
                    "createdTime": 1_700_000_000_000,
                }
            },
            *actions,
            **{"operation": "CREATE TABLE", **commit_options},
        )

    @staticmethod
    def add(*, data_change: bool = True, partition: dict | None = None) -> dict:
        """Return an `add` action. The data file that it names does not exist."""
        file = {"path": "part-00000.parquet", "size": 1, "modificationTime": 1_700_000_000_000}
        return {"add": {**file, "partitionValues": partition or {}, "dataChange": data_change}}

    @staticmethod
    def txn(app_id: str, version: int = 0) -> dict:
        """Return the `txn` action that a run adds to its commit."""
        return {"txn": {"appId": app_id, "version": version, "lastUpdated": 1_700_000_000_000}}


@pytest.fixture(scope="session")
def make_table() -> type[Table]:
    """The class `Table`, for tests with several tables and for fixtures of a module."""
    return Table


@pytest.fixture
def table(tmp_path) -> Table:
    """A table without commits, in a folder that does not exist yet."""
    return Table(tmp_path / "lake" / "orders")


@dataclass
class StandIn:
    """A stand-in for `spark-submit`.

    `set_script` sets the code that it runs. `argv` and `env` are the arguments and the environment of its last call.
    `program` is the path of the program itself. It writes its last call to `call_file`.
    """

    program: Path
    call_file: Path
    script: Path

    def set_script(self, code: str) -> None:
        self.script.write_text(textwrap.dedent(code))

    @property
    def was_called(self) -> bool:
        return self.call_file.exists()

    @property
    def argv(self) -> list[str]:
        return json.loads(self.call_file.read_text())["argv"]

    @property
    def env(self) -> dict[str, str]:
        return json.loads(self.call_file.read_text())["env"]


def make_programs(folder: Path) -> StandIn:
    """Create a folder `bin` with the stand-in and a fake Java, and return the stand-in."""
    programs = folder / "bin"
    programs.mkdir()
    stand_in = StandIn(program=programs / "spark-submit", call_file=folder / "call.json", script=folder / "scenario.py")
    stand_in.set_script("")
    stand_in.program.write_text(
        _STAND_IN.format(
            python=sys.executable,
            call_file=str(stand_in.call_file),
            script=str(stand_in.script),
            path=[folder for folder in sys.path if folder],
        )
    )
    java = programs / "java"
    java.write_text("#!/bin/sh\n")
    for program in (stand_in.program, java):
        program.chmod(0o755)
    return stand_in


@pytest.fixture(scope="session")
def make_stand_in():
    """The function `make_programs`, for tests whose worker runs in another process."""
    return make_programs


@pytest.fixture
def spark_submit(tmp_path, monkeypatch) -> StandIn:
    """A worker with a local Spark connection, and stand-ins for spark-submit and Java."""
    stand_in = make_programs(tmp_path)
    monkeypatch.setenv("PATH", str(stand_in.program.parent))
    for name in ("JAVA_HOME", "SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", LOCAL_SPARK)
    return stand_in


@pytest.fixture
def yarn(spark_submit, monkeypatch) -> Iterator[ResourceManager]:
    """A YARN cluster. The connection names its ResourceManager."""
    with resource_manager() as manager:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", manager.connection)
        yield manager


@pytest.fixture
def kubernetes(spark_submit, monkeypatch, table) -> KubernetesClient:
    """A stand-in for the API of the Kubernetes cluster that the connection names. The table exists and is empty."""
    client = KubernetesClient(POD)
    monkeypatch.setattr(kube_client, "get_kube_client", lambda *_, **__: client)
    monkeypatch.setenv("AIRFLOW__KUBERNETES_EXECUTOR__API_CLIENT_RETRY_CONFIGURATION", "{}")
    monkeypatch.setattr(pod_submission, "pod_name", lambda *_: POD)
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    extra = {"deploy-mode": "cluster", "namespace": NAMESPACE}
    connection = {"conn_type": "spark", "host": "k8s://https://k8s:443", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    table.create()
    return client


@pytest.fixture
def events_are_stored_at_once(monkeypatch) -> None:
    """Let a watcher store its position without waiting for Airflow's database."""
    monkeypatch.setattr("airflow_provider_deltalite.triggers._table._STORING_SECONDS", 0.0)


@pytest.fixture(autouse=True)
def no_pause_before_events(monkeypatch) -> None:
    """Let a sensor's trigger send its event at once, because these tests have no scheduler that stores the deferral."""
    monkeypatch.setattr("airflow_provider_deltalite.triggers._version._SETTLING_SECONDS", 0.0)


class StateStore:
    """A stand-in for Airflow's task state store, which keeps values across task attempts."""

    def __init__(self) -> None:
        self.values: dict = {}
        self.retentions: dict = {}

    def get(self, key, default=None):
        return self.values.get(key, default)

    def set(self, key, value, *, retention=None):
        assert value is not None
        self.values[key] = json.loads(json.dumps(value))
        self.retentions[key] = retention

    def delete(self, key):
        self.values.pop(key, None)


class OutletEvents:
    """A stand-in for Airflow's accessor of outlet events. It creates the event of an asset at the first access."""

    def __init__(self) -> None:
        self.events: dict = {}

    def __getitem__(self, asset):
        return self.events.setdefault(asset.name, SimpleNamespace(extra={}))

    def __setitem__(self, asset, event):
        self.events[asset.name] = event


@pytest.fixture
def context() -> dict:
    """The context of the first attempt of a task with two retries, with a state store if Airflow has one."""
    ti = SimpleNamespace(
        dag_id="sales",
        task_id="load",
        run_id="scheduled__2026-01-01T00:00:00+00:00",
        map_index=-1,
        try_number=1,
        max_tries=2,
        stats_tags={},
    )
    dag_run = SimpleNamespace(start_date=datetime.fromtimestamp(0, tz=UTC))
    # `NEVER_EXPIRE` is None if this Airflow has no task state store.
    state_entry = {} if NEVER_EXPIRE is None else {"task_state_store": StateStore()}
    return {"ti": ti, "dag_run": dag_run, "outlet_events": OutletEvents(), **state_entry}
