"""The cost of deferred sensors: the CPU time of a real triggerer with 200 sensors, compared with an idle triggerer.

The sensors are deferred tasks of a real DAG run in a separate database. Each sensor waits for a separate table with
twenty commits, and polls it every 30 s. The tables are on the local disk. With `--s3` they are on an S3 server of this
machine, and the triggerer opens them with an Airflow connection. No other process of Airflow runs.

After all triggers have started, the benchmark measures the CPU time of the triggerer's processes as a share of one
core. The share of the sensors is the share of this triggerer minus the share of the idle triggerer.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

from benchmarks.triggerer import share_of_a_core  # noqa: E402
from deltalite.protocol.file_names import commit_name  # noqa: E402
from deltalite.storage.local import LocalLogStore  # noqa: E402
from tests.support.airflow_processes import WholeAirflow  # noqa: E402
from tests.support.remote import BUCKET, S3, s3_server  # noqa: E402

COMMITS = 20
DAG = """
from airflow.sdk import DAG
from airflow_provider_deltalite.sensors.delta import DeltaVersionSensor

with DAG("waiting", schedule=None):
    for n in range({count}):
        DeltaVersionSensor(task_id=f"wait_{{n}}", table=f"{lake}/{{n}}", deferrable=True)
"""
# Defers the tasks in place of the scheduler and the workers, in a separate process with Airflow's environment.
DEFER_PROGRAM = """
import json
import sys
from datetime import UTC, datetime, timedelta

from airflow.models.taskinstance import TaskInstance
from airflow.models.trigger import Trigger
from airflow.utils.session import create_session
from airflow_provider_deltalite.triggers.delta import DeltaVersionTrigger
from deltalite import watch
from deltalite.conditions import CommitCondition
from deltalite.storage.opening import open_store
from sqlalchemy import select

lake, interval, conn_id, options = sys.argv[1], float(sys.argv[2]), sys.argv[3] or None, json.loads(sys.argv[4])
with create_session() as session:
    for task in session.scalars(select(TaskInstance).where(TaskInstance.dag_id == "waiting")):
        table = f"{lake}/{task.task_id.removeprefix('wait_')}"
        store = open_store(table, storage_options=options or None)
        position = watch.position_at(store, watch.latest_version(store))
        path, kwargs = DeltaVersionTrigger(
            table=table, after_version=position.version, condition=CommitCondition().as_dict(),
            place=position.as_dict(), poke_interval=interval, storage_conn_id=conn_id,
        ).serialize()
        trigger = Trigger(classpath=path, kwargs=kwargs)
        session.add(trigger)
        session.flush()
        task.state, task.trigger_id = "deferred", trigger.id
        task.next_method, task.trigger_timeout = "execute_complete", datetime.now(UTC) + timedelta(days=1)
"""


class DiskLake:
    """Tables in a folder of the local disk, which need no connection."""

    conn_id, options = "", {}

    def __init__(self, folder: Path) -> None:
        self.address = str(folder)

    def write_commit(self, table: int, version: int) -> None:
        """Write a commit atomically."""
        store = LocalLogStore(f"{self.address}/{table}")
        Path(store.root, "_delta_log").mkdir(parents=True, exist_ok=True)
        store.write(commit_name(version), commit_content(table, version))

    def add_connection(self, airflow: WholeAirflow) -> None:
        """Do nothing, because local tables need no connection."""


class S3Lake:
    """Tables in a bucket of an S3 server, with an Airflow connection."""

    address, conn_id = f"s3://{BUCKET}", "lake_on_s3"

    def __init__(self, s3: S3) -> None:
        self._client, self.options = s3.client, s3.fsspec_options
        self._connection = json.dumps(s3.airflow_connection())

    def write_commit(self, table: int, version: int) -> None:
        """Write a commit atomically."""
        key = f"{table}/{commit_name(version)}"
        self._client.put_object(Bucket=BUCKET, Key=key, Body=commit_content(table, version))

    def add_connection(self, airflow: WholeAirflow) -> None:
        """Put the connection into Airflow's database."""
        airflow.cli("connections", "add", self.conn_id, "--conn-json", self._connection, timeout=300)


def commit_content(table: int, version: int) -> bytes:
    """Return the content of a commit. It names a data file that does not exist, because sensors read only the log."""
    schema = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    metadata = {"id": str(table), "format": {"provider": "parquet"}, "schemaString": json.dumps(schema)}
    first_actions = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {**metadata, "partitionColumns": [], "configuration": {}}},
    ]
    add = {"path": "a.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    later_actions = [{"commitInfo": {"timestamp": version, "operation": "WRITE"}}, {"add": add}]
    lines = [json.dumps(action) for action in (first_actions if version == 0 else later_actions)]
    return ("\n".join(lines) + "\n").encode()


@contextlib.contextmanager
def s3_lake() -> Iterator[S3Lake]:
    """Run an S3 endpoint during the block, and yield tables in its bucket."""
    with s3_server() as s3:
        yield S3Lake(s3)


def main() -> None:
    """Measure an idle triggerer and one with sensors, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sensors", type=int, default=200)
    parser.add_argument("--interval", type=float, default=30.0, help="seconds between two polls of a sensor")
    parser.add_argument("--seconds", type=float, default=180.0, help="seconds for which each triggerer is measured")
    parser.add_argument("--s3", action="store_true", help="use tables on S3, opened by a connection")
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="deltalite-sensors-")))
        lake = stack.enter_context(s3_lake()) if arguments.s3 else DiskLake(home / "lake")
        airflow = WholeAirflow(home / "airflow")
        for folder in (airflow.dags, airflow.logs, airflow.process_logs):
            folder.mkdir(parents=True)
        for table in range(arguments.sensors):
            for version in range(COMMITS):
                lake.write_commit(table, version)
        airflow.cli("db", "migrate", timeout=300)
        lake.add_connection(airflow)
        idle_share = share_of_a_core(airflow, 0, arguments.seconds)
        (airflow.dags / "waiting.py").write_text(DAG.format(count=arguments.sensors, lake=lake.address))
        airflow.cli("dags", "reserialize", timeout=300)
        airflow.cli("dags", "trigger", "waiting", timeout=300)
        parameters = [lake.address, str(arguments.interval), lake.conn_id, json.dumps(lake.options)]
        subprocess.run([sys.executable, "-c", DEFER_PROGRAM, *parameters], env=airflow.environment, check=True)

        def commit_to_all_tables() -> None:
            for table in range(arguments.sensors):
                lake.write_commit(table, COMMITS)

        busy_share = share_of_a_core(airflow, arguments.sensors, arguments.seconds, end_waits=commit_to_all_tables)
    sensors_share = busy_share - idle_share
    poll_ms = sensors_share * arguments.interval / arguments.sensors * 1000
    print(f"{'triggerer':<42} {'share of a core':>15}")
    print(f"{'without a sensor':<42} {idle_share:>15.1%}")
    print(f"{f'with {arguments.sensors}, each polling every {arguments.interval:.0f} s':<42} {busy_share:>15.1%}")
    print(f"{'the sensors':<42} {sensors_share:>15.1%}")
    print(f"{'a poll':<42} {poll_ms:>12.2f} ms")


if __name__ == "__main__":
    main()
