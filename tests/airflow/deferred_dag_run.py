"""A DAG with a deferrable task, and the program that runs it as `airflow dags test` does.

The program writes a JSON file with the state of the run and the result of the task.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG

from airflow_provider_deltalite.operators.delta import DeltaWriteOperator

with DAG("deferred", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)):
    DeltaWriteOperator(
        task_id="load",
        table=f"{os.environ['TEST_LAKE']}/orders",
        source={"format": "csv", "path": "/in"},
        shared_folder=True,
        deferrable=True,
    )

if __name__ == "__main__":
    import pytest
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    from tests.support.airflow_versions import DagBag
    from tests.support.api_server import share_api_server

    share_api_server(pytest.MonkeyPatch())
    run = DagBag(Path(__file__)).dags["deferred"].test(logical_date=datetime(2026, 1, 1, tzinfo=UTC))
    with create_session() as session:
        (xcom,) = session.query(XComModel).filter_by(key="return_value")
        result = XComModel.deserialize_value(xcom)
    Path(sys.argv[1]).write_text(json.dumps({"state": str(run.state), "version": result["version"]}))
