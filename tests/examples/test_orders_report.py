"""The report waits for the ingest of its day, and reads that version."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from deltalite import DeltaTable
from tests.examples.dag_runs import FIRST_DAY, SECOND_DAY, example, run
from tests.examples.feeds import expected_orders

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]


def test_the_report_reads_the_version_of_its_day_and_not_a_newer_one(examples_home, ingest_runs):
    # The run of this day starts days later, as in a backfill.
    dag_run = run(example("orders_report"), FIRST_DAY, after_midnight=timedelta(days=5))
    assert dag_run.run_id != ingest_runs[FIRST_DAY].run_id
    orders = expected_orders(FIRST_DAY)
    assert dag_run.state == "success" and DeltaTable(str(examples_home / "lake" / "orders")).version == 1
    assert dag_run.return_values["wait"] == {
        "table": str(examples_home / "lake" / "orders"),
        "from_version": 0,
        "version": 0,
        "after_version": -1,
        "reset": False,
        "operation": "WRITE",
        "timestamp": ingest_runs[FIRST_DAY].return_values["load"]["timestamp"],
    }
    amounts = [order["amount"] for order in orders.values()]
    midnight = datetime(2026, 3, 1, tzinfo=UTC)
    assert dag_run.return_values["summarize"] == {
        "day": "2026-03-01",
        "version": 0,
        "orders": len(orders),
        "customers": len({order["customer"] for order in orders.values()} - {None}),
        "revenue": str(sum(amount for amount in amounts if amount is not None)),
        "without_amount": amounts.count(None),
        "late": sum(order["ordered_at"] < midnight for order in orders.values()),
    }


def test_the_sensor_of_the_report_is_deferred_until_a_late_commit(examples_home, ingest_runs, monkeypatch):
    from airflow_provider_deltalite.triggers import _version as triggers

    log = examples_home / "lake" / "orders" / "_delta_log"
    commit, hidden_commit = log / f"{1:020}.json", examples_home / "late.json"
    polled_versions = []

    def poll_and_reveal_commit(*arguments):
        """Poll the table. After the first poll, make the commit visible."""
        poll = real_poll(*arguments)
        polled_versions.append(poll.xcom and poll.xcom["version"])
        if hidden_commit.exists():
            hidden_commit.rename(commit)
        return poll

    real_poll = triggers.poll_table
    monkeypatch.setattr(triggers, "poll_table", poll_and_reveal_commit)
    monkeypatch.setattr(triggers, "_SETTLING_SECONDS", 0.0)  # `dag.test()` has no scheduler that stores the deferral
    dag = example("orders_report")
    dag.get_task("wait").poke_interval = 0.1
    commit.rename(hidden_commit)
    try:
        dag_run = run(dag, SECOND_DAY)
    finally:
        if hidden_commit.exists():
            hidden_commit.rename(commit)  # other tests read the table too
    assert dag_run.state == "success" and polled_versions == [None, 1]
    assert dag_run.return_values["wait"]["version"] == dag_run.return_values["summarize"]["version"] == 1
    assert dag_run.return_values["summarize"]["orders"] == len(expected_orders(SECOND_DAY))
