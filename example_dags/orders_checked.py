"""Append the orders of a day if they pass audits.

The audits of `load` run on the written files, before the commit. If one does not pass, the table stays as it was. A
person decides whether to publish a small day. The task `check` runs audits on a version that exists. Airflow Variables
name the folders of tables (`lake`) and of arriving files (`landing`).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from airflow_provider_deltalite.operators.delta import DeltaCheckOperator, DeltaWriteOperator

LAKE = "{{ var.value.get('lake', '/data/lake') }}"

with DAG(
    dag_id="orders_checked",
    doc_md=__doc__,
    schedule="@daily",
    start_date=datetime(2026, 3, 1, tzinfo=UTC),
    catchup=False,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    tags=["deltalite", "example"],
):
    # [START load]
    load = DeltaWriteOperator(
        task_id="load",
        table=f"{LAKE}/orders_checked",
        source={
            "format": "csv",
            "path": "{{ var.value.get('landing', '/data/landing') }}/{{ ds }}/*.csv",
            "options": {"header": "true", "multiLine": "true", "escape": '"'},
            "schema": (
                "order_id STRING, customer STRING, country STRING, amount STRING, note STRING, "
                "ordered_at STRING, sent_at STRING"
            ),
        },
        query="SELECT DISTINCT order_id, customer, try_cast(amount AS DECIMAL(12, 2)) AS amount, DATE'{{ ds }}' AS day "
        "FROM source WHERE order_id IS NOT NULL",
        partition_by=["day"],
        audits=[
            {"name": "not empty", "row_count": True, "min": 1, "on": "new_rows"},
            {"name": "usual volume", "row_count": True, "min": 100, "on": "new_rows", "level": "ask"},
            {"name": "customers", "rows": "customer IS NULL", "max_share": 0.05},
            {"name": "amounts", "rows": "amount IS NULL OR amount < 0", "max_share": 0.2, "level": "warn"},
            {"name": "fresh", "freshness": "day", "max_age_hours": 24, "as_of": "{{ data_interval_end }}"},
        ],
        ask={"timeout": timedelta(hours=4)},
    )
    # [END load]
    # [START check]
    check = DeltaCheckOperator(
        task_id="check",
        table=f"{LAKE}/orders_checked",
        version="{{ ti.xcom_pull('load')['version'] }}",
        audits=[
            {"name": "one row each", "unique": ["order_id", "day"], "max_share": 0.05},
            {"name": "volume", "row_count": True, "max_change": 3.0, "level": "warn"},
        ],
    )
    # [END check]
    load >> check
