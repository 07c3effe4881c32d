"""Killed tasks and workers, on real clusters: the job ends, or the next attempt joins it."""

from __future__ import annotations

import os
import signal

import pytest

from airflow_provider_deltalite.failures import DeltaJobError
from airflow_provider_deltalite.operators.delta import DeltaWriteOperator
from tests.clusters.conftest import slow_write, submit_and_kill_worker, wait_until
from tests.clusters.slow_jobs import is_in_the_middle, write_of
from tests.support.background_tasks import BackgroundTask
from tests.support.clusters.executors import executor_processes
from tests.support.clusters.table_checks import check_table, files_that_a_vacuum_deletes, files_without_commit
from tests.support.tables import rows

TRACKED_MODES = pytest.mark.parametrize("mode", ["yarn-cluster", "pod"], indirect=True)
ROWS = [(number, "old") for number in range(80)]


@pytest.mark.sample("yarn-cluster")
@pytest.mark.parametrize("state", ["RUNNING", pytest.param("FINISHED", marks=pytest.mark.campaign)])
@TRACKED_MODES
def test_a_retry_after_a_killed_worker_returns_the_result_of_its_job(mode, state):
    parameters = slow_write(mode, "orders", conf={"spark.executor.instances": "1"})
    earlier_jobs = mode.applications().keys()
    job_id = submit_and_kill_worker(mode, parameters)
    wait_until(f"the job is {state}", lambda: mode.applications()[job_id] == state)
    result = mode.run(DeltaWriteOperator(**parameters), try_number=2)
    assert (result["version"], result["committed"], result["metrics"]["numOutputRows"]) == (0, True, 1)
    assert mode.applications().keys() - earlier_jobs <= {job_id}
    assert mode.commit_files("orders") == ["00000000000000000000.json"]


@pytest.mark.campaign
@pytest.mark.parametrize("mode", ["yarn-cluster", "untracked", "pod", "pod-untracked"], indirect=True)
def test_a_kill_of_the_task_kills_the_job_in_the_cluster_and_leaves_no_commit(mode, capsys):
    """The operator runs the program `yarn` to kill an application that it does not track."""
    if mode.name == "untracked":
        program = mode.yarn.write_yarn_program(mode.folder)
        mode.cluster_variables["PATH"] = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    (job_id,), application_id = kill_in_the_middle(mode)
    wait_until("the job is killed", lambda: mode.applications().get(job_id, "KILLED") == "KILLED")
    wait_until("the executors have ended", lambda: executor_processes(application_id) == {})
    if mode.kubernetes is not None:
        wait_until("the pod is deleted", lambda: job_id not in mode.applications())
        wait_until("the Secret of the request is deleted", lambda: job_id not in mode.kubernetes.owners_of_secrets())
    assert mode.commit_files("orders") == []
    check_retry(mode)
    table = mode.local_table("orders")
    assert files_without_commit(table) <= files_that_a_vacuum_deletes(table, capsys)


@pytest.mark.campaign
@pytest.mark.parametrize("mode", ["untracked"], indirect=True)
def test_a_kill_without_the_program_yarn_leaves_the_application_and_a_retry_leaves_one_commit(mode, capsys):
    (job_id,), _ = kill_in_the_middle(mode)
    assert f"Could not kill {job_id}: this worker has no program 'yarn'" in capsys.readouterr().out
    check_retry(mode)
    wait_until("the application has finished", lambda: mode.applications()[job_id] == "FINISHED")
    check_table(mode.local_table("orders"), ROWS)
    assert mode.commit_files("orders") == ["00000000000000000000.json"]


def slow_load(mode):
    """A write of `ROWS` whose tasks take seconds."""
    return write_of(mode, range(80), sleep_ms=500)


def kill_in_the_middle(mode):
    """Kill a task in the middle of the output of its job.

    Returns the ids of the jobs that the cluster lists for the task, and Spark's id of its application.
    """
    earlier_jobs = mode.applications().keys()
    load = slow_load(mode)
    with BackgroundTask(lambda: mode.run(load)) as background:
        application_id = wait_until("the job runs", mode.event_logs.running_application)
        wait_until("the job writes its second files", lambda: is_in_the_middle(mode))
        job_ids = mode.applications().keys() - earlier_jobs
        load.on_kill()
    assert [type(error) for error in background.errors] == [DeltaJobError]
    return job_ids, application_id


def check_retry(mode):
    """Run the next attempt of a killed task, and check that the table has each row once."""
    result = mode.run(slow_load(mode), try_number=2)
    assert (result["version"], result["metrics"]["numOutputRows"]) == (0, 80)
    check_table(mode.local_table("orders"), ROWS)


@pytest.mark.campaign
@pytest.mark.parametrize("mode", ["local", "standalone", "yarn-client", "pod-client"], indirect=True)
def test_a_kill_of_the_task_ends_a_driver_on_the_worker_with_its_executors_and_leaves_no_file(mode):
    _, application_id = kill_in_the_middle(mode)
    wait_until("the executors have ended", lambda: executor_processes(application_id) == {})
    assert mode.files("orders") == []


@pytest.mark.campaign
@pytest.mark.parametrize("driver", ["killed", "orphaned"])
@pytest.mark.parametrize("mode", ["local", "standalone", "yarn-client", "pod-client"], indirect=True)
def test_a_retry_after_a_killed_worker_in_client_mode_leaves_one_commit(mode, driver):
    """A container that is killed ends the driver too. A single killed process leaves the driver, which commits."""
    parameters = slow_write(mode, "orders")
    worker = mode.start_worker("DeltaWriteOperator", parameters)
    application_id = wait_until("the job runs", mode.event_logs.running_application)
    wait_until("a task writes", lambda: any("/attempt_" in name for name in mode.files("orders")))
    if driver == "killed":
        os.killpg(worker.pid, signal.SIGKILL)
    else:
        worker.kill()
    worker.wait()
    result = mode.run(DeltaWriteOperator(**parameters), try_number=2)
    assert (result["version"], result["metrics"]["numOutputRows"]) == (0, 1)
    wait_until("the executors have ended", lambda: executor_processes(application_id) == {})
    wait_until("the killed worker's job has ended", lambda: "RUNNING" not in mode.applications().values())
    assert mode.commit_files("orders") == ["00000000000000000000.json"]
    assert len(rows(mode.local_table("orders"))) == 1
