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
from tests.support.tables import rows

TRACKED_MODES = pytest.mark.parametrize("mode", ["yarn-cluster", "pod"], indirect=True)


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
@pytest.mark.parametrize("mode", ["yarn-cluster", "pod", "pod-untracked"], indirect=True)
def test_a_kill_of_the_task_kills_the_job_and_leaves_no_commit(mode):
    earlier_jobs = mode.applications().keys()
    load = DeltaWriteOperator(**slow_write(mode, "orders"))

    def running_jobs():
        return [
            job_id for job_id, state in mode.applications().items() if job_id not in earlier_jobs and state == "RUNNING"
        ]

    with BackgroundTask(lambda: mode.run(load)) as background:
        (job_id,) = wait_until("the job runs", running_jobs)
        load.on_kill()
    assert [type(error) for error in background.errors] == [DeltaJobError]
    wait_until("the job is killed", lambda: mode.applications().get(job_id, "KILLED") == "KILLED")
    if mode.kubernetes is not None:
        wait_until("the pod is deleted", lambda: job_id not in mode.applications())
        wait_until("the Secret of the request is deleted", lambda: job_id not in mode.kubernetes.owners_of_secrets())
    assert mode.commit_files("orders") == []


@pytest.mark.campaign
@pytest.mark.parametrize("mode", ["standalone", "yarn-client", "pod-client"], indirect=True)
def test_a_kill_of_the_task_ends_a_driver_on_the_worker_with_its_executors_and_leaves_no_file(mode):
    load = write_of(mode, range(80), sleep_ms=500)
    with BackgroundTask(lambda: mode.run(load)) as background:
        application_id = wait_until("the job runs", mode.event_logs.running_application)
        wait_until("the job writes its second files", lambda: is_in_the_middle(mode))
        load.on_kill()
    assert [type(error) for error in background.errors] == [DeltaJobError]
    wait_until("the executors have ended", lambda: executor_processes(application_id) == {})
    assert mode.files("orders") == []


@pytest.mark.campaign
@pytest.mark.parametrize("driver", ["killed", "orphaned"])
@pytest.mark.parametrize("mode", ["standalone", "yarn-client", "pod-client"], indirect=True)
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
