"""Deferred tasks of a whole Airflow on a real YARN and a real Kubernetes: a killed triggerer, and a killed driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.clusters.conftest import Mode, slow_write, wait_until
from tests.support.airflow_processes import WholeAirflow
from tests.support.clusters.pods import kill_processes
from tests.support.postgres import postgres

pytestmark = pytest.mark.campaign
DEFERRED_MODES = pytest.mark.parametrize("mode", ["yarn-deferred", "pod-deferred"], indirect=True)
DAG_ID, TASK_ID = "nightly", "load"
DAG = """
from datetime import datetime, timedelta
from airflow.sdk import DAG
from airflow_provider_deltalite.operators.delta import DeltaWriteOperator

with DAG({dag_id!r}, schedule=None, start_date=datetime(2026, 1, 1), default_args={{"retry_delay": timedelta(0)}}):
    DeltaWriteOperator(**{parameters!r})
"""


@contextmanager
def deferred_write(mode: Mode) -> Iterator[tuple[WholeAirflow, str, str]]:
    """Run a DAG with a slow write until its task is deferred and its driver runs.

    Yields Airflow, the id of the DAG run, and the id of the job.
    """
    earlier_jobs = mode.applications().keys()
    dag = DAG.format(dag_id=DAG_ID, parameters=slow_write(mode, "orders"))
    with (
        postgres() as database,
        WholeAirflow(mode.folder / "airflow", database=database, variables=mode.worker_environment) as airflow,
    ):
        airflow.add_dag(DAG_ID, dag)
        run_id = airflow.trigger(DAG_ID)
        airflow.wait_for_task(DAG_ID, run_id, TASK_ID, "deferred", timeout=240)
        (job_id,) = mode.applications().keys() - earlier_jobs
        wait_until("the driver runs", lambda: mode.applications()[job_id] == "RUNNING")
        yield airflow, run_id, job_id


def check_result(mode: Mode, airflow: WholeAirflow, run_id: str) -> dict[str, Any]:
    """Wait until the DAG run has succeeded, check its only commit, and return the task instance."""
    airflow.wait_for_run(DAG_ID, run_id, timeout=400)
    result = airflow.xcom(DAG_ID, run_id, TASK_ID)
    assert (result["version"], result["committed"], result["metrics"]["numOutputRows"]) == (0, True, 1)
    assert mode.commit_files("orders") == ["00000000000000000000.json"]
    return airflow.task(DAG_ID, run_id, TASK_ID)


@DEFERRED_MODES
def test_a_job_that_ends_while_no_triggerer_runs_has_its_result_in_the_same_attempt(mode):
    with deferred_write(mode) as (airflow, run_id, job_id):
        earlier_jobs = mode.applications().keys()
        airflow.kill("triggerer")
        wait_until("the job has ended", lambda: mode.applications()[job_id] == "FINISHED")
        airflow.start("triggerer")
        task = check_result(mode, airflow, run_id)
        assert task["try_number"] == 1
        assert mode.applications().keys() <= earlier_jobs


@DEFERRED_MODES
def test_a_deferred_task_whose_driver_is_killed_is_retried_and_commits_once(mode):
    with deferred_write(mode) as (airflow, run_id, job_id):
        if mode.yarn is not None:
            mode.yarn.kill_driver(job_id)
        else:
            kill_processes(mode.kubernetes, job_id)
        assert check_result(mode, airflow, run_id)["try_number"] == 2
        assert mode.applications()[job_id] == "FAILED"
