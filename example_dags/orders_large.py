"""Append the large orders to a separate table, each order once.

Each DAG run loads what is new in `orders` since the last commit into `orders_large`. The commit that holds the rows
also holds the last loaded version, so runs need no order. A run without new orders starts no Spark job and returns
`skipped`. The Airflow Variable `lake` names the folder of the tables.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from airflow_provider_deltalite.operators.delta import DeltaWriteOperator

LAKE = "{{ var.value.get('lake', '/data/lake') }}"

with DAG(
    dag_id="orders_large",
    doc_md=__doc__,
    schedule="@hourly",
    start_date=datetime(2026, 3, 1, tzinfo=UTC),
    catchup=False,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    tags=["deltalite", "example"],
):
    # [START load]
    DeltaWriteOperator(
        task_id="load",
        table=f"{LAKE}/orders_large",
        source={"format": "delta", "path": f"{LAKE}/orders", "incremental": "large orders"},
        query="SELECT * FROM source WHERE amount >= 100",
        mode="append",
    )
    # [END load]
