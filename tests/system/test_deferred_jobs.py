"""Deferred operators under a real scheduler and a real triggerer. YARN and `spark-submit` are stand-ins.

The stand-in for `spark-submit` keeps the request of each job, and the test commits it as the driver does.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from deltalite.requests import WriteRequest
from tests.faults.programs import write_ids
from tests.support.clusters.yarn import write_sites
from tests.support.resource_manager import RUNNING_STATE, resource_manager

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.campaign]

DAG_ID = "deferred_jobs"
CONN_ID = "yarn_of_deferred_jobs"
DAG = f"""
from datetime import datetime
from airflow.sdk import DAG
from airflow_provider_deltalite.operators.delta import DeltaWriteOperator

with DAG({DAG_ID!r}, schedule=None, start_date=datetime(2026, 1, 1)):
    DeltaWriteOperator(
        task_id="load", conn_id={CONN_ID!r}, deferrable=True, spark_binary="{{submit}}", shared_folder=True,
        table="{{{{{{{{ var.value.lake }}}}}}}}/deferred", source={{{{"format": "csv", "path": "/in"}}}},
        env_vars={{{{"DB_PASSWORD": "planted-password", "HADOOP_CONF_DIR": "{{hadoop}}"}}}},
    )
"""
SUBMIT = """\
#!{python}
import os, shutil, sys
(request,) = [path for argument in sys.argv for path in argument.split(",") if path.endswith("/" + sys.argv[-1])]
number = len(os.listdir({requests!r})) + 1
shutil.copy(request, os.path.join({requests!r}, f"{{number}}.json"))
print(f"26/01/01 00:00:00 INFO YarnClientImpl: Submitted application application_1700000000000_{{number:04}}")
"""


class DeferredJobs:
    """The DAG, its cluster, and the requests of the submitted jobs, in a separate folder."""

    def __init__(self, airflow, manager, folder: Path) -> None:
        self.airflow, self.manager = airflow, manager
        self.requests = folder / "requests"
        self.requests.mkdir(parents=True)
        submit = folder / "submit"
        submit.write_text(SUBMIT.format(python=sys.executable, requests=str(self.requests)))
        submit.chmod(0o755)
        airflow.cli("connections", "add", CONN_ID, "--conn-json", manager.connection)
        # The operator rejects the password in a cluster whose containers' logs would show it.
        write_sites(folder, {"yarn-site": {"yarn.nodemanager.log-container-debug-info.enabled": "false"}})
        airflow.add_dag(DAG_ID, DAG.format(submit=submit, hadoop=folder))

    def start(self) -> str:
        """Start a DAG run in which the job runs, and return the id of the run."""
        self.manager.answers = [RUNNING_STATE]
        return self.airflow.trigger(DAG_ID)

    def wait_for_poll(self, run_id: str, job: int) -> None:
        """Wait until the task is deferred and the triggerer polls the job with this number."""
        self.airflow.wait_for_task(DAG_ID, run_id, "load", "deferred")
        path, count_before = f"/ws/v1/cluster/apps/{self.application(job)}", len(self.manager.requested_paths)
        self.airflow.until(
            f"the triggerer polls job {job}", lambda: path in self.manager.requested_paths[count_before:], timeout=90
        )

    def wait_for_kill(self, job: int) -> None:
        """Wait until the triggerer has killed the job with this number, and no other."""
        paths = [f"/ws/v1/cluster/apps/{self.application(job)}/state"]
        self.airflow.until(f"job {job} is killed", lambda: self.manager.kill_paths == paths)
        self.manager.kill_paths.clear()

    def finish(self, job: int) -> None:
        """Commit as the driver of this job, and end its application."""
        request = WriteRequest.from_json((self.requests / f"{job}.json").read_text())
        write_ids(None, request.table, run=request.identity.app_id, ids=[job], identity=request.identity)
        self.manager.answers = [self.manager.finished_state()]

    @staticmethod
    def application(job: int) -> str:
        """The id of the application of the job with this number."""
        return f"application_1700000000000_{job:04}"


@pytest.fixture(scope="module")
def jobs(whole_airflow, tmp_path_factory):
    with resource_manager() as manager:
        yield DeferredJobs(whole_airflow, manager, tmp_path_factory.mktemp("deferred"))


def test_a_job_survives_a_restart_of_the_triggerer_and_the_task_returns_its_commit(jobs):
    run_id = jobs.start()
    jobs.wait_for_poll(run_id, 1)
    jobs.airflow.stop("triggerer")
    jobs.airflow.start("triggerer")
    jobs.wait_for_poll(run_id, 1)
    assert jobs.manager.kill_paths == []
    jobs.finish(1)
    jobs.airflow.wait_for_run(DAG_ID, run_id)
    result = jobs.airflow.xcom(DAG_ID, run_id, "load")
    assert (result["version"], result["committed"], result["skipped"]) == (0, True, False)
    assert len(list(jobs.requests.iterdir())) == 1
    log = jobs.airflow.task_log(DAG_ID, run_id, "load")
    assert "Pausing task as DEFERRED" in log and "planted-password" not in log


def test_a_task_that_a_user_marks_as_failed_or_clears_kills_its_job(jobs):
    run_id = jobs.start()
    jobs.wait_for_poll(run_id, 2)
    jobs.airflow.ask("PATCH", f"dags/{DAG_ID}/dagRuns/{run_id}/taskInstances/load", {"new_state": "failed"})
    jobs.wait_for_kill(2)
    jobs.airflow.wait_for_run(DAG_ID, run_id, state="failed")

    jobs.airflow.clear(DAG_ID, run_id)
    jobs.wait_for_poll(run_id, 3)
    jobs.airflow.clear(DAG_ID, run_id)
    jobs.wait_for_kill(3)
    jobs.wait_for_poll(run_id, 4)
    jobs.finish(4)
    jobs.airflow.wait_for_run(DAG_ID, run_id)
    assert jobs.airflow.xcom(DAG_ID, run_id, "load")["committed"] is True
    assert jobs.manager.kill_paths == []
