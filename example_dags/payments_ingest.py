"""Load payments into a table with constraints: a day with one bad row is rejected completely.

The first run creates the table with its constraints. Every write checks them while it writes the rows. If a row
violates a constraint, the task fails with `ConstraintViolationError`, the log shows the row, and the table does not
change. Airflow does not retry the task, because a retry would meet the same row. Correct the feed and clear the task.

The Airflow Variables `landing` and `lake` name the folders of the feed and of the tables.
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
