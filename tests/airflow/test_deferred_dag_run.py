"""`airflow dags test` runs a deferrable task to its end, with stand-ins for YARN and `spark-submit`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.airflow.dag_run_process import run_dag_program
from tests.support.resource_manager import PRINT_YARN_ID, RUNNING_STATE, resource_manager

PROGRAM = Path(__file__).with_name("deferred_dag_run.py")
COMMIT = """
import json
request_file = sys.argv[sys.argv.index("--files") + 1].split(",")[-1]
identity = json.load(open(request_file))["identity"]
txn = {{"appId": identity["app_id"], "version": identity["txn_version"]}}
actions = [{{"commitInfo": {{"timestamp": 9, "operation": "WRITE"}}}}, {{"txn": txn}}]
open({commit!r}, "w").write("\\n".join(map(json.dumps, actions)))
"""


@pytest.mark.campaign
def test_a_deferrable_task_ends_with_its_result(tmp_path, make_stand_in, make_table, airflow_db):
    table = make_table(tmp_path / "lake" / "orders")
    table.create()
    stand_in = make_stand_in(tmp_path)
    stand_in.set_script(COMMIT.format(commit=str(table.root / "_delta_log" / f"{1:020}.json")) + PRINT_YARN_ID)
    with resource_manager() as yarn:
        yarn.answers = [RUNNING_STATE, yarn.finished_state()]
        output = run_dag_program(PROGRAM, tmp_path, stand_in, airflow_db, AIRFLOW_CONN_SPARK_DEFAULT=yarn.connection)
    stored_file = tmp_path / "stored.json"
    assert stored_file.exists(), output
    assert json.loads(stored_file.read_text()) == {"state": "success", "version": 1}
