"""A report on exactly the version that the day's ingest has made.

The sensor waits for the commit that one run of `orders_ingest` makes, whatever else is written to the table meanwhile,
and hands over its version. The report then reads the table as it was at that version: run again next year, it gives the
same numbers.

Each commit carries the data interval of the run that made it, and the sensor waits for the interval of its own run. So
a day is found whether the ingest was scheduled, backfilled or triggered for it, and the report can be backfilled
against a scheduled ingest. The sensor waits in the triggerer and takes no worker slot. The Airflow Variable `lake` says
where the tables are.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, task
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_provider_deltalite.sensors.delta import DeltaVersionSensor


# [START summarize]
@task
def summarize(found: dict[str, Any], day: str) -> dict[str, Any]:
    """Count the orders of a day, in the version that the sensor found. Reads on the worker, without Spark."""
    import pyarrow.compute as pc

    from deltalite import DeltaTable

    orders = DeltaTable(found["table"], version=found["version"]).to_arrow(
        columns=["customer", "amount", "ordered_at"], filter=[("day", "=", date.fromisoformat(day))]
    )
    midnight = datetime.combine(date.fromisoformat(day), datetime.min.time(), tzinfo=UTC)
    return {
        "day": day,
        "version": found["version"],
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
        after_version=-1,  # any version: the commit may be there before the sensor is
        deferrable=True,
        poke_interval=5,
        timeout=timedelta(hours=12),
    )
    # [END wait]
    summarize(wait.output, "{{ ds }}")
