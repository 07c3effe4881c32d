"""Vacuum each table of the lake every week, with an optional dry run.

Overwrites, merges and deletes leave files that only old versions need. Killed jobs leave files that no version names.
One mapped task for each table deletes such files after the table's retention (`delta.deletedFileRetentionDuration`,
seven days by default).

- Trigger the DAG with `{"dry_run": true}` to see in the task's log which files a vacuum would delete.
- Trigger it with `{"mode": "lite"}` for a large table whose folder takes long to list.

The Airflow Variable `lake` names the folder of the tables.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Param

from airflow_provider_deltalite.operators.delta import DeltaVacuumOperator

LAKE = "{{ var.value.get('lake', '/data/lake') }}"

with DAG(
    dag_id="lake_vacuum",
    doc_md=__doc__,
    schedule="@weekly",
    start_date=datetime(2026, 3, 1, tzinfo=UTC),
    catchup=False,
    max_active_tasks=2,
    params={"dry_run": Param(False, type="boolean"), "mode": Param("full", enum=["full", "lite"])},
    default_args={"retries": 2, "retry_delay": timedelta(minutes=5)},
    tags=["deltalite", "example"],
):
    # [START vacuum]
    DeltaVacuumOperator.partial(task_id="vacuum", mode="{{ params.mode }}", dry_run="{{ params.dry_run }}").expand(
        table=[f"{LAKE}/orders", f"{LAKE}/order_totals"]
    )
    # [END vacuum]
