"""The example submitter runs operators as batches, which `spark-submit` runs with a real Spark.

The server follows Livy's contract. To use a real Livy instead, name it in the variable `LIVY_ADDRESS` (host:port). It
must read the temporary folder of this machine.
"""

from __future__ import annotations

import json
import os
import sys

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_deltalite.operators.delta import DeltaDeleteOperator, DeltaTableOperator, DeltaWriteOperator
from tests.support.clusters.tasks import context_of, run_attempt
from tests.support.livy_server import PATH_OF_EXAMPLE, import_example, livy_server

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow, pytest.mark.campaign]

SETTINGS = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.pyspark.python": sys.executable}


@pytest.fixture
def livy(tmp_path, monkeypatch):
    """The dotted path of the submitter. The connection `livy` names a server, and a folder below `tmp_path`."""
    import_example(monkeypatch)
    with livy_server(tmp_path) as server:
        address = os.environ.get("LIVY_ADDRESS", f"127.0.0.1:{server.http.server_port}")
        host, _, port = address.rpartition(":")
        extra = {"staging": f"file://{tmp_path}/staging"}
        connection = {"conn_type": "http", "host": host, "port": int(port), "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_LIVY", json.dumps(connection))
        yield PATH_OF_EXAMPLE


def test_tables_are_written_by_batches(livy, tmp_path, capsys):
    """Create a table, write to it with a deferral, fail once, delete a row, and repeat the delete."""
    rows = tmp_path / "rows.csv"
    rows.write_text("id\n1\n2\n3\n")
    table, failing_table = str(tmp_path / "lake" / "orders"), str(tmp_path / "lake" / "strings")
    parameters = {
        "submit_with": livy, "conn_id": "livy", "shared_folder": True, "conf": SETTINGS, "retries": 2,
        "driver_memory": "1g",
    }  # fmt: skip
    source = {"format": "csv", "path": f"file://{rows}", "options": {"header": "true"}, "schema": "id BIGINT"}

    def run(operator):
        return run_attempt(operator, context_of(operator.task_id, tmp_path / f"{operator.task_id}.json"))

    run(DeltaTableOperator(task_id="create", table=table, schema="id BIGINT", **parameters))
    write = DeltaWriteOperator(task_id="write", table=table, source=source, deferrable=True, **parameters)
    assert run(write)["metrics"]["numOutputRows"] == 3
    delete = DeltaDeleteOperator(task_id="delete", table=table, condition="id = 2", **parameters)
    assert run(delete)["metrics"]["numDeletedRows"] == 1
    assert run(delete)["skipped"] is True
    run(DeltaTableOperator(task_id="strings", table=failing_table, schema="id DATE", **parameters))
    capsys.readouterr()
    with pytest.raises(AirflowFailException, match="SchemaMismatchError"):
        run(DeltaWriteOperator(task_id="fail", table=failing_table, source=source, **parameters))
    log = capsys.readouterr().out
    assert "Traceback of the job" in log and "deltalite.errors.SchemaMismatchError" in log
    assert list((tmp_path / "staging").iterdir()) == [], "the operator removes the copies of the files"
