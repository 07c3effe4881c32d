"""The trigger of the sensor: it emits one event, and storage never blocks its event loop."""

from __future__ import annotations

import asyncio
import json
import threading
from importlib import import_module

import pytest
from airflow.providers.common.compat.sdk import AirflowNotFoundException
from asgiref.sync import async_to_sync

from airflow_provider_deltalite.hooks.delta import DeltaHook
from airflow_provider_deltalite.triggers import _version
from airflow_provider_deltalite.triggers.delta import DeltaVersionTrigger
from airflow_provider_deltalite.waiting import pause_seconds
from deltalite import watch
from deltalite.conditions import CommitCondition, LogPosition
from deltalite.errors import StorageError, StoragePermissionError
from tests.airflow.trigger_events import events


def trigger(table, **changes) -> DeltaVersionTrigger:
    """Create a trigger that polls every 10 ms. `changes` replaces its arguments."""
    arguments = {"after_version": 0, "condition": CommitCondition().as_dict(), "poke_interval": 0.01, **changes}
    place = LogPosition(version=arguments["after_version"]).as_dict()
    return DeltaVersionTrigger(table=str(table), **{"place": place, **arguments})


@pytest.mark.parametrize("data_change_only", [None, False, True])
def test_a_deserialized_trigger_equals_the_original(table, data_change_only):
    condition = CommitCondition(
        data_change_only=data_change_only, operations=["WRITE"], partition={"day": None}, app_id="a"
    )
    place = LogPosition(version=3, commit_digest="m", recreated=True)
    original = trigger(table, condition=condition.as_dict(), place=place.as_dict(), storage_conn_id="lake")
    path, kwargs = original.serialize()
    module_name, class_name = path.rsplit(".", 1)
    deserialized = getattr(import_module(module_name), class_name)(**json.loads(json.dumps(kwargs)))
    assert deserialized.serialize() == (path, kwargs)
    assert deserialized.wait.condition == condition and deserialized.position == place


async def test_the_trigger_sends_one_event_for_an_existing_commit(table):
    table.create()
    table.commit(1, table.add(), operation="MERGE")
    assert await events(trigger(table)) == [
        {
            "status": "success",
            "result": {
                "table": str(table),
                "from_version": 1,
                "version": 1,
                "after_version": 0,
                "reset": False,
                "operation": "MERGE",
                "timestamp": 1_700_000_000_001,
            },
        }
    ]


async def test_the_trigger_waits_for_a_later_commit(table):
    table.create()
    waiting_task = asyncio.create_task(events(trigger(table)))
    await asyncio.sleep(0.05)
    assert not waiting_task.done()
    table.commit(1, table.add())
    (event,) = await waiting_task
    assert event["result"]["version"] == 1


async def test_the_trigger_waits_for_a_missing_table(table):
    waiting_task = asyncio.create_task(events(trigger(table, after_version=-1)))
    await asyncio.sleep(0.03)
    table.create(table.add())
    (event,) = await waiting_task
    assert (event["result"]["version"], event["result"]["after_version"]) == (0, -1)


async def test_a_commit_that_does_not_match_is_read_once(table, monkeypatch):
    table.create()
    table.commit(1, table.add(data_change=False))
    polled_versions, has_polled_three_times, poll = [], threading.Event(), watch.poll

    def record_and_poll(store, after, condition):
        polled_versions.append(after.version)
        if len(polled_versions) >= 3:
            has_polled_three_times.set()
        return poll(store, after, condition)

    monkeypatch.setattr(watch, "poll", record_and_poll)
    waiting_task = asyncio.create_task(events(trigger(table)))
    await asyncio.to_thread(has_polled_three_times.wait, 5)
    table.commit(2, table.add())
    await waiting_task
    assert polled_versions[0] == 0 and set(polled_versions[1:]) == {1}


async def test_slow_storage_does_not_block_the_event_loop(table, monkeypatch):
    table.create()
    poll_may_end = threading.Event()
    monkeypatch.setattr(
        watch, "poll", lambda *_: poll_may_end.wait(5) and watch.PollResult(position=LogPosition(version=0), match=None)
    )
    waiting_task = asyncio.create_task(events(trigger(table)))
    for _ in range(5):
        await asyncio.sleep(0.01)
    assert not waiting_task.done()
    waiting_task.cancel()
    poll_may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting_task


async def test_a_poll_uses_the_event_loop_of_the_triggerer_and_a_thread_of_the_provider(table, monkeypatch):
    table.create()
    table.commit(1, table.add())
    poll, polls = watch.poll, []

    async def running_loop():
        return asyncio.get_running_loop()

    def record_and_poll(*arguments):
        # Airflow 3.1 looks up a connection through `async_to_sync`, so each poll must be able to use it.
        polls.append((async_to_sync(running_loop)(), threading.current_thread().name))
        return poll(*arguments)

    monkeypatch.setattr(watch, "poll", record_and_poll)
    await events(trigger(table))
    ((loop_of_poll, thread_name),) = polls
    assert loop_of_poll is asyncio.get_running_loop()
    assert thread_name.startswith("deltalite")


async def test_a_storage_failure_is_retried_from_the_same_log_position(table, monkeypatch):
    table.create()
    table.commit(1, table.add())
    poll, polled_versions = watch.poll, []

    def fail_twice(store, after, condition):
        polled_versions.append(after.version)
        if len(polled_versions) < 3:
            raise StorageError("timed out", remedy="Wait.")
        return poll(store, after, condition)

    monkeypatch.setattr(watch, "poll", fail_twice)
    (event,) = await events(trigger(table))
    assert event["status"] == "success" and polled_versions == [0, 0, 0]


async def test_a_connection_that_is_missing_for_a_while_does_not_end_the_wait(table, monkeypatch):
    table.create()
    table.commit(1, table.add())
    get_conn, hooks = DeltaHook.get_conn, []

    def fail_twice(hook):
        hooks.append(hook)
        if len(hooks) == 1:
            raise AirflowNotFoundException("There is no Airflow connection 'lake'")
        if len(hooks) == 2:
            raise StorageError("no token", remedy="Wait.")
        return get_conn(hook)

    monkeypatch.setattr(DeltaHook, "get_conn", fail_twice)
    (event,) = await events(trigger(table))
    assert event["status"] == "success" and len(hooks) == 3


async def test_the_trigger_sends_one_typed_event_for_a_permanent_error(table, monkeypatch):
    table.create()
    table.root.joinpath("_delta_log", f"{1:020}.json").write_text("{not json\n")
    (event,) = await events(trigger(table))
    assert (event["status"], event["kind"]) == ("error", "CorruptLogError")
    assert f"{1:020}.json" in event["message"]

    def refuse(*_):
        raise StoragePermissionError("no", remedy="Ask.")

    monkeypatch.setattr(watch, "poll", refuse)
    (event,) = await events(trigger(table))
    assert event["kind"] == "StoragePermissionError"


def test_pauses_grow_during_storage_failures_up_to_a_limit_and_never_below_the_interval():
    assert [pause_seconds(60, n) for n in (0, 1, 2, 3, 4, 1000)] == [60, 120, 240, 480, 600, 600]
    assert pause_seconds(3600, 5) == 3600


async def test_the_pauses_of_a_trigger_double_with_each_failed_poll_and_restart_after_an_answer(table, monkeypatch):
    """The storage fails eleven times, answers without a commit, fails once, and then has the commit."""
    table.create()
    poll, polls, pauses = watch.poll, [], []

    def answer_the_twelfth_and_the_last_poll(store, after, condition):
        polls.append(after)
        if len(polls) not in (12, 14):
            raise StorageError("503 Slow Down", remedy="Wait.")
        if len(polls) == 14:
            table.commit(1, table.add())
        return poll(store, after, condition)

    async def record_pause(seconds):
        pauses.append(seconds)

    monkeypatch.setattr(watch, "poll", answer_the_twelfth_and_the_last_poll)
    monkeypatch.setattr(_version, "_SETTLING_SECONDS", 0.0)
    monkeypatch.setattr(asyncio, "sleep", record_pause)
    (event,) = await events(trigger(table, poke_interval=1.0))
    assert event["result"]["version"] == 1
    pauses_after_failures = [2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]
    assert [seconds for seconds in pauses if seconds > 0] == [*pauses_after_failures, 1, 2]


@pytest.mark.parametrize("commit_text", ['{"add"', '{"txn":{"appId":"a","version":0}}'], ids=["error", "success"])
async def test_an_event_waits_until_the_scheduler_has_stored_the_deferral(table, monkeypatch, commit_text):
    table.create()
    table.root.joinpath("_delta_log", f"{1:020}.json").write_text(commit_text + "\n")
    deferral_is_stored, pauses = asyncio.Event(), []
    sleep = asyncio.sleep

    async def record_and_sleep(seconds):
        pauses.append(seconds)
        await (deferral_is_stored.wait() if seconds == 77.0 else sleep(seconds))

    monkeypatch.setattr("airflow_provider_deltalite.triggers._version._SETTLING_SECONDS", 77.0)
    monkeypatch.setattr(asyncio, "sleep", record_and_sleep)
    waiting_trigger = trigger(table, condition=CommitCondition(data_change_only=False).as_dict())
    event_of, first_poll_ended = _version._event_of, asyncio.Event()

    async def poll_and_signal(*arguments):
        event = await event_of(*arguments)
        first_poll_ended.set()
        return event

    monkeypatch.setattr(_version, "_event_of", poll_and_signal)
    waiting_task = asyncio.create_task(events(waiting_trigger))
    await first_poll_ended.wait()
    await sleep(0)
    assert pauses == [77.0] and not waiting_task.done()
    deferral_is_stored.set()
    assert len(await waiting_task) == 1
