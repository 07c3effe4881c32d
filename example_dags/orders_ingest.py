"""Load a raw feed of CSV files into a Delta table, with one append for each day.

Every day a shop delivers one folder of CSV files. The feed has typical errors: amounts that are not numbers, duplicate
lines, late orders of the day before, and quotes and line breaks inside texts. One task cleans the rows with Spark SQL
and appends them to the table `orders`, partitioned by the day of the delivery.

- A retry never appends twice. The commit contains the identity of the DAG run. A retry that finds the commit returns
  `skipped`.
- Days can run in any order, or at the same time, as in a backfill.
- The task reads all columns as texts and converts them with `try_cast`. An invalid value becomes null and does not fail
  the task.

The Airflow Variables `landing` and `lake` name the folders of the feed and of the tables.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_provider_deltalite.operators.delta import DeltaWriteOperator

# If the shop sent an order twice, the query keeps only the line with the latest `sent_at`.
CLEANING_QUERY = """
WITH typed AS (
    SELECT
        try_cast(trim(order_id) AS BIGINT)            AS order_id,
        nullif(trim(customer), '')                    AS customer,
        upper(nullif(trim(country), ''))              AS country,
        try_cast(trim(amount) AS DECIMAL(12, 2))      AS amount,
        nullif(trim(note), '')                        AS note,
        try_cast(trim(ordered_at) AS TIMESTAMP)       AS ordered_at,
        try_cast(trim(sent_at) AS TIMESTAMP)          AS sent_at
    FROM source
),
numbered AS (
    SELECT *, row_number() OVER (PARTITION BY order_id ORDER BY sent_at DESC NULLS LAST, amount DESC) AS line_number
    FROM typed
    WHERE order_id IS NOT NULL
)
SELECT order_id, customer, country, amount, note, ordered_at, DATE'{{ ds }}' AS day
FROM numbered
WHERE line_number = 1
"""

with DAG(
    dag_id="orders_ingest",
    doc_md=__doc__,
    # The run of a day starts after the day has ended, and `ds` is that day.
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
    start_date=datetime(2026, 3, 1, tzinfo=UTC),
    catchup=False,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    tags=["deltalite", "example"],
):
    # [START load]
    DeltaWriteOperator(
        task_id="load",
        table="{{ var.value.get('lake', '/data/lake') }}/orders",
        source={
            "format": "csv",
            "path": "{{ var.value.get('landing', '/data/landing') }}/{{ ds }}/*.csv",
            "options": {"header": "true", "multiLine": "true", "escape": '"'},
            "schema": (
                "order_id STRING, customer STRING, country STRING, amount STRING, note STRING, "
                "ordered_at STRING, sent_at STRING"
            ),
        },
        query=CLEANING_QUERY,
        mode="append",
        partition_by=["day"],
        # The table keeps the identity of each DAG run for this time. Do not clear a task that is older.
        properties={"delta.setTransactionRetentionDuration": "interval 90 days"},
    )
    # [END load]
