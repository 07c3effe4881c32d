"""A real Airflow stores, shows and logs no secret of a task. Only spark-submit is a stand-in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider_deltalite.operators import delta
from tests.airflow.dag_run_process import run_dag_program

pytestmark = [pytest.mark.airflow, pytest.mark.slow]

PROGRAM = Path(__file__).with_name("secrets_dag_run.py")
SAMPLE_OPERATORS = ["DeltaMergeOperator", "DeltaWriteOperator"]


@pytest.fixture(
    scope="module", params=[SAMPLE_OPERATORS, pytest.param(delta.__all__, marks=pytest.mark.campaign)], ids=len
)
def operators(request):
    """The names of the operators of which the DAG has a mapped task."""
    return request.param


@pytest.fixture(scope="module")
def dag_run(tmp_path_factory, make_stand_in, make_table, airflow_db, operators):
    """The values that Airflow stored for the DAG run, and the output of the program that ran it."""
    folder = tmp_path_factory.mktemp("secrets")
    make_table(folder / "lake" / "orders").create()
    stand_in = make_stand_in(folder)
    stand_in.set_script("print('the key is planted-access'); sys.exit(1)")
    settings = {
        "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[*]"}',
        "TEST_OPERATORS": " ".join(operators),
    }
    stored_file = folder / "stored.json"
    output = run_dag_program(PROGRAM, folder, stand_in, airflow_db, **settings)
    assert stored_file.exists(), output
    return json.loads(stored_file.read_text()), output


def test_no_secret_is_in_the_rendered_fields_of_any_task_plain_or_mapped(dag_run, operators):
    stored_values, _ = dag_run
    tasks = [name for name in stored_values if name != "XCom"]
    assert sum("mapped_" in name for name in tasks) == len(operators)
    assert any("maintenance" in name for name in tasks)
    assert {"plain[-1]", "wait[0]"} <= set(tasks)
    assert [name for name, fields in stored_values.items() if "planted" in json.dumps(fields)] == []
    assert stored_values["mapped_DeltaWriteOperator[0]"]["conf"]["spark.hadoop.fs.s3a.access.key"] == "***"


def test_neither_a_task_that_runs_nor_one_with_a_broken_template_logs_a_secret(dag_run):
    _, output = dag_run
    assert "the key is ***" in output
    assert [line for line in output.splitlines() if "planted" in line] == []
