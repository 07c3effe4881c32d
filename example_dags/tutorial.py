"""The DAG of the tutorial: appends the orders of a day, then merges them into a table of customers.

The Airflow Variables `landing` and `lake` name the folders of the files and of the tables. The
`idempotency_key` of the append names the day, so two runs for the same day append its file only once.
"""

from __future__ import annotations

# [START load]
from datetime import UTC, datetime

from airflow.sdk import DAG

from airflow_provider_deltalite.operators.delta import DeltaMergeOperator, DeltaWriteOperator

with DAG("tutorial", schedule="@daily", start_date=datetime(2026, 3, 1, tzinfo=UTC), catchup=False):
    load = DeltaWriteOperator(
        task_id="load",
        table="{{ var.value.lake }}/orders",
        source={
            "format": "csv",
            "path": "{{ var.value.landing }}/orders/{{ ds }}.csv",
            "options": {"header": "true"},
            "schema": "order_id BIGINT, customer STRING, amount DECIMAL(12, 2)",
        },
        properties={"delta.constraints.amount_is_positive": "amount > 0"},
        idempotency_key="orders of {{ ds }}",
    )
    # [END load]
    # [START merge]
    merge = DeltaMergeOperator(
        task_id="merge",
        table="{{ var.value.lake }}/customers",
        source={
            "format": "delta",
            "path": "{{ var.value.lake }}/orders",
            "version_as_of": "{{ ti.xcom_pull('load')['version'] }}",
        },
        query="SELECT customer, count(*) AS orders, sum(amount) AS spent FROM source GROUP BY customer",
        on="target.customer = source.customer",
        when_matched=[{"update": "*"}],
        when_not_matched=[{"insert": "*"}],
        create_if_missing=True,
    )
    load >> merge
    # [END merge]
