"""The trigger of a deferred operator watches a driver in YARN or Kubernetes.

It kills the driver only after a user has cleared the task, or has marked the task as failed or successful.

The ResourceManager and the API server of Kubernetes are HTTP servers of this process. The clients are the real ones.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from importlib import import_module
from types import SimpleNamespace

import pytest
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from airflow_provider_deltalite.triggers import driver
from airflow_provider_deltalite.triggers.driver import SparkDriverTrigger
from tests.airflow.trigger_events import events
from tests.support.kubernetes_server import ApiServer, pod_in, use_api_server
from tests.support.ports import free_ports
from tests.support.resource_manager import RUNNING_STATE, YARN_ID, resource_manager

POD_ID = "lake:load-driver"
POD_PATH = "/api/v1/namespaces/lake/pods/load-driver"


@pytest.fixture(autouse=True)
def no_pause_before_the_first_poll(monkeypatch):
    monkeypatch.setattr(driver, "_SETTLING_SECONDS", 0.0)


@pytest.fixture
def yarn(monkeypatch):
    """A ResourceManager that the connection names."""
    with resource_manager() as manager:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", manager.connection)
        manager.answers = [RUNNING_STATE]
        yield manager


@pytest.fixture
def kubernetes(tmp_path, monkeypatch):
    """An API server of Kubernetes that Airflow's settings name."""
    with ApiServer() as server:
        use_api_server(monkeypatch, server.port, tmp_path)
        yield server


def trigger(driver_id=YARN_ID, **arguments) -> SparkDriverTrigger:
    """Create a trigger that polls every 10 ms, for the mapped task `load`."""
    driver_trigger = SparkDriverTrigger(
        **{"conn_id": "spark_default", "poll_interval": 0.01, **arguments}, driver_id=driver_id
    )
    driver_trigger.task_instance = SimpleNamespace(dag_id="sales", task_id="load", run_id="r", map_index=3)
    return driver_trigger


async def wait_for_requests(requested_paths: list[str], count: int) -> None:
    """Wait until a server has received this number of requests."""
    async with asyncio.timeout(60):
        while len(requested_paths) < count:  # noqa: ASYNC110  the server runs in a thread
            await asyncio.sleep(0.01)


def set_task_state(monkeypatch, state) -> list[dict]:
    """Let Airflow report this state of the task. Returns the arguments of each request for the state."""
    requests = []

    def task_states(**arguments):
        requests.append(arguments)
        if isinstance(state, Exception):
            raise state
        return {"r": {"load_3": state}}

    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", task_states)
    return requests


def test_a_deserialized_trigger_equals_the_original_and_its_arguments_are_json():
    original = trigger(deadline_ms=5, uses_kerberos=True)
    path, arguments = original.serialize()
    module_name, class_name = path.rsplit(".", 1)
    deserialized = getattr(import_module(module_name), class_name)(**json.loads(json.dumps(arguments)))
    assert deserialized.serialize() == (path, arguments)


@pytest.mark.parametrize("state", ["FINISHED", "FAILED", "KILLED"])
async def test_the_trigger_sends_one_event_when_the_application_ends(yarn, state):
    yarn.answers = [RUNNING_STATE, {"state": "ACCEPTED"}, {"state": state}]
    assert await events(trigger()) == [{"status": "ended", "message": ""}]
    assert yarn.requested_paths == [f"/ws/v1/cluster/apps/{YARN_ID}"] * 3


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_the_trigger_sends_one_event_when_the_pod_ends(kubernetes, phase):
    kubernetes.body = pod_in("Running")
    waiting = asyncio.create_task(events(trigger(POD_ID)))
    await wait_for_requests(kubernetes.paths, 3)
    assert not waiting.done()
    kubernetes.body = pod_in(phase)
    assert await waiting == [{"status": "ended", "message": ""}]
    assert set(kubernetes.paths) == {POD_PATH}


@pytest.mark.parametrize("cluster", ["yarn", "kubernetes"])
async def test_the_trigger_sends_one_event_after_three_polls_without_the_driver(cluster, request):
    server = request.getfixturevalue(cluster)
    server.status = 404
    driver_trigger = trigger(YARN_ID if cluster == "yarn" else POD_ID)
    assert await events(driver_trigger) == [{"status": "ended", "message": ""}]
    assert len(server.requested_paths if cluster == "yarn" else server.paths) == 3


async def test_the_answer_of_a_server_that_is_not_the_resource_manager_does_not_end_the_watch(yarn, monkeypatch):
    monkeypatch.setattr("airflow_provider_deltalite.clusters.driver_state._LONGEST_PAUSE_SECONDS", 0.01)
    yarn.status, yarn.shows_metrics = 404, False
    waiting = asyncio.create_task(events(trigger()))
    await wait_for_requests(yarn.requested_paths, 20)
    assert not waiting.done()
    yarn.answers, yarn.status = [yarn.finished_state()], 200
    assert await waiting == [{"status": "ended", "message": ""}]


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("cluster", ["yarn", "kubernetes"])
async def test_a_cluster_that_refuses_the_triggerer_hands_the_driver_to_the_worker(cluster, status, request):
    server = request.getfixturevalue(cluster)
    server.status = status
    (event,) = await events(trigger(YARN_ID if cluster == "yarn" else POD_ID))
    assert event["status"] == "unwatched" and str(status) in event["message"]


async def test_a_connection_that_names_no_resource_manager_hands_the_driver_to_the_worker(monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "yarn"}')
    (event,) = await events(trigger())
    assert event["status"] == "unwatched" and "yarn_resourcemanager_webapp_address" in event["message"]


async def test_failures_of_the_cluster_are_tolerated_and_a_changed_connection_is_read_again(yarn, monkeypatch):
    monkeypatch.setattr("airflow_provider_deltalite.clusters.driver_state._LONGEST_PAUSE_SECONDS", 0.01)
    (unused_port,) = free_ports(1)
    connection = yarn.connection
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", connection.replace(yarn.address, f"127.0.0.1:{unused_port}"))
    waiting = asyncio.create_task(events(trigger()))
    await asyncio.sleep(0.3)
    assert not waiting.done()
    yarn.status = 503
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", connection)
    await wait_for_requests(yarn.requested_paths, 3)
    assert not waiting.done()
    yarn.answers, yarn.status = [yarn.finished_state()], 200
    assert await waiting == [{"status": "ended", "message": ""}]


async def test_a_poll_of_an_unreachable_api_server_sends_its_request_once(tmp_path, monkeypatch):
    """The client of a worker repeats a request for a minute. In the triggerer this would block a thread."""
    (unused_port,) = free_ports(1)
    use_api_server(monkeypatch, unused_port, tmp_path)
    monkeypatch.setattr("airflow_provider_deltalite.clusters.driver_state._LONGEST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr("airflow_provider_deltalite.clusters.driver_state._MAX_SILENCE_MS", 200)
    (event,) = await events(trigger(POD_ID))
    assert event["status"] == "unwatched" and "Kubernetes did not answer" in event["message"]


async def test_the_trigger_sends_one_event_at_the_deadline_and_kills_no_driver(yarn):
    """The worker kills the driver, because it also reads the log and fails the task."""
    assert await events(trigger(deadline_ms=1)) == [{"status": "timeout", "message": ""}]
    assert yarn.kill_paths == []


async def test_a_slow_cluster_does_not_block_the_event_loop(yarn):
    can_answer = asyncio.Event()
    loop = asyncio.get_running_loop()
    yarn.answers = [
        yarn.finished_state(before_answer=lambda: asyncio.run_coroutine_threadsafe(can_answer.wait(), loop).result(30))
    ]
    waiting = asyncio.create_task(events(trigger()))
    await wait_for_requests(yarn.requested_paths, 1)
    assert not waiting.done()  # the loop continues while the request waits for its answer
    can_answer.set()
    assert await waiting == [{"status": "ended", "message": ""}]


@pytest.mark.parametrize("state", [None, "failed", "success", "running"])
async def test_the_action_of_a_user_kills_the_application(yarn, monkeypatch, state):
    requests = set_task_state(monkeypatch, state)
    await trigger().on_kill()
    assert yarn.kill_paths == [f"/ws/v1/cluster/apps/{YARN_ID}/state"]
    assert requests == [{"dag_id": "sales", "task_ids": ["load"], "run_ids": ["r"], "map_index": 3}]


async def test_the_action_of_a_user_deletes_the_pod(kubernetes, monkeypatch):
    set_task_state(monkeypatch, "failed")
    await trigger(POD_ID).on_kill()
    assert kubernetes.deleted_paths == [POD_PATH]


@pytest.mark.parametrize("state", ["deferred", OSError("Airflow does not answer")])
@pytest.mark.parametrize("calls_on_kill", [True, False])
async def test_the_job_continues_if_another_triggerer_takes_the_trigger(yarn, monkeypatch, state, calls_on_kill):
    set_task_state(monkeypatch, state)
    monkeypatch.setattr(driver, "_AIRFLOW_CALLS_ON_KILL", calls_on_kill)
    driver_trigger = trigger()
    if calls_on_kill:
        await driver_trigger.on_kill()
    await driver_trigger.cleanup()
    assert yarn.kill_paths == []


async def test_a_triggerer_that_stops_leaves_the_job_alone(yarn, monkeypatch):
    """Airflow cancels the trigger and calls `cleanup`, while the task is still deferred."""
    set_task_state(monkeypatch, "deferred")
    driver_trigger = trigger()
    running = asyncio.create_task(events(driver_trigger))
    await wait_for_requests(yarn.requested_paths, 1)
    running.cancel("EOF - shutting down")
    with suppress(asyncio.CancelledError):
        await running
    await driver_trigger.cleanup()
    assert yarn.kill_paths == []


async def test_before_airflow_3_3_the_cleanup_kills_the_driver_of_a_task_that_is_no_longer_deferred(yarn, monkeypatch):
    set_task_state(monkeypatch, "failed")
    await trigger().cleanup()
    assert yarn.kill_paths == ([] if driver._AIRFLOW_CALLS_ON_KILL else [f"/ws/v1/cluster/apps/{YARN_ID}/state"])
    yarn.kill_paths.clear()
    monkeypatch.setattr(driver, "_AIRFLOW_CALLS_ON_KILL", False)
    await trigger().cleanup()
    assert yarn.kill_paths == [f"/ws/v1/cluster/apps/{YARN_ID}/state"]


async def test_a_trigger_that_has_sent_its_event_kills_nothing(yarn, monkeypatch):
    requests = set_task_state(monkeypatch, "running")
    monkeypatch.setattr(driver, "_AIRFLOW_CALLS_ON_KILL", False)
    yarn.answers = [yarn.finished_state()]
    driver_trigger = trigger()
    await events(driver_trigger)
    await driver_trigger.cleanup()
    assert (requests, yarn.kill_paths) == ([], [])


async def test_a_driver_that_cannot_be_killed_is_named_in_the_log(yarn, monkeypatch, capsys):
    set_task_state(monkeypatch, "failed")
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "yarn", "extra": "{}"}')
    await trigger().on_kill()
    assert YARN_ID in capsys.readouterr().out
