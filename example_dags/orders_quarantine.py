"""Load CSV files, publish the new rows, and put bad records and bad rows into a quarantine table.

The first task creates the table, so its columns decide which records are bad. The second task loads each file once. A
record that does not fit goes to the quarantine with its file, its line and the reason. The third task appends the new
orders to another table, except those that an audit rejects. These rows go to the same quarantine. The Airflow Variable
`lake` names the folder of the tables, and `landing` the folder with the files.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from airflow_provider_deltalite.operators.delta import DeltaCopyOperator, DeltaTableOperator, DeltaWriteOperator

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
    # [START publish]
    publish = DeltaWriteOperator(
        task_id="publish",
        table=f"{LAKE}/published_orders",
        source={"format": "delta", "path": f"{LAKE}/good_orders", "incremental": True},
        audits=[
            {"name": "amounts", "rows": "amount < 0", "level": "quarantine", "max_share": 0.2},
            {"name": "not empty", "row_count": True, "min": 1, "on": "new_rows"},
        ],
        quarantine=f"{LAKE}/bad_orders",
    )
    # [END publish]
    declare >> load >> publish
