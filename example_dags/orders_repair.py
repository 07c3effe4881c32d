"""Repair rows that an audit of `orders_quarantine` put into the quarantine, and load them into their table.

Trigger this DAG after you have read the rows and know the repair. The first task reads the record of each row,
which is the row as JSON, repairs it, and inserts the orders that the table does not have. The second task removes from
the quarantine the rows whose orders the table has.

- A retry, a clear and another trigger insert no order twice, because the merge compares the key.
- If a run was killed and later repeated, the quarantine may have a row twice. The merge inserts it once.
- Rows that arrive while the DAG runs stay in the quarantine.

The Airflow Variable `lake` names the folder of the tables.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from airflow_provider_deltalite.operators.delta import DeltaMergeOperator

LAKE = "{{ var.value.get('lake', '/data/lake') }}"

with DAG(
    dag_id="orders_repair",
    doc_md=__doc__,
    schedule=None,
    start_date=datetime(2026, 3, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    tags=["deltalite", "example"],
):
    # [START repair]
    repair = DeltaMergeOperator(
        task_id="repair",
        table=f"{LAKE}/published_orders",
        source={"format": "delta", "path": f"{LAKE}/bad_orders"},
        query="""
            SELECT row.order_id, abs(row.amount) AS amount, at
            FROM (
                SELECT from_json(record, 'order_id BIGINT, amount DECIMAL(12, 2)', map('mode', 'FAILFAST')) AS row, at
                FROM source WHERE audit = 'amounts' AND target LIKE '%/published_orders'
            )
        """,
        deduplicate={"keys": ["order_id"], "order_by": "at"},
        on="target.order_id = source.order_id",
        when_not_matched=[{"insert": {"order_id": "source.order_id", "amount": "source.amount"}}],
        audits=[{"name": "amounts", "rows": "amount IS NULL OR amount < 0"}],
    )
    # [END repair]
    # [START remove]
    remove = DeltaMergeOperator(
        task_id="remove",
        table=f"{LAKE}/bad_orders",
        source={"format": "delta", "path": f"{LAKE}/published_orders"},
        query="SELECT DISTINCT order_id FROM source",
        on="target.audit = 'amounts' AND target.target LIKE '%/published_orders' "
        "AND get_json_object(target.record, '$.order_id') = CAST(source.order_id AS STRING)",
        when_matched=[{"delete": True}],
    )
    # [END remove]
    repair >> remove
