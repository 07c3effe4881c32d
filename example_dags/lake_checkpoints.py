"""Write a checkpoint of each table of the lake every day.

Writes of this package make checkpoints automatically. Other engines may not, and then every reader replays a long log.
One mapped task for each table writes a checkpoint of the newest version and deletes expired files of the log. If the
newest version has a checkpoint, the task writes none. The Airflow Variable `lake` names the folder of the tables.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from airflow_provider_deltalite.operators.delta import DeltaCheckpointOperator

LAKE = "{{ var.value.get('lake', '/data/lake') }}"

with DAG(
    dag_id="lake_checkpoints",
    doc_md=__doc__,
    schedule="@daily",
    start_date=datetime(2026, 3, 1, tzinfo=UTC),
    catchup=False,
    max_active_tasks=4,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=5)},
    tags=["deltalite", "example"],
):
    # [START checkpoint]
    DeltaCheckpointOperator.partial(task_id="checkpoint").expand(table=[f"{LAKE}/orders", f"{LAKE}/order_totals"])
    # [END checkpoint]
