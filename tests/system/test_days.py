"""Days out of order, mapped tasks and a repeated backfill, under a real scheduler.

The test needs no Spark: a stand-in for spark-submit commits the rows. Only the run ids, the map indexes and the
repeated runs must be real, and Airflow makes them.
"""

from __future__ import annotations

import pytest

from deltalite import DeltaTable
from tests.faults.programs import write_ids
from tests.support.airflow_processes import midnight
from tests.system.stand_in import write_committing_stand_in

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.campaign]

DAG = """
from datetime import UTC, datetime, timedelta
from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable
from airflow_provider_deltalite.operators.delta import DeltaWriteOperator

with DAG(
    "days", schedule=CronDataIntervalTimetable("@daily", timezone="UTC"), catchup=False,
    start_date=datetime(2026, 3, 1, tzinfo=UTC),
    default_args={{"retries": 2, "retry_delay": timedelta(0)}},
):
    DeltaWriteOperator.partial(
        task_id="load", table={table!r}, source={{"format": "csv", "path": "/in"}}, spark_binary={program!r}
    ).expand(user_metadata=["{{{{ ds_nodash }}}}1", "{{{{ ds_nodash }}}}2"])
"""


def ids_without_newest_day(table):
    """Return the ids in the table, without those of the newest day, which the scheduler runs without a backfill."""
    return sorted(row["id"] for row in DeltaTable(table).to_arrow().to_pylist() if row["id"] < 202603040)


def test_unordered_days_and_mapped_tasks_write_once_even_after_a_repeated_backfill(whole_airflow, tmp_path):
    table, program = str(tmp_path / "days"), tmp_path / "commits"
    write_ids(None, table, run="another", ids=[0])  # another run creates the table with one row
    write_committing_stand_in(program)
    whole_airflow.add_dag("days", DAG.format(table=table, program=str(program)))
    backwards = {"run_backwards": True, "max_active_runs": 1}
    whole_airflow.backfill("days", midnight("2026-03-01"), midnight("2026-03-03"), **backwards)
    expected_ids = [0, *(20260300 * 10 + day * 10 + number for day in (1, 2, 3) for number in (1, 2))]
    assert ids_without_newest_day(table) == expected_ids
    all_run_ids = {run["logical_date"][:10]: run["dag_run_id"] for run in whole_airflow.runs("days")}
    run_ids = {day: run_id for day, run_id in all_run_ids.items() if day.startswith("2026-03-0")}

    def result_of(day, index):
        return whole_airflow.xcom("days", run_ids[day], "load", map_index=index)

    first_results = {(day, index): result_of(day, index) for day in run_ids for index in (0, 1)}
    assert len({result["app_id"] for result in first_results.values()}) == 6
    assert {result["committed"] for result in first_results.values()} == {True}
    assert first_results["2026-03-03", 0]["version"] < first_results["2026-03-01", 0]["version"], (
        "the days did not run backwards"
    )
    whole_airflow.backfill(
        "days", midnight("2026-03-01"), midnight("2026-03-03"), reprocess_behavior="completed", **backwards
    )
    assert ids_without_newest_day(table) == expected_ids
    for (day, index), first_result in first_results.items():
        assert result_of(day, index) == {**first_result, "committed": False, "skipped": True}
