"""Load each file of a landing folder once.

Each DAG run appends the files that the table has not loaded. The commit that holds the rows also holds the record of
their files, so runs need no order, and a renamed DAG loads no file again. The Airflow Variable `lake` names the folder
of the tables, and `landing` the folder with the files.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from airflow_provider_deltalite.operators.delta import DeltaCopyOperator

LAKE = "{{ var.value.get('lake', '/data/lake') }}"
LANDING = "{{ var.value.get('landing', '/data/landing') }}"

with DAG(
    dag_id="orders_landing",
    doc_md=__doc__,
    schedule="@hourly",
    start_date=datetime(2026, 3, 1, tzinfo=UTC),
    catchup=False,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    tags=["deltalite", "example"],
):
    # [START load]
    DeltaCopyOperator(
        task_id="load",
        table=f"{LAKE}/orders_landing",
        source={"format": "csv", "path": LANDING, "options": {"header": "true"}},
        pattern="*.csv",
        file_column="source_file",
        max_files=10_000,
    )
    # [END load]
