"""Maintain every table of the lake, also tables that were added today.

The first task lists the tables: the folders of the lake that contain a Delta log. For each table, a task group packs
small files, writes a checkpoint of the newest version, and vacuums. The vacuum deletes files that no version inside the
table's retention (seven days by default) needs. The groups are independent: if one table fails, the others continue.
Two tasks run at a time. The Airflow Variable `lake` names the folder of the tables, as a path or a URI.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, ObjectStoragePath, Variable, task

from airflow_provider_deltalite.task_groups.delta import delta_maintenance

with DAG(
    dag_id="lake_maintenance",
    doc_md=__doc__,
    schedule="@daily",
    start_date=datetime(2026, 3, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    max_active_tasks=2,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=5)},
    tags=["deltalite", "example"],
):
    # [START maintenance]
    @task
    def tables() -> list[str]:
        """Return the addresses of the tables of the lake."""
        lake = Variable.get("lake", default="/data/lake").rstrip("/")
        folders = ObjectStoragePath(lake).iterdir()
        return sorted(f"{lake}/{folder.name}" for folder in folders if (folder / "_delta_log").is_dir())

    delta_maintenance.partial(optimize={"target_file_size": 128 * 1024 * 1024}).expand(table=tables())
    # [END maintenance]
