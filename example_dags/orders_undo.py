"""A bad load is taken back.

A check looks at the orders as they are now, and then at one version before another, until it finds one without orders
of a negative amount. The table is restored to that version, in a new one: nothing is copied, the bad versions stay in
the history, and the change feed says what went. Where the newest version is sound already, the restore only records the
run.

Versions are read on the worker by the columns that are asked for, and files whose statistics exclude a negative amount
are not opened. The Airflow Variable `lake` says where the tables are.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import DAG, Param, task

from airflow_provider_deltalite.operators.delta import DeltaRestoreOperator

ORDERS = "{{ var.value.get('lake', '/data/lake') }}/orders"


# [START sound_version]
@task
def sound_version(table: str, most: str) -> int:
    """The newest version without orders of a negative amount, of the last so many."""
    from deltalite import DeltaTable

    newest = DeltaTable(table).version
    for version in range(newest, max(-1, newest - int(most)), -1):
        if DeltaTable(table, version=version).to_arrow(columns=["amount"], filter=[("amount", "<", 0)]).num_rows == 0:
            return version
    raise AirflowFailException(f"None of the last {most} versions of {table} is sound.")


# [END sound_version]


with DAG(
    dag_id="orders_undo",
    doc_md=__doc__,
    schedule=None,  # triggered by hand, or by whoever found out
    params={"most": Param(20, type="integer", minimum=1, description="How many versions to look at")},
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    tags=["deltalite", "example"],
):
    # [START restore]
    found = sound_version(ORDERS, "{{ params.most }}")
    restore = DeltaRestoreOperator(
        task_id="restore",
        table=ORDERS,
        version="{{ ti.xcom_pull('sound_version') }}",
        user_metadata="{{ run_id }}",
    )
    found >> restore
    # [END restore]
