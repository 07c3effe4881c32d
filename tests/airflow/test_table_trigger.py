"""The trigger of a watcher sends one event for each range of versions with a matching commit, and loses no version."""

from __future__ import annotations

import asyncio
import json
import threading
from importlib import import_module

import pytest
import structlog
from airflow.providers.common.compat.triggers import BaseEventTrigger
from asgiref.sync import async_to_sync

from airflow_provider_deltalite.triggers.delta import DeltaTableTrigger
from deltalite import watch
from deltalite.errors import InvalidRequestError, InvalidTableAddressError, StorageError
from tests.airflow.watching import AssetStateStore, RunningTrigger, trigger, wait_until, wait_until_started

pytestmark = pytest.mark.usefixtures("events_are_stored_at_once")

TABLE_ID = "0b6d0a9e-7c5d-4d57-9a53-3c3b1d3c0f10"


async def test_a_commit_of_any_writer_is_an_event_with_its_range(table):
    table.create()
    store = AssetStateStore()
    async with RunningTrigger(trigger(table, store)) as watching:
        await wait_until_started(store)
        table.commit(1, table.add(), operation="MERGE")
        assert await watching.next_event() == {
            "table": str(table),
            "table_id": TABLE_ID,
            "from_version": 1,
            "version": 1,
            "operations": ["MERGE"],
            "data_changed": True,
            "commit_timestamp": 1_700_000_000_001,
            "reset": False,
            "gap": False,
            "partitions": [],
        }
        assert not watching.task.done()


async def test_maintenance_emits_no_event_and_the_next_range_has_no_gap(table):
    table.create()
    store = AssetStateStore()
    async with RunningTrigger(trigger(table, store)) as watching:
        await wait_until_started(store)
        table.commit(1, table.add(data_change=False), operation="OPTIMIZE")
        table.commit(2, operation="VACUUM END")
        await wait_until(lambda: store.position["place"]["version"] == 2)
        table.commit(3, table.add())
        event = await watching.next_event()
        assert (event["from_version"], event["version"], event["operations"]) == (1, 3, ["WRITE"])
        table.commit(4, table.add())
        assert (await watching.next_event())["from_version"] == 4


@pytest.mark.parametrize(
    ("conditions", "versions"),
    [
        ({}, (0, 4)),
        ({"data_change_only": False}, (0, 4)),
        ({"operations": ["OPTIMIZE"]}, (0, 2)),
        ({"operations": ["OPTIMIZE"], "data_change_only": True}, None),
        ({"partition": {"day": "a"}}, (0, 1)),
        ({"exclude_app_ids": ["airflow/clean/*"]}, (0, 3)),
        ({"start": 2}, (2, 4)),
        ({"start": 2, "partition": {"day": "a"}}, None),
    ],
    ids=str,
)
async def test_only_commits_that_satisfy_all_conditions_match(table, conditions, versions):
    table.create()
    table.commit(1, table.add(partition={"day": "a"}))
    table.commit(2, table.add(data_change=False), operation="OPTIMIZE")
    table.commit(3, table.add(partition={"day": "b"}))
    table.commit(4, table.add(partition={"day": "b"}), table.txn("airflow/clean/load/-1/r"))
    store = AssetStateStore()
    async with RunningTrigger(trigger(table, store, **{"start": 0, **conditions})) as watching:
        if versions is None:
            await wait_until(lambda: store.position and store.position["place"]["version"] == 4)
            assert watching.events.empty()
        else:
            event = await watching.next_event()
            assert (event["from_version"], event["version"]) == versions


async def test_an_event_names_the_partitions_whose_rows_changed(table):
    table.create(partition_columns=["day", "country"])
    store = AssetStateStore()
    async with RunningTrigger(trigger(table, store)) as watching:
        await wait_until_started(store)
        partition_of_may, partition_of_june = ({"country": "DE", "day": f"2026-0{month}-01"} for month in (5, 6))
        table.commit(1, table.add(partition=partition_of_june, data_change=False), operation="OPTIMIZE")
        table.commit(
            2, table.add(partition=partition_of_may), table.add(partition={**partition_of_may, "country": "FR"})
        )
        partitions = (await watching.next_event())["partitions"]
        assert partitions == ["day=2026-05-01/country=DE", "day=2026-05-01/country=FR"]
        table.commit(3, *(table.add(partition={**partition_of_may, "country": str(number)}) for number in range(101)))
        assert (await watching.next_event())["partitions"] is None


@pytest.mark.parametrize(("columns", "partitions"), [([], []), (["day"], None)], ids=["not partitioned", "by day"])
async def test_an_event_names_no_partitions_if_a_removed_file_has_no_partition_values(table, columns, partitions):
    table.create(partition_columns=columns)
    store = AssetStateStore()
    async with RunningTrigger(trigger(table, store)) as watching:
        await wait_until_started(store)
        add = table.add(partition=dict.fromkeys(columns, "2026-05-01"))
        table.commit(1, {"remove": {"path": "old.parquet", "dataChange": True}}, add)
        assert (await watching.next_event())["partitions"] == partitions


async def test_the_watcher_waits_for_a_missing_table(table):
    store = AssetStateStore()
    async with RunningTrigger(trigger(table, store)) as watching:
        await wait_until_started(store)
        table.create(table.add())
        event = await watching.next_event()
        assert (event["from_version"], event["version"], event["table_id"], event["reset"]) == (0, 0, TABLE_ID, False)


async def test_a_recreated_table_is_announced_from_its_first_version(table):
    table.create()
    for version in (1, 2):
        table.commit(version, table.add())
    store = AssetStateStore()
    async with RunningTrigger(trigger(table, store)) as watching:
        await wait_until_started(store)
        # A rename is atomic, so no poll reads a table that is half deleted.
        table.root.rename(table.root.parent / "dropped")
        table.create(table.add())
        event = await watching.next_event()
        assert (event["from_version"], event["version"], event["reset"], event["table_id"]) == (0, 0, True, TABLE_ID)
        table.commit(1, table.add())
        event = await watching.next_event()
        assert (event["from_version"], event["version"], event["reset"]) == (1, 1, False)


async def test_commits_that_were_cleaned_up_before_a_poll_are_announced(table):
    table.create()
    values = {}
    async with RunningTrigger(trigger(table, AssetStateStore(values))):
        await wait_until(lambda: bool(values))
    table.commit(7, table.add(data_change=False), operation="OPTIMIZE")
    (table.root / "_delta_log" / f"{0:020}.json").unlink()
    async with RunningTrigger(trigger(table, AssetStateStore(values))) as watching:
        event = await watching.next_event()
        assert (event["from_version"], event["version"], event["gap"], event["data_changed"]) == (1, 6, True, True)
        assert event["operations"] == [] and event["commit_timestamp"] is None


async def test_a_storage_failure_is_retried_without_limit(table, monkeypatch):
    table.create()
    store, follow, polled_versions = AssetStateStore(), watch.follow, []

    def fail_three_times(log, place):
        polled_versions.append(place.version)
        if len(polled_versions) in (1, 2):
            raise StorageError("timed out", remedy="Wait.")
        if len(polled_versions) == 3:
            raise OSError("something else")
        return follow(log, place)

    monkeypatch.setattr(watch, "follow", fail_three_times)
    async with RunningTrigger(trigger(table, store)) as watching:
        await wait_until_started(store)
        table.commit(1, table.add())
        assert (await watching.next_event())["version"] == 1
        assert len(polled_versions) > 3


async def test_the_watcher_survives_a_corrupt_commit_and_continues_when_it_is_repaired(table):
    table.create()
    store = AssetStateStore()
    async with RunningTrigger(trigger(table, store)) as watching:
        await wait_until_started(store)
        (table.root / "_delta_log" / f"{1:020}.json").write_text("{not json\n")
        await asyncio.sleep(0.05)
        assert not watching.task.done()
        table.commit(1, table.add())
        assert (await watching.next_event())["version"] == 1


async def test_slow_storage_does_not_block_the_event_loop(table, monkeypatch):
    table.create()
    poll_may_end = threading.Event()
    monkeypatch.setattr(watch, "latest_version", lambda _: poll_may_end.wait(20) and 0)
    async with RunningTrigger(trigger(table, AssetStateStore())) as watching:
        for _ in range(5):
            await asyncio.sleep(0.01)
        assert not poll_may_end.is_set() and not watching.task.done()
        poll_may_end.set()


async def test_a_poll_uses_the_event_loop_of_the_triggerer_and_a_thread_of_the_provider(table, monkeypatch):
    table.create()
    latest_version, polls = watch.latest_version, []

    async def running_loop():
        return asyncio.get_running_loop()

    def record_and_read(store):
        # Airflow 3.1 looks up a connection through `async_to_sync`, so each poll must be able to use it.
        polls.append((async_to_sync(running_loop)(), threading.current_thread().name))
        return latest_version(store)

    monkeypatch.setattr(watch, "latest_version", record_and_read)
    async with RunningTrigger(trigger(table, AssetStateStore())):
        await wait_until(lambda: bool(polls))
    loop_of_poll, thread_name = polls[0]
    assert loop_of_poll is asyncio.get_running_loop()
    assert thread_name.startswith("deltalite")


async def test_each_poll_reads_a_limited_number_of_new_commits_and_sends_them_as_one_event(table, monkeypatch):
    monkeypatch.setattr("airflow_provider_deltalite.triggers._batches._MAX_STEPS", 2)
    table.create()
    for version in range(1, 6):
        table.commit(version, table.add())
    async with RunningTrigger(trigger(table, AssetStateStore(), start=0)) as watching:
        ranges = []
        while not ranges or ranges[-1][1] < 5:
            event = await watching.next_event()
            ranges.append((event["from_version"], event["version"]))
        assert ranges == [(0, 1), (2, 3), (4, 5)]


# --- a poll that several triggers share ---


def test_triggers_of_one_table_share_a_poll_and_other_triggers_do_not(table):
    base = trigger(table, operations=["WRITE"])
    assert base.shared_stream_key() == trigger(f"file://{table}/", start=3).shared_stream_key()
    for changes in ({"poke_interval": 9}, {"storage_conn_id": "lake"}, {"table": f"{table}2"}):
        assert base.shared_stream_key() != DeltaTableTrigger(**{**base.serialize()[1], **changes}).shared_stream_key()


async def test_one_shared_poll_serves_all_triggers_and_each_gets_its_events(table, monkeypatch):
    shared_stream = pytest.importorskip("airflow.triggers.shared_stream")  # Airflow has this module since 3.3.
    table.create()
    polls, follow = [], watch.follow
    monkeypatch.setattr(watch, "follow", lambda log, place: polls.append(place.version) or follow(log, place))
    manager = shared_stream.SharedStreamManager(log=structlog.get_logger())
    ranges = {}

    async def consume(name, table_trigger):
        key = table_trigger.shared_stream_key()
        stream = manager.subscribe(trigger_id=hash(name), trigger=table_trigger, key=key)
        async for event in table_trigger.filter_shared_stream(stream):
            ranges.setdefault(name, []).append((event.payload["from_version"], event.payload["version"]))

    stores = {name: AssetStateStore() for name in ("all", "merges", "late")}
    tasks = [
        asyncio.create_task(consume("all", trigger(table, stores["all"]))),
        asyncio.create_task(consume("merges", trigger(table, stores["merges"], operations=["MERGE"]))),
    ]
    try:
        await wait_until(lambda: stores["all"].values and stores["merges"].values and len(polls) > 3)
        table.commit(1, table.add())
        table.commit(2, table.add(), operation="MERGE")
        await wait_until(
            lambda: ranges.keys() >= {"all", "merges"} and ranges["merges"][-1][1] == 2 == ranges["all"][-1][1]
        )
        assert ranges["merges"] == [(1, 2)] and ranges["all"][0][0] == 1
        tasks.append(asyncio.create_task(consume("late", trigger(table, stores["late"], start=1))))
        await wait_until(lambda: "late" in ranges)
        assert ranges["late"] == [(1, 2)]
        count_before = len(ranges["all"])
        table.commit(3, table.add())
        await wait_until(lambda: len(ranges["all"]) > count_before and len(ranges["late"]) > 1)
        assert ranges["late"][-1] == ranges["all"][-1] == (3, 3)
        assert len(manager._groups) == 1
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await manager.stop_all()


# --- serialization ---


def test_a_deserialized_event_trigger_equals_the_original(table):
    original = trigger(
        table,
        start=3,
        data_change_only=False,
        operations=("WRITE",),
        partition={"day": None},
        exclude_app_ids=("a/*",),
        poke_interval=30,
        storage_conn_id=None,
    )
    assert isinstance(original, BaseEventTrigger)
    path, kwargs = original.serialize()
    module_name, class_name = path.rsplit(".", 1)
    deserialized = getattr(import_module(module_name), class_name)(**json.loads(json.dumps(kwargs)))
    assert deserialized.serialize() == (path, kwargs)
    assert (deserialized.condition.as_dict(), deserialized.start) == (original.condition.as_dict(), 3)


def test_the_hash_is_the_same_for_every_parse_and_spelling_and_after_json(table):
    hashes = set()
    for same_trigger in (trigger(table), trigger(f"file:{table}"), trigger(f"{table}/", operations=None)):
        path, kwargs = same_trigger.serialize()
        hashes |= {BaseEventTrigger.hash(path, kwargs), BaseEventTrigger.hash(path, json.loads(json.dumps(kwargs)))}
    assert len(hashes) == 1
    with_integer, with_float = (trigger(table, poke_interval=seconds).serialize() for seconds in (60, 60.0))
    assert with_integer == with_float and BaseEventTrigger.hash(*with_integer) not in hashes


@pytest.mark.parametrize("start", [-1, "first", None, True, "3"])
def test_an_invalid_start_is_rejected_when_the_dag_is_parsed(table, start):
    with pytest.raises(InvalidRequestError, match="start is"):
        trigger(table, start=start)


def test_an_address_with_a_template_is_rejected_when_the_dag_is_parsed():
    with pytest.raises(InvalidTableAddressError):
        trigger("/lake/{{ ds }}")
