"""Undo a bad load.

The first task checks at most 20 versions of `orders` (`checked_versions`), the newest first, until it finds a version
without negative amounts. The second task restores the table to that version:

- The restore is a new commit that copies no file. The bad versions stay in the history. If the table has a change data
  feed, the feed contains the removed rows.
- If the newest version is valid, the restore changes no file. Its commit only records the DAG run.

The worker reads only the column `amount`, and opens no file whose statistics exclude negative amounts. The Airflow
Variable `lake` names the folder of the tables.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import DAG, Param, task

from airflow_provider_deltalite.operators.delta import DeltaRestoreOperator

ORDERS = "{{ var.value.get('lake', '/data/lake') }}/orders"


# [START newest_valid_version]
@task
def newest_valid_version(table: str, checked_versions: str) -> int:
    """Return the newest version without negative amounts, among the last `checked_versions` versions."""
    from deltalite import DeltaTable

    newest_version = DeltaTable(table).version
    for version in range(newest_version, max(-1, newest_version - int(checked_versions)), -1):
        if DeltaTable(table, version=version).to_arrow(columns=["amount"], filter=[("amount", "<", 0)]).num_rows == 0:
            return version
    raise AirflowFailException(f"Each of the last {checked_versions} versions of {table} contains negative amounts.")


# [END newest_valid_version]


with DAG(
    dag_id="orders_undo",
    doc_md=__doc__,
    schedule=None,  # trigger it when you find a bad load
    params={"checked_versions": Param(20, type="integer", minimum=1, description="How many versions to check")},
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    tags=["deltalite", "example"],
):
    # [START restore]
    version = newest_valid_version(ORDERS, "{{ params.checked_versions }}")
    restore = DeltaRestoreOperator(
        task_id="restore",
        table=ORDERS,
        version="{{ ti.xcom_pull('newest_valid_version') }}",
        user_metadata="{{ run_id }}",
    )
    version >> restore
    # [END restore]
