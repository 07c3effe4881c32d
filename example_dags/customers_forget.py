"""Forget a customer who asks for it: delete the row in one table, and make rows anonymous in another.

Trigger the DAG with the customer's name. The first task deletes the row in `customers`. The second task keeps the
orders for accounting, and removes everything that identifies the customer. Each task makes one commit, and a retry
finds the commit of an earlier attempt.

Some copies of the data remain after the run:

- Earlier versions keep the rows until a vacuum deletes the files that only these versions need.
- A cleared day of `customers_upsert` reads the landing folder again, so delete the customer there too.
- The history of both tables keeps the condition with the name until the log expires. If your customers have numbers,
  use the number in the condition.

The Airflow Variable `lake` names the folder of the tables.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Param

from airflow_provider_deltalite.operators.delta import DeltaDeleteOperator, DeltaUpdateOperator

LAKE = "{{ var.value.get('lake', '/data/lake') }}"
# `sql_literal` quotes the name, so the person who triggers the DAG cannot pass SQL.
IS_THE_CUSTOMER = "customer = {{ params.customer | sql_literal }}"


with DAG(
    dag_id="customers_forget",
    doc_md=__doc__,
    schedule=None,
    start_date=datetime(2026, 3, 1, tzinfo=UTC),
    params={"customer": Param(type="string", minLength=1, description="The customer's name in the tables")},
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    tags=["deltalite", "example"],
):
    # [START delete]
    DeltaDeleteOperator(
        task_id="delete",
        table=f"{LAKE}/customers",
        condition=IS_THE_CUSTOMER,
        user_metadata="the customer asked to be forgotten",
    )
    # [END delete]
    # [START make_anonymous]
    DeltaUpdateOperator(
        task_id="make_anonymous",
        table=f"{LAKE}/orders",
        set={"customer": "NULL", "note": "NULL"},
        condition=IS_THE_CUSTOMER,
        user_metadata="the customer asked to be forgotten",
    )
    # [END make_anonymous]
