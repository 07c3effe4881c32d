"""The DAG `orders_ingest` writes the clean rows of each day once."""

from __future__ import annotations

import json

import pytest

from deltalite import DeltaTable
from tests.examples.dag_runs import FIRST_DAY, SECOND_DAY, example, run
from tests.examples.feeds import expected_orders

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]


def test_the_table_has_the_clean_rows_of_each_day_once(examples_home, ingest_runs):
    rows = DeltaTable(str(examples_home / "lake" / "orders")).to_arrow().to_pylist()
    expected = expected_orders(FIRST_DAY) | expected_orders(SECOND_DAY)
    assert {row["order_id"]: row for row in rows} == expected
    assert len(rows) == len(expected)


@pytest.mark.smoke
def test_the_result_of_an_ingest_is_the_xcom_of_its_task(examples_home, ingest_runs):
    result = ingest_runs[SECOND_DAY].return_values["load"]
    metrics = result.pop("metrics")
    assert result.pop("timestamp") > 0
    assert set(result.pop("phases")) == {"start", "plan", "write", "commit", "after_commit"}
    assert result == {
        "table": str(examples_home / "lake" / "orders"),
        "operation": "WRITE",
        "version": 1,
        "read_version": 0,
        "committed": True,
        "skipped": False,
        "app_id": "airflow/orders_ingest/load/-1/manual__2026-03-03T00:00:00+00:00",
        "txn_version": 0,
        "partitions": [f"day={SECOND_DAY}"],
    }
    assert metrics["numOutputRows"] == len(expected_orders(SECOND_DAY))


def test_a_retry_after_a_failed_attempt_commits_once_and_the_history_shows_the_attempt(examples_home, ingest_runs):
    assert ingest_runs[FIRST_DAY].state == "success" and ingest_runs[FIRST_DAY].try_numbers == {"load": 2}
    history = DeltaTable(str(examples_home / "lake" / "orders")).history()
    run_details = [json.loads(commit["userMetadata"]) for commit in history]
    assert [
        (commit["version"], run["run_id"], run["try_number"]) for commit, run in zip(history, run_details, strict=True)
    ] == [
        (1, ingest_runs[SECOND_DAY].run_id, 1),
        (0, ingest_runs[FIRST_DAY].run_id, 2),
    ]
    assert {(run["dag_id"], run["task_id"], run["map_index"]) for run in run_details} == {("orders_ingest", "load", -1)}


def test_the_table_keeps_the_transaction_identifiers_of_runs_for_90_days(examples_home, ingest_runs):
    table = DeltaTable(str(examples_home / "lake" / "orders"))
    assert table.metadata.configuration == {"delta.setTransactionRetentionDuration": "interval 90 days"}


def without_phases(result):
    return {key: value for key, value in result.items() if key != "phases"}


def test_a_second_attempt_of_the_same_run_is_skipped_without_spark(examples_home, ingest_runs, without_spark):
    second_attempt = run(example("orders_ingest"), FIRST_DAY)
    first_result = ingest_runs[FIRST_DAY].return_values["load"]
    assert second_attempt.run_id == ingest_runs[FIRST_DAY].run_id and second_attempt.state == "success"
    changes = {"committed": False, "skipped": True}
    assert second_attempt.return_values["load"] == {**without_phases(first_result), **changes}, "no job, no phases"
    assert DeltaTable(str(examples_home / "lake" / "orders")).version == 1
    assert not without_spark.exists()
