"""The upkeep of every table of the lake, whichever there are on the day.

A task looks for the tables: the folders of the lake that have a log. For each of them a group of tasks packs small
files, writes the checkpoint of the newest version, and deletes what has passed the table's retention, seven days by
default. The groups go ahead by themselves, two tasks at a time; a table that fails does not hold up the others. The
Airflow Variable `lake` says where the tables are: a path, or a URI.
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
        """The addresses of the tables of the lake."""
        lake = Variable.get("lake", default="/data/lake").rstrip("/")
        folders = ObjectStoragePath(lake).iterdir()
        return sorted(f"{lake}/{folder.name}" for folder in folders if (folder / "_delta_log").is_dir())

    delta_maintenance.partial(optimize={"target_file_size": 128 * 1024 * 1024}).expand(table=tables())
    # [END maintenance]
