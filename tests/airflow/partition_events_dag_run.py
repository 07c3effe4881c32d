"""DAGs that produce and consume partitions of a table, and the program that runs the producers in a separate process.

The program writes a JSON file. For each producer, the file contains the events that Airflow stored and the DAG runs
that these events start.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG, AssetAlias, PartitionedAssetTimetable, PartitionedAtRuntime, task

from airflow_provider_deltalite.assets.delta import delta_asset
from airflow_provider_deltalite.operators.delta import DeltaWriteOperator

lake = os.environ["TEST_LAKE"]
START = datetime(2026, 1, 1, tzinfo=UTC)
ORDERS = delta_asset(f"{lake}/orders")
LOAD = {"table": f"{lake}/orders", "source": {"format": "csv", "path": "/in"}}

with DAG("runtime_producer", schedule=PartitionedAtRuntime(), start_date=START):
    DeltaWriteOperator(task_id="load", outlets=[ORDERS], **LOAD)

with DAG("daily_producer", schedule=None, start_date=START):
    DeltaWriteOperator(task_id="load", outlets=[ORDERS], **LOAD)

with DAG("alias_producer", schedule=None, start_date=START):
    outlets = [ORDERS, AssetAlias("all_orders")]
    DeltaWriteOperator(task_id="load", partition_events=True, outlets=outlets, **LOAD)

with DAG("each_partition", schedule=PartitionedAssetTimetable(assets=ORDERS), start_date=START):

    @task
    def show() -> None:
        """Do nothing; the DAG needs a task."""

    show()

with DAG("each_event", schedule=[ORDERS], start_date=START):
    show()

if __name__ == "__main__":
    import pytest
    from airflow.models.asset import AssetDagRunQueue, AssetEvent, AssetPartitionDagRun
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session
    from sqlalchemy import delete, select, update

    from tests.support.airflow_versions import DagBag
    from tests.support.api_server import share_api_server

    share_api_server(pytest.MonkeyPatch())
    dags = DagBag(Path(__file__)).dags
    stored_by_producer = {}
    for consumer in ("each_partition", "each_event"):
        dags[consumer].test()
    with create_session() as session:
        session.execute(update(DagModel).values(is_paused=False))
    for producer in ("runtime_producer", "daily_producer", "alias_producer"):
        with create_session() as session:
            for model in (AssetEvent, AssetPartitionDagRun, AssetDagRunQueue):
                session.execute(delete(model))
        run = dags[producer].test(logical_date=START)
        with create_session() as session:
            events = list(session.scalars(select(AssetEvent)))
            stored_by_producer[producer] = {
                "state": str(run.state),
                "events": sorted([event.partition_key or "", event.extra] for event in events),
                "partition_runs": sorted(
                    dag_run.partition_key for dag_run in session.scalars(select(AssetPartitionDagRun))
                ),
                "plain_runs": [queued.target_dag_id for queued in session.scalars(select(AssetDagRunQueue))],
            }
    Path(sys.argv[1]).write_text(json.dumps(stored_by_producer))
