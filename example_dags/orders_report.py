"""Report on exactly the version that the day's ingest has committed.

The sensor waits for the commit of one run of `orders_ingest`, ignores all other commits, and returns the version of
this commit. The report then reads the table at that version. If you run the report again next year, it returns the same
numbers, as long as the version still exists.

Each commit contains the data interval of the DAG run that made it. The sensor waits for the data interval of the same
run. So it finds the commit of a scheduled, backfilled or triggered ingest, and you can backfill the report for a
scheduled ingest. The sensor is deferred to the triggerer and takes no worker slot. The Airflow Variable `lake` names
the folder of the tables.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, task
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_provider_deltalite.sensors.delta import DeltaVersionSensor


# [START summarize]
@task
def summarize(commit: dict[str, Any], day: str) -> dict[str, Any]:
    """Summarize the orders of a day, at the version of the commit. The worker reads the table without Spark."""
    import pyarrow.compute as pc

    from deltalite import DeltaTable

    orders = DeltaTable(commit["table"], version=commit["version"]).to_arrow(
        columns=["customer", "amount", "ordered_at"], filter=[("day", "=", date.fromisoformat(day))]
    )
    midnight = datetime.combine(date.fromisoformat(day), datetime.min.time(), tzinfo=UTC)
    return {
        "day": day,
        "version": commit["version"],
        "orders": orders.num_rows,
        "customers": pc.count_distinct(orders["customer"]).as_py(),
        "revenue": str(pc.sum(orders["amount"]).as_py()),
        "without_amount": orders["amount"].null_count,
        "late": pc.sum(pc.less(orders["ordered_at"], midnight)).as_py(),
    }


# [END summarize]


with DAG(
    dag_id="orders_report",
    doc_md=__doc__,
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
    start_date=datetime(2026, 3, 1, tzinfo=UTC),
    catchup=False,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    tags=["deltalite", "example"],
):
    # [START wait]
    wait = DeltaVersionSensor(
        task_id="wait",
        table="{{ var.value.get('lake', '/data/lake') }}/orders",
        made_by={
            "dag_id": "orders_ingest",
            "task_id": "load",
            "data_interval_start": "{{ data_interval_start.isoformat() }}",
        },
        after_version=-1,  # any version, because the ingest may commit before the sensor starts
        deferrable=True,
        poke_interval=5,
        timeout=timedelta(hours=12),
    )
    # [END wait]
    summarize(wait.output, "{{ ds }}")
