"""Deferred tasks on a real YARN and a real Kubernetes: a restart of the triggerer, a kill, and a retry."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from airflow_provider_deltalite.failures import DeltaJobError
from airflow_provider_deltalite.operators.delta import DeltaWriteOperator
from tests.clusters.conftest import slow_write, wait_until
from tests.support.clusters.tasks import context_of, copy_of_trigger, first_event, resume

DEFERRED_MODES = pytest.mark.parametrize("mode", ["yarn-deferred", "pod-deferred"], indirect=True)


@pytest.fixture
def worker(mode, monkeypatch):
    """The environment of the worker and of the triggerer."""
    for name, value in mode.worker_environment.items():
        monkeypatch.setenv(name, value)
    return mode


def defer(mode, parameters, *, try_number=1) -> TaskDeferred:
    """Run an attempt of the task `load` until it defers."""
    with pytest.raises(TaskDeferred) as caught:
        DeltaWriteOperator(**parameters).execute(context_of("load", mode.state_file("load"), try_number=try_number))
    return caught.value


@pytest.mark.campaign
@DEFERRED_MODES
def test_a_job_survives_a_restart_of_the_triggerer_and_a_retry_joins_it(worker):
    earlier_jobs = worker.applications().keys()
    parameters = slow_write(worker, "orders")
    deferral = defer(worker, parameters)
    (job_id,) = worker.applications().keys() - earlier_jobs

    async def stop_a_triggerer() -> None:
        trigger = copy_of_trigger(deferral.trigger)
        task = asyncio.create_task(first_event(trigger))
        await asyncio.sleep(12)
        task.cancel("EOF - shutting down")
        with pytest.raises(asyncio.CancelledError):
            await task
        await trigger.cleanup()

    with worker.triggerer():
        asyncio.run(stop_a_triggerer())
    retry = defer(worker, parameters, try_number=2)
    assert retry.trigger.serialize() == deferral.trigger.serialize()
    with worker.triggerer():
        event = asyncio.run(first_event(copy_of_trigger(retry.trigger)))
    assert event == {"status": "ended", "message": ""}
    context = context_of("load", worker.state_file("load"), try_number=2)
    result = resume(DeltaWriteOperator(**parameters), retry, event, context)
    assert (result["version"], result["committed"], result["metrics"]["numOutputRows"]) == (0, True, 1)
    assert worker.applications().keys() - earlier_jobs <= {job_id}
    assert worker.commit_files("orders") == ["00000000000000000000.json"]


@pytest.mark.campaign
@DEFERRED_MODES
def test_a_user_who_stops_a_deferred_task_kills_its_job(worker, monkeypatch):
    earlier_jobs = worker.applications().keys()
    parameters = slow_write(worker, "orders")
    deferral = defer(worker, parameters)
    (job_id,) = worker.applications().keys() - earlier_jobs
    wait_until("the job runs", lambda: worker.applications()[job_id] == "RUNNING")
    trigger = copy_of_trigger(deferral.trigger)
    trigger.task_instance = SimpleNamespace(dag_id="sales", task_id="load", run_id="manual__1", map_index=-1)
    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", lambda **_: {"manual__1": {"load": "failed"}})
    with worker.triggerer():
        asyncio.run(trigger.on_kill())
    wait_until("the job is killed", lambda: worker.applications().get(job_id, "KILLED") == "KILLED")
    with worker.triggerer():
        event = asyncio.run(first_event(copy_of_trigger(deferral.trigger)))
    with pytest.raises(DeltaJobError):
        resume(DeltaWriteOperator(**parameters), deferral, event, context_of("load", worker.state_file("load")))
    assert worker.commit_files("orders") == []
