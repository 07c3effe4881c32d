"""Deferred and rescheduled sensors wait for the commit of another task, on a local table and on S3."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake

from tests.support.remote import BUCKET, s3_server

pytestmark = [pytest.mark.airflow, pytest.mark.interop, pytest.mark.slow, pytest.mark.campaign]

ROWS = pa.table({"id": pa.array(range(10))})

DAG = """
from datetime import timedelta
from airflow.sdk import DAG
from airflow_provider_deltalite.sensors.delta import DeltaVersionSensor

LOCAL = {"table": "{{ var.value.lake }}/customers"}
ON_S3 = {"table": "s3a://lake/customers", "storage_conn_id": "lake_on_s3"}
with DAG("waits", schedule=None, default_args={"retries": 2, "retry_delay": timedelta(0)}):
    for place, table in {"local": LOCAL, "s3": ON_S3}.items():
        for mode, parameters in {"deferred": {"deferrable": True}, "rescheduled": {"mode": "reschedule"}}.items():
            DeltaVersionSensor(
                task_id=f"{mode}_{place}", poke_interval=2, **table, **parameters,
                app_id="{{ macros.deltalite.app_id_of('load', dag_id='feeds', run_id=run_id) }}",
            )
    DeltaVersionSensor(
        task_id="started_in_triggerer", poke_interval=2,
        table="{{ var.value.lake }}/customers", after_version="{{ 0 }}",
        app_id="{{ macros.deltalite.app_id_of('load', dag_id='feeds', run_id=run_id) }}",
        deferrable=True, start_from_trigger=True,
    )
"""


@pytest.fixture
def s3(whole_airflow):
    """An S3 endpoint. Airflow's database has the connection `lake_on_s3` for it."""
    with s3_server() as server:
        connection_fields = server.airflow_connection()
        connection = {
            **connection_fields,
            "connection_id": "lake_on_s3",
            "extra": json.dumps(connection_fields["extra"]),
        }
        whole_airflow.ask("POST", "connections", connection)
        yield server


def append(table, storage_options, app_id):
    """Commit rows with another engine. The commit has a `txn` action with this app id."""
    properties = CommitProperties(app_transactions=[Transaction(app_id, 0)])
    write_deltalake(table, ROWS, mode="append", storage_options=storage_options, commit_properties=properties)


def test_a_sensor_finds_the_commit_of_another_task(whole_airflow, s3):
    airflow = whole_airflow
    tables = {
        "local": (str(airflow.home / "lake" / "customers"), None),
        "s3": (f"s3://{BUCKET}/customers", s3.delta_rs_options),
    }
    for table in tables.values():
        append(*table, "another")
    airflow.add_dag("waits", DAG)
    run_id = airflow.trigger("waits", run_id="today")
    for place in tables:
        airflow.wait_for_task("waits", run_id, f"deferred_{place}", "deferred")
        airflow.wait_for_executor_event("waits", run_id, f"deferred_{place}")
        airflow.wait_for_task("waits", run_id, f"rescheduled_{place}", "up_for_reschedule")
    airflow.wait_for_task("waits", run_id, "started_in_triggerer", "deferred")
    assert airflow.task("waits", run_id, "started_in_triggerer")["pid"] is None, "a worker has run the sensor"
    for table in tables.values():
        append(*table, "airflow/feeds/load/-1/yesterday")
        append(*table, "airflow/feeds/load/-1/today")
    airflow.wait_for_run("waits", run_id)
    for place in tables:
        sensor_result = airflow.xcom("waits", run_id, f"deferred_{place}")
        assert (
            sensor_result["after_version"],
            sensor_result["from_version"],
            sensor_result["version"],
            sensor_result["reset"],
        ) == (0, 1, 2, False)
        assert airflow.xcom("waits", run_id, f"rescheduled_{place}") == sensor_result
        if place == "local":
            assert airflow.xcom("waits", run_id, "started_in_triggerer") == sensor_result
