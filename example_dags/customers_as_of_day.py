"""Count the customers at the end of each day, also for past days.

The table `customers` changes all the time. Each DAG run reads the table *as it was* at the end of the run's data
interval (`timestamp_as_of`). It then replaces that day in the table `customers_by_day`. The numbers of a day do not
depend on when you compute them. You get the same rows from a backfill of past days in any order, and from a run that
you clear a month later.

    airflow backfill create --dag-id customers_as_of_day --from-date 2026-03-01 --to-date 2026-03-31

The source table must meet these conditions:

- Its old versions still exist. Set `delta.logRetentionDuration` (default: 30 days) and
  `delta.deletedFileRetentionDuration` (default: 7 days, used by vacuum) to the time that you want to backfill.
  `customers_upsert` sets 400 days.
- Its commits contain their own times: `delta.enableInCommitTimestamps`. `customers_upsert` sets it too. Otherwise the
  time of a version is the modification time of a file, which changes when you copy the table.
- The day is not older than the table's first commit. Otherwise the task fails with `TimestampOutOfRangeError`, which
  names the oldest version and its time. Begin the backfill at this time. A commit at exactly midnight belongs to the
  day that ends.

The Airflow Variable `lake` names the folder of the tables.
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
        conflict_retries=10,  # the days of a backfill run at the same time, and each replaces only its own rows
    )
    # [END count]
