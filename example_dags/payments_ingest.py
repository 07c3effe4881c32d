"""A feed of payments into a table that keeps its own rules: a day with one bad row is refused as a whole.

The rules are constraints of the table, and are made with it. They are checked in the pass that writes, whoever writes:
a row that breaks one fails the task with `ConstraintViolationError`, the log shows the row, and nothing of the day
becomes visible. Airflow does not try again, since another try would meet the same row: correct the feed and clear the
task.

The Airflow Variables `landing` and `lake` say where the feed and the tables are.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

# [START first_table]
from airflow_provider_deltalite.operators.delta import DeltaWriteOperator

with DAG(
    dag_id="payments_ingest",
    doc_md=__doc__,
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
    start_date=datetime(2026, 3, 1, tzinfo=UTC),
    catchup=False,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    tags=["deltalite", "example"],
):
    load = DeltaWriteOperator(
        task_id="load",
        table="{{ var.value.get('lake', '/data/lake') }}/payments",
        source={
            "format": "csv",
            "path": "{{ var.value.get('landing', '/data/landing') }}/payments/{{ ds }}/*.csv",
            "options": {"header": "true"},
            "schema": "payment_id BIGINT, amount DECIMAL(12, 2), currency STRING",
        },
        query="SELECT *, DATE'{{ ds }}' AS day FROM source",
        partition_by=["day"],
        properties={
            "delta.constraints.amount_is_positive": "amount > 0",
            "delta.constraints.currency_is_known": "currency IN ('EUR', 'USD')",
            "delta.setTransactionRetentionDuration": "interval 90 days",
        },
    )
# [END first_table]
