"""A DAG whose OpenLineage events a test reads, and the program that runs it in a separate process.

OpenLineage's listener reads its settings only when Airflow loads its plugins. The environment of the process therefore
names the file for the events. `dag.test()` runs each task with its listeners, as a worker does.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG, Asset

from airflow_provider_deltalite.operators.delta import DeltaDeleteOperator, DeltaMergeOperator, DeltaWriteOperator
from airflow_provider_deltalite.sensors.delta import DeltaVersionSensor

lake = os.environ["TEST_LAKE"]

with DAG("lineage", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)):
    load = DeltaWriteOperator(
        task_id="load",
        table=f"file:{lake}/orders/",
        source={"format": "csv", "path": f"{lake}/in/{{{{ ds }}}}/*.csv"},
        query="SELECT id FROM source",
        inlets=[Asset("rules", uri="s3://rules/orders.yaml")],
        outlets=[Asset("orders", uri=f"file://{lake}/orders")],
    )
    wait = DeltaVersionSensor(task_id="wait", table=f"{lake}/orders", after_version=-1, timeout=30)
    upsert = DeltaMergeOperator(
        task_id="upsert",
        table=f"{lake}/customers",
        source={"format": "delta", "path": f"{lake}/orders"},
        on="target.id = source.id",
        when_matched=[{"update": "*"}],
    )
    forget = DeltaDeleteOperator(task_id="forget", table=f"{lake}/customers", condition="nothing = 1")
    load >> wait >> upsert >> forget

if __name__ == "__main__":
    import pytest

    from tests.support.airflow_versions import DagBag
    from tests.support.api_server import share_api_server

    share_api_server(pytest.MonkeyPatch())
    dag = DagBag(Path(__file__)).dags["lineage"]
    for _ in range(2):
        dag.test(logical_date=datetime(2026, 1, 1, tzinfo=UTC), run_after=datetime(2026, 1, 2, tzinfo=UTC))
