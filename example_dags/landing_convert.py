"""A folder of Parquet files becomes a Delta table, once.

Some other system has written `clicks` into folders by day (`day=2026-03-01`) and will not do so any more. The task
makes a table of the folder where it lies: no file is moved or read beyond its footer, and the statistics of the footers
serve queries from then on. It may run again at any time: a folder that is a table already is left alone. The Airflow
Variable `landing` says where the folder is.
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
