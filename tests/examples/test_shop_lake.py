"""The DAG `shop_lake` takes files through all tables of a lake, each row once.

The jobs run in the Spark session of the tests. `tests/demo/test_demo.py` runs the DAG with `spark-submit`.
"""

from __future__ import annotations

import csv
import sys
from collections import Counter
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import airflow.sdk
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from deltalite import DeltaTable
from demo.customer_feed import write_customers
from demo.feed import COLUMNS, write_feed
from tests.examples.dag_runs import EXAMPLES, FIRST_DAY, SECOND_DAY, example, rows, run
from tests.examples.feeds import ORDERS
from tests.examples.shop_files import expected_history, expected_orders, expected_revenue, is_valid, order_lines
from tests.support.airflow_versions import DagBag
from tests.support.jobs_in_process import JobsInProcess

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def shop(airflow_db, tmp_path, monkeypatch) -> Path:
    """The folder of the tables. The landing folder beside it has the files of the first day."""
    monkeypatch.setenv("AIRFLOW_VAR_LAKE", str(tmp_path / "lake"))
    monkeypatch.setenv("AIRFLOW_VAR_LANDING", str(tmp_path / "landing"))
    deliver(tmp_path / "landing", FIRST_DAY)
    return tmp_path / "lake" / "shop"


def deliver(landing: Path, day) -> None:
    """Write the files of a day."""
    write_feed(landing, day, orders=ORDERS)
    write_customers(landing, day)


def assert_tables_match_the_files(shop: Path, landing: Path) -> None:
    """Compare all tables with the rows that Python computes from the files."""
    lines = order_lines(landing)
    orders, history = expected_orders(lines), expected_history(landing)
    assert len(rows(shop / "bronze" / "orders")) == len(lines)
    rejected_ids = Counter(row["order_id"] or "" for row in rows(shop / "bronze" / "rejected_orders"))
    assert rejected_ids == Counter(line["order_id"] for line in lines if not is_valid(line)) and rejected_ids
    assert {row["order_id"]: row for row in rows(shop / "silver" / "orders")} == orders
    assert len(rows(shop / "silver" / "orders")) == len(orders)
    assert Counter(
        (row["customer"], row["country"], row["segment"], row["valid_from"], row["valid_to"])
        for row in rows(shop / "silver" / "customers")
    ) == Counter((customer, *valid) for customer, ranges in history.items() for valid in ranges)
    assert {
        (row["day"], row["segment"]): (row["orders"], row["revenue"]) for row in rows(shop / "gold" / "revenue")
    } == expected_revenue(orders, history)


@pytest.fixture
def trigger(spark):
    """A function that runs the DAG in the Spark session of the tests."""
    jobs = JobsInProcess()

    def trigger(day, **options):
        dag = example("shop_lake")
        for task in dag.tasks:
            if hasattr(task, "submit_with"):
                task.submit_with, task.shared_folder = jobs, True
            task.retries = 0
        return run(dag, day, **options)

    trigger.jobs = jobs
    return trigger


def versions(shop: Path) -> dict[Path, int]:
    """Return the newest version of each table."""
    return {log.parent: DeltaTable(str(log.parent)).version for log in shop.glob("*/*/_delta_log")}


@pytest.mark.campaign
def test_each_trigger_loads_the_new_files_and_another_trigger_changes_nothing(shop, tmp_path, trigger):
    landing = tmp_path / "landing"
    first = trigger(FIRST_DAY)
    assert first.state == "success"
    assert_tables_match_the_files(shop, landing)
    assert first.return_values["first_changed_day"] == "2026-02-28"  # the feed has late orders
    assert {audit["name"]: audit["passed"] for audit in first.return_values["merge_orders"]["audits"]} == {
        "positive amount": True, "has customer": True, "known customer": True, "growth": True,
    }  # fmt: skip

    deliver(landing, SECOND_DAY)
    repeated_file = landing / "repeated" / "orders.csv"
    repeated_file.parent.mkdir()
    repeated_file.write_bytes((landing / FIRST_DAY.isoformat() / "orders.csv").read_bytes())
    second = trigger(SECOND_DAY)
    assert second.state == "success"
    assert second.return_values["load_orders"]["metrics"]["numLoadedFiles"] == 2
    assert_tables_match_the_files(shop, landing)
    # The second day has late orders and late changes of the first day. The repeated file changes no order.
    assert second.return_values["report"]["partitions"] == ["day=2026-03-01", "day=2026-03-02"]
    assert second.return_values["maintain"]["metrics"]["numTables"] == len(versions(shop)) == 6

    versions_before, jobs_before = versions(shop), len(trigger.jobs.submitted_names)
    third = trigger(SECOND_DAY, after_midnight=timedelta(days=2))
    assert third.state == "success" and third.run_id != second.run_id
    assert versions(shop) == versions_before
    assert third.return_values["report"] is None
    assert [name.split()[0] for name in trigger.jobs.submitted_names[jobs_before:]] == ["shop_lake.maintain"]


@pytest.mark.campaign
def test_a_bad_delivery_is_refused_and_a_corrected_file_repairs_it(shop, tmp_path, trigger):
    landing = tmp_path / "landing"
    file = landing / FIRST_DAY.isoformat() / "orders.csv"
    right_lines = order_lines(landing)
    write_lines(file, [{**line, "amount": f"-{line['amount'].strip()}"} for line in right_lines])
    refused = trigger(date(2026, 4, 1))  # not a day of the test above: both tests use one database
    assert refused.state == "failed" and refused.return_values["merge_orders"] is None
    assert set(versions(shop)) == {shop / "bronze" / name for name in ("orders", "customers", "rejected_orders")} | {
        shop / "silver" / "customers"
    }

    sent_later = timedelta(days=1)
    corrected_lines = [
        {**line, "sent_at": (datetime.fromisoformat(line["sent_at"]) + sent_later).isoformat()} for line in right_lines
    ]
    write_lines(file.with_name("orders-corrected.csv"), corrected_lines)
    assert trigger(date(2026, 4, 2)).state == "success"
    assert_tables_match_the_files(shop, landing)
    assert all(row["amount"] > 0 for row in rows(shop / "silver" / "orders"))


@pytest.mark.skipif(not hasattr(airflow.sdk, "PartitionedAssetTimetable"), reason="asset partitions need Airflow 3.2")
def test_the_second_dag_reads_the_day_of_its_event(airflow_db, tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFLOW_VAR_LAKE", str(tmp_path))
    revenue = pa.table(
        {
            "segment": ["private", "business", None],
            "orders": [2, 1, 3],
            "revenue": pa.array([Decimal("7.50"), Decimal("1.00"), Decimal("3.00")], pa.decimal128(18, 2)),
            "day": [FIRST_DAY, FIRST_DAY, SECOND_DAY],
        }
    )
    write_deltalake(str(tmp_path / "shop" / "gold" / "revenue"), revenue, partition_by=["day"])
    dag = DagBag(EXAMPLES / "shop_lake.py").dags["shop_revenue_of_day"]
    assert isinstance(dag.schedule, airflow.sdk.PartitionedAssetTimetable)
    context = {"dag_run": SimpleNamespace(partition_key="day=2026-03-01")}
    task = dag.get_task("revenue_of_day")
    monkeypatch.setattr(sys.modules[task.python_callable.__module__], "get_current_context", lambda: context)
    assert task.python_callable() == [
        {"segment": "business", "orders": 1, "revenue": "1.00", "day": "2026-03-01"},
        {"segment": "private", "orders": 2, "revenue": "7.50", "day": "2026-03-01"},
    ]


def write_lines(file: Path, lines: list[dict[str, str]]) -> None:
    """Write a file with orders."""
    with file.open("w", encoding="utf-8", newline="") as text:
        writer = csv.DictWriter(text, COLUMNS)
        writer.writeheader()
        writer.writerows(lines)
