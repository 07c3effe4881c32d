"""Killed tasks and workers, on a real YARN and a real Kubernetes: the job ends, or the next attempt joins it."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from airflow_provider_deltalite.failures import DeltaJobError
from airflow_provider_deltalite.operators.delta import DeltaWriteOperator
from tests.clusters.conftest import slow_write, wait_for

TRACKED = pytest.mark.parametrize("mode", ["yarn-cluster", "pod"], indirect=True)


@pytest.mark.sample("yarn-cluster")
@pytest.mark.parametrize("state", ["RUNNING", "FINISHED"])
@TRACKED
def test_a_retry_after_a_killed_worker_returns_the_result_of_its_job(mode, state):
    parameters = slow_write(mode, "orders")
    earlier = mode.applications().keys()
    worker = mode.start_worker("DeltaWriteOperator", parameters)
    try:
        stored = mode.state("load")
        wait_for("The job was submitted", lambda: stored.exists() and "spark_job_id_0" in stored.read_text())
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
    (job,) = mode.applications().keys() - earlier
    wait_for(f"The job was {state}", lambda: mode.applications()[job] == state)
    result = mode.run(DeltaWriteOperator(**parameters), try_number=2)
    assert (result["version"], result["committed"], result["metrics"]["numOutputRows"]) == (0, True, 1)
    assert mode.applications().keys() - earlier <= {job}
    assert mode.commits("orders") == ["00000000000000000000.json"]


@pytest.mark.campaign
@pytest.mark.parametrize("mode", ["yarn-cluster", "pod", "pod-untracked"], indirect=True)
def test_a_kill_of_the_task_kills_the_job_and_leaves_no_commit(mode):
    earlier = mode.applications().keys()
    load = DeltaWriteOperator(**slow_write(mode, "orders"))
    errors = []

    def run():
        try:
            mode.run(load)
        except DeltaJobError as error:
            errors.append(error)

    def running_jobs():
        return [job for job, state in mode.applications().items() if job not in earlier and state == "RUNNING"]

    task = threading.Thread(target=run, daemon=True)
    task.start()
    (job,) = wait_for("The job runs", running_jobs)
    load.on_kill()
    task.join(60)
    assert not task.is_alive()
    assert len(errors) == 1
    wait_for("The job was killed", lambda: mode.applications().get(job, "KILLED") == "KILLED")
    if mode.kubernetes is not None:
        wait_for("The pod ended", lambda: job not in mode.applications())
        wait_for("Kubernetes deleted the request", lambda: job not in mode.kubernetes.owners_of_secrets())
    assert mode.commits("orders") == []
