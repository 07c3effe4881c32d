"""Corrections of many days, merged at the same time: one mapped task for each day.

Corrections of orders arrive in a folder for each day that they concern. Each day is merged by a task of its own, up to
eight at a time, into the one table `orders`, which is partitioned by day. They do not stand in each other's way: the
day is a literal in the condition of each merge, so a task reads the files of its day alone, and what the others commit
meanwhile is none of its business. Without it the keys of the source decide what is read, and they keep tasks apart only
as far as the keys of one day lie apart from those of another.

A day that fails is retried alone; the days that are done stay as they are. The key of each item is its folder, so a
commit belongs to these corrections and not to a position in the list, which may change before the run is cleared. The
Airflow Variables `landing` and `lake` say where the corrections and the table are.
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
    """What a merge needs to know of each day that has corrections: where they are, and which rows they concern."""
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
