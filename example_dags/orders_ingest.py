"""A raw feed of CSV files becomes a Delta table, one append for each day.

Every day a shop delivers one folder of CSV files. The feed is as feeds are: amounts that are no numbers, lines that
came twice, orders of the day before that came late, quotes and line breaks inside of texts. One task cleans it in
Spark SQL and appends it to the table `orders`, partitioned by the day of the delivery.

- A retry never appends twice: the commit carries the identity of the DAG run, and a try that finds it reports
  `skipped`.
- Days may run in any order, or at the same time, as a backfill does.
- Texts are read as they are and cast with `try_cast`, so that a value that cannot be read is a null, and not the end of
  the task.

The Airflow Variables `landing` and `lake` say where the feed and the tables are.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_provider_deltalite.operators.delta import DeltaWriteOperator

# An order that was sent again replaces the earlier line; the order's own id and time say which is which.
CLEAN = """
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
    SELECT *, row_number() OVER (PARTITION BY order_id ORDER BY sent_at DESC NULLS LAST, amount DESC) AS newest
    FROM typed
    WHERE order_id IS NOT NULL
)
SELECT order_id, customer, country, amount, note, ordered_at, DATE'{{ ds }}' AS day
FROM numbered
WHERE newest = 1
"""

with DAG(
    dag_id="orders_ingest",
    doc_md=__doc__,
    # The run of a day starts when the day is over, and `ds` is that day.
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
        query=CLEAN,
        mode="append",
        partition_by=["day"],
        # Each run leaves its identity in the table; after this time, which must be longer than anybody waits before
        # clearing a task, it may be forgotten.
        properties={"delta.setTransactionRetentionDuration": "interval 90 days"},
    )
    # [END load]
