"""Killed tasks and workers in front of a real YARN: the application ends, or the next attempt joins it."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from airflow_provider_deltalite.failures import DeltaJobError
from airflow_provider_deltalite.operators.delta import DeltaWriteOperator

YARN_CLUSTER = pytest.mark.parametrize("mode", ["yarn-cluster"], indirect=True)
# The rows take some seconds, so that the job still runs when it is killed or joined.
SLOW_QUERY = "SELECT java_method('java.lang.Thread', 'sleep', 10000L * id) AS slept, id FROM source"


def slow_write(mode, table: str) -> dict:
    """The parameters of a write that takes ten seconds on its own."""
    file = mode.folder / "rows.csv"
    file.write_text("id\n1\n")
    source = {"format": "csv", "path": f"file://{file}", "options": {"header": "true"}, "schema": "id LONG"}
    return mode.parameters("load", table, source=source, query=SLOW_QUERY)


def wait_for(event, condition, *, seconds=180):
    """Wait until a condition returns something."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{event} did not happen in {seconds} s"
        time.sleep(0.5)
    return value


def commits(mode, yarn, table: str) -> list[str]:
    """The commit files of a table."""
    names = yarn.names(f"{mode.lake.removeprefix(yarn.hdfs)}/{table}/_delta_log")
    return [name for name in names if name.endswith(".json")]


@pytest.mark.parametrize("state", ["RUNNING", "FINISHED"])
@YARN_CLUSTER
def test_a_retry_after_a_killed_worker_returns_the_result_of_its_job(mode, yarn, state):
    parameters = slow_write(mode, "orders")
    earlier = {application["id"] for application in yarn.applications()}

    def new_applications():
        return [application for application in yarn.applications() if application["id"] not in earlier]

    worker = mode.start_worker("DeltaWriteOperator", parameters)
    try:
        stored = mode.state("load")
        wait_for("The job was submitted", lambda: stored.exists() and "spark_job_id_0" in stored.read_text())
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
    wait_for(f"The job was {state}", lambda: [new for new in new_applications() if new["state"] == state])
    result = mode.run(DeltaWriteOperator(**parameters), try_number=2)
    assert (result["version"], result["committed"], result["metrics"]["numOutputRows"]) == (0, True, 1)
    assert len(new_applications()) == 1
    assert commits(mode, yarn, "orders") == ["00000000000000000000.json"]


@pytest.mark.campaign
@YARN_CLUSTER
def test_a_kill_of_the_task_kills_the_application_and_leaves_no_commit(mode, yarn):
    earlier = {application["id"] for application in yarn.applications()}
    load = DeltaWriteOperator(**slow_write(mode, "orders"))
    errors = []

    def run():
        try:
            mode.run(load)
        except DeltaJobError as error:
            errors.append(error)

    def running():
        return [a for a in yarn.applications() if a["id"] not in earlier and a["state"] == "RUNNING"]

    task = threading.Thread(target=run, daemon=True)
    task.start()
    (application,) = wait_for("The job runs", running)
    load.on_kill()
    task.join(60)
    assert not task.is_alive()
    assert len(errors) == 1
    (killed,) = [a for a in yarn.applications() if a["id"] == application["id"]]
    assert killed["finalStatus"] == "KILLED"
    assert commits(mode, yarn, "orders") == []
