"""The report waits for the ingest of its day, and reads that version."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from deltalite import DeltaTable
from tests.examples.dag_runs import FIRST, SECOND, example, run
from tests.examples.feeds import expected_orders

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]


def test_the_report_reads_the_version_of_its_day_and_not_a_newer_one(base, ingested):
    done = run(example("orders_report"), FIRST, at=timedelta(days=5))  # a later run of the day, as in a backfill
    assert done.run_id != ingested[FIRST].run_id
    orders = expected_orders(FIRST)
    assert done.state == "success" and DeltaTable(str(base / "lake" / "orders")).version == 1
    assert done.returned["wait"] == {
        "table": str(base / "lake" / "orders"),
        "from_version": 0,
        "version": 0,
        "after_version": -1,
        "reset": False,
        "operation": "WRITE",
        "timestamp": ingested[FIRST].returned["load"]["timestamp"],
    }
    amounts = [order["amount"] for order in orders.values()]
    midnight = datetime(2026, 3, 1, tzinfo=UTC)
    assert done.returned["summarize"] == {
        "day": "2026-03-01",
        "version": 0,
        "orders": len(orders),
        "customers": len({order["customer"] for order in orders.values()} - {None}),
        "revenue": str(sum(amount for amount in amounts if amount is not None)),
        "without_amount": amounts.count(None),
        "late": sum(order["ordered_at"] < midnight for order in orders.values()),
    }


def test_the_sensor_of_the_report_is_deferred_until_a_late_commit(base, ingested, monkeypatch):
    from airflow_provider_deltalite.triggers import _version as triggers

    log = base / "lake" / "orders" / "_delta_log"
    commit, away = log / f"{1:020}.json", base / "late.json"
    polled_versions = []

    def poll_table(*arguments):
        """Poll. After the first poll, add the commit."""
        poll = real_poll(*arguments)
        polled_versions.append(poll.xcom and poll.xcom["version"])
        if away.exists():
            away.rename(commit)
        return poll

    real_poll = triggers.poll_table
    monkeypatch.setattr(triggers, "poll_table", poll_table)
    dag = example("orders_report")
    dag.get_task("wait").poke_interval = 0.1
    commit.rename(away)
    try:
        done = run(dag, SECOND)
    finally:
        if away.exists():
            away.rename(commit)  # other tests read the table too
    assert done.state == "success" and polled_versions == [None, 1]
    assert done.returned["wait"]["version"] == done.returned["summarize"]["version"] == 1
    assert done.returned["summarize"]["orders"] == len(expected_orders(SECOND))
