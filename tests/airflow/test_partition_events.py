"""The asset events of single partitions, and the DAGs that they start. Only spark-submit is a stand-in."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from types import SimpleNamespace

import airflow.sdk
import pytest
from airflow.sdk import DAG, Asset
from airflow.sdk.execution_time.context import OutletEventAccessors

from tests.airflow.dag_run_process import run_dag_program
from tests.support.stand_in_jobs import operator

pytestmark = [pytest.mark.airflow]

PROGRAM = Path(__file__).with_name("partition_events_dag_run.py")
needs_partitions_at_runtime = pytest.mark.skipif(
    not hasattr(airflow.sdk, "PartitionedAtRuntime"), reason="a task names partitions at run time since Airflow 3.3"
)
JOB_SCRIPT = """
import json
from deltalite.markers import result_marker
from deltalite.results import AuditResult, OperationResult
audit = AuditResult(
    name="customers", kind="rows", on="new_rows", level="warn", passed=False, measured=3, threshold="max_rows=0", rows=9
)
print(result_marker(OperationResult(
    table=json.load(open(sys.argv[-1]))["table"],
    operation="WRITE", version=4, read_version=3, committed=True, skipped=False,
    app_id="a", txn_version=0, timestamp=5, partitions={partitions!r}, audits=(audit,),
)))
"""
DAY_PARTITIONS = ("day=2026-05-01", "day=2026-05-02")


@pytest.fixture(scope="module")
def stored_by_producer(tmp_path_factory, make_stand_in, make_table, airflow_db):
    """The events that Airflow stored for each producer, and the DAG runs that these events start."""
    folder = tmp_path_factory.mktemp("partitions")
    make_table(folder / "lake" / "orders").create()
    stand_in = make_stand_in(folder)
    stand_in.set_script(JOB_SCRIPT.format(partitions=DAY_PARTITIONS))
    connection = '{"conn_type": "spark", "host": "local[*]"}'
    stored_file = folder / "stored.json"
    output = run_dag_program(PROGRAM, folder, stand_in, airflow_db, AIRFLOW_CONN_SPARK_DEFAULT=connection)
    assert stored_file.exists(), output
    return json.loads(stored_file.read_text())


@needs_partitions_at_runtime
@pytest.mark.slow
def test_a_producer_whose_dag_has_partitions_at_runtime_starts_a_run_for_each_partition(stored_by_producer):
    producer_run = stored_by_producer["runtime_producer"]
    assert producer_run["state"] == "success"
    assert [key for key, _ in producer_run["events"]] == producer_run["partition_runs"] == list(DAY_PARTITIONS)
    assert all(
        extra["partitions"] == list(DAY_PARTITIONS) and extra["version"] == 4 for _, extra in producer_run["events"]
    )
    # An event with a partition key does not start a DAG whose schedule is a plain asset.
    assert producer_run["plain_runs"] == []


@needs_partitions_at_runtime
@pytest.mark.slow
def test_a_producer_without_partitions_at_runtime_sends_one_event_that_names_the_partitions(stored_by_producer):
    producer_run = stored_by_producer["daily_producer"]
    ((key, extra),) = producer_run["events"]
    assert (key, extra["partitions"]) == ("", list(DAY_PARTITIONS))
    assert [(audit["name"], audit["passed"], audit["measured"]) for audit in extra["audits"]] == [
        ("customers", False, 3)
    ]
    assert (producer_run["partition_runs"], producer_run["plain_runs"]) == ([], ["each_event"])


@needs_partitions_at_runtime
@pytest.mark.slow
def test_an_alias_beside_the_asset_starts_plain_dags_too(stored_by_producer):
    producer_run = stored_by_producer["alias_producer"]
    assert [key for key, _ in producer_run["events"]] == ["", *DAY_PARTITIONS]
    assert (producer_run["partition_runs"], producer_run["plain_runs"]) == (list(DAY_PARTITIONS), ["each_event"])


def partition_keys_of(table, context, **parameters):
    """Run a task with Airflow's accessor of outlet events, and return the partition keys of its event."""
    orders = Asset("orders")
    context["outlet_events"] = OutletEventAccessors()
    operator(table, outlets=[orders], **parameters).execute(context)
    return context["outlet_events"][orders].partition_keys


@needs_partitions_at_runtime
def test_an_operator_names_the_partitions_on_request(table, spark_submit, context):
    spark_submit.set_script(JOB_SCRIPT.format(partitions=DAY_PARTITIONS))
    assert partition_keys_of(table, context, partition_events=True) == set(DAY_PARTITIONS)
    assert partition_keys_of(table, context, partition_events=False) == partition_keys_of(table, context) == set()


@needs_partitions_at_runtime
def test_a_dag_with_partitions_at_runtime_makes_its_operators_name_them(table, spark_submit, context):
    from airflow.sdk import PartitionedAtRuntime

    spark_submit.set_script(JOB_SCRIPT.format(partitions=DAY_PARTITIONS))
    context["dag"] = DAG("sales", schedule=PartitionedAtRuntime())
    assert partition_keys_of(table, context) == set(DAY_PARTITIONS)
    assert partition_keys_of(table, context, partition_events=False) == set()


@needs_partitions_at_runtime
@pytest.mark.parametrize("partitions", [None, ()])
def test_the_log_reports_an_event_without_partitions(table, spark_submit, context, caplog, partitions):
    spark_submit.set_script(JOB_SCRIPT.format(partitions=partitions))
    with caplog.at_level(logging.INFO):
        assert partition_keys_of(table, context, partition_events=True) == set()
    levels = [record.levelname for record in caplog.records if "names no partition" in record.getMessage()]
    assert levels == ["WARNING" if partitions is None else "INFO"]


def test_an_airflow_without_partition_keys_gets_one_event_with_the_partitions_in_its_extra(
    table, spark_submit, context
):
    spark_submit.set_script(JOB_SCRIPT.format(partitions=DAY_PARTITIONS))
    orders = Asset("orders")
    context["outlet_events"][orders] = SimpleNamespace(extra={})
    operator(table, outlets=[orders], partition_events=True).execute(context)
    assert context["outlet_events"][orders].extra["partitions"] == list(DAY_PARTITIONS)
