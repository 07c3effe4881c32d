"""One DAG sends an event for each changed partition. Another DAG counts the orders of the partition in its event."""

from __future__ import annotations

import sys
from collections import defaultdict
from datetime import UTC, datetime
from types import SimpleNamespace

import airflow.sdk
import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import AirflowSkipException
from deltalake import write_deltalake

from tests.examples.dag_runs import EXAMPLES, FIRST_DAY, SECOND_DAY, example

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.interop,
    pytest.mark.skipif(
        not hasattr(airflow.sdk, "PartitionedAssetTimetable"), reason="asset partitions need Airflow 3.2"
    ),
]


@pytest.fixture
def call_task(monkeypatch, tmp_path, airflow_db):
    """A function that calls a task of a DAG with a context, and returns its result. The table has two days."""
    monkeypatch.setenv("AIRFLOW_VAR_LAKE", str(tmp_path))
    orders = pa.table({"id": [1, 2, 3], "day": [FIRST_DAY, SECOND_DAY, SECOND_DAY]})
    write_deltalake(str(tmp_path / "orders"), orders, partition_by=["day"])
    assert isinstance(example("orders_by_day").schedule, airflow.sdk.PartitionedAssetTimetable)

    def call_task(dag_id, task_id, context):
        task = example_in_file("orders_by_day", dag_id).get_task(task_id)
        monkeypatch.setattr(sys.modules[task.python_callable.__module__], "get_current_context", lambda: context)
        return task.python_callable()

    return call_task


def example_in_file(file, dag_id):
    """Return a DAG from a file that contains several DAGs."""
    from tests.support.airflow_versions import DagBag

    return DagBag(EXAMPLES / f"{file}.py").dags[dag_id]


def sent_partition_keys(call_task, tmp_path, partitions):
    """Return the partition keys that the first DAG sends for an event of the watcher."""
    from airflow.sdk.execution_time.context import OutletEventAccessors

    table = str(tmp_path / "orders")
    payload = {"table": table, "from_version": 0, "version": 0, "partitions": partitions}
    event = SimpleNamespace(extra={"from_trigger": True, "payload": payload}, timestamp=datetime.now(UTC))
    events_by_asset = defaultdict(lambda: [event], {"any asset": []})
    outlet_events = OutletEventAccessors()
    call_task(
        "orders_changed_days",
        "announce_changed_days",
        {"triggering_asset_events": events_by_asset, "outlet_events": outlet_events},
    )
    return outlet_events[airflow.sdk.Asset("orders_changed_days")].partition_keys


def test_each_changed_partition_of_the_watched_table_is_sent_as_a_partition_key(call_task, tmp_path):
    assert sent_partition_keys(call_task, tmp_path, ["day=2026-03-01", "day=2026-03-02"]) == {
        "day=2026-03-01",
        "day=2026-03-02",
    }


def test_a_change_of_unknown_partitions_fails_the_task_and_a_change_of_no_partition_skips_it(call_task, tmp_path):
    with pytest.raises(RuntimeError, match="do not name the partitions"):
        sent_partition_keys(call_task, tmp_path, None)
    with pytest.raises(AirflowSkipException):
        sent_partition_keys(call_task, tmp_path, [])


def test_a_run_counts_the_orders_of_its_partition(call_task):
    context = {"dag_run": SimpleNamespace(partition_key="day=2026-03-02")}
    assert call_task("orders_by_day", "count_orders", context) == {"day": "2026-03-02", "orders": 2}
