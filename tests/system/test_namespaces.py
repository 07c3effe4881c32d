"""Two deployments that write to one table, with the same DAG name and the same run ids."""

from __future__ import annotations

import pytest

from deltalite import DeltaTable
from tests.faults.programs import write_ids
from tests.support.airflow_processes import WholeAirflow
from tests.support.postgres import postgres
from tests.system.stand_in import write_committing_stand_in

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.campaign]

DAG = """
from airflow.sdk import DAG
from airflow_provider_deltalite.operators.delta import DeltaWriteOperator

with DAG("nightly", schedule=None):
    DeltaWriteOperator(
        task_id="load", table={table!r}, source={{"format": "csv", "path": "/in"}}, spark_binary={program!r},
        user_metadata="{{{{ dag_run.conf['id'] }}}}",
    )
"""


def test_the_same_run_of_two_deployments_writes_twice_under_two_namespaces(whole_airflow, tmp_path):
    table, program = str(tmp_path / "shared"), tmp_path / "commits"
    write_ids(None, table, run="another", ids=[0])
    write_committing_stand_in(program)
    dag = DAG.format(table=table, program=str(program))

    def run_dag(airflow, number):
        airflow.add_dag("nightly", dag)
        airflow.run("nightly", run_id="same", id=number)
        return airflow.xcom("nightly", "same", "load")

    first_result = run_dag(whole_airflow, 1)
    variables = {"AIRFLOW__DELTALITE__NAMESPACE": "other/deployment"}
    with (
        postgres() as database,
        WholeAirflow(tmp_path / "other", database=database, variables=variables) as other_airflow,
    ):
        second_result = run_dag(other_airflow, 2)
        other_airflow.clear("nightly", "same")
        other_airflow.wait_for_run("nightly", "same")
        result_after_clear = other_airflow.xcom("nightly", "same", "load")
    assert first_result["app_id"] == "airflow/nightly/load/-1/same"
    assert second_result["app_id"] == "other%2Fdeployment/nightly/load/-1/same"
    assert (first_result["committed"], second_result["committed"]) == (True, True)
    assert result_after_clear == {**second_result, "committed": False, "skipped": True}
    assert sorted(row["id"] for row in DeltaTable(table).to_arrow().to_pylist()) == [0, 1, 2]
