"""Convert a folder of Parquet files into a Delta table, once.

Another system has written `clicks` into folders by day (`day=2026-03-01`), and no longer writes there. The task makes a
Delta table of the folder in place. It moves no file, and reads only the footers of the files. Their statistics then
let queries skip files. You can run the task again at any time: it does not change a folder that is already a table. The
Airflow Variable `landing` names the parent folder.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from airflow_provider_deltalite.operators.delta import DeltaConvertOperator

with DAG(
    dag_id="landing_convert",
    doc_md=__doc__,
    schedule="@once",
    start_date=datetime(2026, 3, 1, tzinfo=UTC),
    catchup=False,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    tags=["deltalite", "example"],
):
    # [START convert]
    DeltaConvertOperator(
        task_id="convert",
        table="{{ var.value.get('landing', '/data/landing') }}/clicks",
        partition_schema="day DATE",
    )
    # [END convert]
