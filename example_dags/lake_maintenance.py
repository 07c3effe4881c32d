"""Maintain every table of the lake in one Spark application, also tables that were added today.

The task reads the log of each table that matches the pattern, and runs the steps that are due: it packs small files,
writes a checkpoint of the newest version, and vacuums. A vacuum deletes files that no version inside the table's
retention (seven days by default) needs. If one table fails, the others continue. No step starts after four hours; the
next run begins with the tables that gain most. With the parameter `dry_run`, the task only reports the health of the
tables. The Airflow Variable `lake` names the folder of the tables, as a path or a URI.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Param

from airflow_provider_deltalite.operators.delta import DeltaLakeMaintenanceOperator

with DAG(
    dag_id="lake_maintenance",
    doc_md=__doc__,
    schedule="@daily",
    start_date=datetime(2026, 3, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    params={"dry_run": Param(False, type="boolean")},
    default_args={"retries": 2, "retry_delay": timedelta(minutes=5)},
    tags=["deltalite", "example"],
):
    # [START maintenance]
    DeltaLakeMaintenanceOperator(
        task_id="maintain",
        pattern="{{ var.value.get('lake', '/data/lake') }}/*",
        target_file_size=128 * 1024 * 1024,
        max_seconds=4 * 3600,
        dry_run="{{ params.dry_run }}",
    )
    # [END maintenance]
