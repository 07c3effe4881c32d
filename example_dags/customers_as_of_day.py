"""How many customers there were at the end of each day, also for days that have long gone by.

The table `customers` changes all the time; each run reads it *as it was* when the run's data interval ended
(`timestamp_as_of`), and replaces that day in the table `customers_by_day`. So the numbers of a day do not depend on
when they are computed: a backfill over past days, in any order, or a run that is cleared a month later, gives the same
rows.

    airflow backfill create --dag-id customers_as_of_day --from-date 2026-03-01 --to-date 2026-03-31

What that asks of the table that is read:

- Its versions must still be there. `delta.logRetentionDuration` (30 days) and `delta.deletedFileRetentionDuration` (7
  days, by which a vacuum goes) have to reach as far back as anybody backfills: `customers_upsert` sets 400 days.
- Its commits should carry their own times: `delta.enableInCommitTimestamps`, which `customers_upsert` sets too. Without
  them the time of a version is that of a file, and is another one after the table was copied.
- A day before the table's first commit has no version. The task fails with `TimestampOutOfRangeError`, which names
  the oldest version and its time; begin the backfill there. A commit at midnight sharp belongs to the day that ends.

The Airflow Variable `lake` says where the tables are.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_provider_deltalite.operators.delta import DeltaWriteOperator

with DAG(
    dag_id="customers_as_of_day",
    doc_md=__doc__,
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
    start_date=datetime(2026, 3, 1, tzinfo=UTC),
    catchup=False,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    tags=["deltalite", "example"],
):
    # [START count]
    DeltaWriteOperator(
        task_id="count",
        table="{{ var.value.get('lake', '/data/lake') }}/customers_by_day",
        source={
            "format": "delta",
            "path": "{{ var.value.get('lake', '/data/lake') }}/customers",
            "timestamp_as_of": "{{ data_interval_end.isoformat() }}",
        },
        query="""
            SELECT DATE'{{ ds }}' AS day, country, count(*) AS customers
            FROM source WHERE NOT deleted GROUP BY country
        """,
        mode="overwrite",
        replace_where="day = DATE'{{ ds }}'",
        partition_by=["day"],
        conflict_retries=10,  # the days of a backfill run at the same time; each replaces its own
    )
    # [END count]
