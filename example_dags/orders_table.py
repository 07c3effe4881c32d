"""Declare the table of orders, then load it.

The first task creates the table with its columns and rules. In later runs it compares the table with the declaration:

- Without a difference it commits nothing.
- After a change of this file, such as a new column, the next run alters the table before it loads the orders.

A source row without an id or an amount, or with an amount of zero or less, makes the load fail. The table then stays
as it was. The Airflow Variables `lake` and `landing` name the folders of the tables and of the CSV files.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from airflow_provider_deltalite.operators.delta import DeltaTableOperator, DeltaWriteOperator

LAKE = "{{ var.value.get('lake', '/data/lake') }}"
LANDING = "{{ var.value.get('landing', '/data/landing') }}"

with DAG(
    dag_id="orders_table",
    doc_md=__doc__,
    schedule="@daily",
    start_date=datetime(2026, 3, 1, tzinfo=UTC),
    catchup=False,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    tags=["deltalite", "example"],
):
    # [START declare]
    declare = DeltaTableOperator(
        task_id="declare",
        table=f"{LAKE}/declared_orders",
        schema="""
            order_id BIGINT NOT NULL COMMENT 'number of the order in the shop',
            amount DECIMAL(10, 2),
            ordered_at TIMESTAMP,
            day DATE GENERATED ALWAYS AS (CAST(ordered_at AS DATE)),
            state STRING DEFAULT 'new'
        """,
        partition_by=["day"],
        constraints={"amount_is_positive": "amount > 0"},
        properties={"delta.enableRowTracking": "true"},
        description="One row for each order",
    )
    # [END declare]
    load = DeltaWriteOperator(
        task_id="load",
        table=f"{LAKE}/declared_orders",
        source={
            "format": "csv",
            "path": f"{LANDING}/declared_orders/{{{{ ds }}}}/*.csv",
            "options": {"header": "true"},
            "schema": "order_id BIGINT, amount DECIMAL(10, 2), ordered_at TIMESTAMP",
        },
    )
    declare >> load
