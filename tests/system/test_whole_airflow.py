"""The Airflow of the system tests runs a new DAG, and shows the result, the log and the attempt of its task."""

from __future__ import annotations

import pytest

from tests.support.airflow_processes import midnight

pytestmark = [pytest.mark.airflow, pytest.mark.slow]

TRIVIAL = """
from airflow.sdk import DAG, task

with DAG("trivial", schedule=None):
    @task
    def answer(ds=None, dag_run=None):
        print("asked with", dag_run.conf)
        return {"of": ds, "is": dag_run.conf.get("number")}
    answer()
"""


def test_a_new_dag_runs_and_its_xcom_log_and_attempt_are_readable(whole_airflow):
    whole_airflow.add_dag("trivial", TRIVIAL)
    run_id = whole_airflow.run("trivial", logical_date=midnight("2026-03-01"), number=42)
    assert whole_airflow.xcom("trivial", run_id, "answer") == {"of": "2026-03-01", "is": 42}
    assert "asked with {'number': 42}" in whole_airflow.task_log("trivial", run_id, "answer")
    assert whole_airflow.task("trivial", run_id, "answer")["try_number"] == 1
