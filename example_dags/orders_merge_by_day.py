"""Merge corrections of many days at the same time, with one mapped task for each day.

Corrections of orders arrive in one folder for each day that they concern. One mapped task merges each day into the
table `orders`, which is partitioned by day. Up to eight tasks run at a time, without conflicts: each merge has its day
as a literal in the condition. So a task reads only the files of its day, and commits of the other tasks do not conflict
with it. Without the literal, the merge selects files by the keys of the source. Tasks then conflict if their key ranges
overlap.

If a day fails, only that day is retried. The `idempotency_key` of each task is its folder. So a commit belongs to these
corrections, and not to a position in the list, which may change before you clear the run. The Airflow Variables
`landing` and `lake` name the folders of the corrections and of the table.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, ObjectStoragePath, task
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_provider_deltalite.operators.delta import DeltaMergeOperator


# [START corrected_days]
@task
def corrected_days(folder: str) -> list[dict[str, Any]]:
    """Return the parameters of a merge for each day with corrections: the source, the condition and the key."""
    days = sorted(path.name.removeprefix("day=") for path in ObjectStoragePath(folder).glob("day=*"))
    return [
        {
            "source": {
                "format": "csv",
                "path": f"{folder}/day={day}/*.csv",
                "options": {"header": "true"},
                "schema": "order_id BIGINT, amount DECIMAL(12, 2), cancelled BOOLEAN",
            },
            "on": f"target.day = DATE'{day}' AND target.order_id = source.order_id",
            "idempotency_key": f"{folder}/day={day}",
        }
        for day in days
    ]


# [END corrected_days]


with DAG(
    dag_id="orders_merge_by_day",
    doc_md=__doc__,
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
    start_date=datetime(2026, 3, 1, tzinfo=UTC),
    catchup=False,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    tags=["deltalite", "example"],
):
    # [START mapped_merge]
    days = corrected_days("{{ var.value.get('landing', '/data/landing') }}/corrections/{{ ds }}")
    DeltaMergeOperator.partial(
        task_id="merge",
        table="{{ var.value.get('lake', '/data/lake') }}/orders",
        when_matched=[
            {"delete": True, "condition": "source.cancelled"},
            {"update": {"amount": "source.amount"}},
        ],
        max_active_tis_per_dagrun=8,
    ).expand_kwargs(days)
    # [END mapped_merge]
