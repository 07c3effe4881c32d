"""A customer asks to be forgotten: deleted in one table, made anonymous in another.

Trigger the DAG with the customer's name. The row in `customers` is deleted; the orders stay, since the books need them,
and lose whatever tells whose they were. Both are one commit each, and a retry finds what is done.

The rows are gone for everybody who reads the tables now. Earlier versions still hold them, until a vacuum deletes the
files that only these need. A cleared day of `customers_upsert` reads the landing folder again, so delete the customer
there too. The history of both tables keeps the condition, and so the name, as long as their logs go
back: where customers have numbers, ask by number. The Airflow Variable `lake` says where the tables are.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Param

from airflow_provider_deltalite.operators.delta import DeltaDeleteOperator, DeltaUpdateOperator

LAKE = "{{ var.value.get('lake', '/data/lake') }}"
# Whoever triggers the DAG gives a name, and no SQL.
THE_CUSTOMER = "customer = {{ params.customer | sql_literal }}"


with DAG(
    dag_id="customers_forget",
    doc_md=__doc__,
    schedule=None,
    start_date=datetime(2026, 3, 1, tzinfo=UTC),
    params={"customer": Param(type="string", minLength=1, description="The name, as it is in the tables.")},
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    tags=["deltalite", "example"],
):
    # [START delete]
    DeltaDeleteOperator(
        task_id="delete",
        table=f"{LAKE}/customers",
        condition=THE_CUSTOMER,
        user_metadata="the customer asked to be forgotten",
    )
    # [END delete]
    # [START make_anonymous]
    DeltaUpdateOperator(
        task_id="make_anonymous",
        table=f"{LAKE}/orders",
        set={"customer": "NULL", "note": "NULL"},
        condition=THE_CUSTOMER,
        user_metadata="the customer asked to be forgotten",
    )
    # [END make_anonymous]
