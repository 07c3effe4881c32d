"""Load the good records of CSV files, and put the bad ones into a quarantine table.

The first task creates the table, so its columns decide which records are bad. The second task loads each file once. A
record that does not fit goes to the quarantine with its file, its line and the reason. The Airflow Variable `lake`
names the folder of the tables, and `landing` the folder with the files.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from airflow_provider_deltalite.operators.delta import DeltaCopyOperator, DeltaTableOperator

LAKE = "{{ var.value.get('lake', '/data/lake') }}"
LANDING = "{{ var.value.get('landing', '/data/landing') }}"

with DAG(
    dag_id="orders_quarantine",
    doc_md=__doc__,
    schedule="@hourly",
    start_date=datetime(2026, 3, 1, tzinfo=UTC),
    catchup=False,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    tags=["deltalite", "example"],
):
    declare = DeltaTableOperator(
        task_id="declare", table=f"{LAKE}/good_orders", schema="order_id BIGINT, amount DECIMAL(12, 2)"
    )
    # [START load]
    load = DeltaCopyOperator(
        task_id="load",
        table=f"{LAKE}/good_orders",
        source={"format": "csv", "path": LANDING, "options": {"header": "true"}},
        pattern="*.csv",
        quarantine=f"{LAKE}/bad_orders",
        max_bad_share=0.2,
    )
    # [END load]
    declare >> load
