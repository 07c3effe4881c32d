"""The position that a watcher stores with its asset. A restarted watcher continues there, and may repeat an event."""

from __future__ import annotations

import asyncio

import pytest
from airflow.sdk import Asset

from airflow_provider_deltalite.assets.delta import asset_uri
from tests.airflow.watching import AssetStateStore, RunningTrigger, trigger, wait_until, wait_until_started

pytestmark = pytest.mark.usefixtures("events_are_stored_at_once")


class SynchronousStore:
    """The asset state store of Airflow 3.3.0, which has no asynchronous methods."""

    def __init__(self):
        self.position = None

    def get(self, key):
        return self.position

    def set(self, key, value):
        self.position = value


class StoresOfTwoAssets:
    """The stores that Airflow passes to a trigger of two assets. The trigger must choose the store of one asset."""

    def __init__(self, **stores):
        self.stores = stores

    async def aget(self, _key):
        raise ValueError("two assets")

    async def aset(self, _key, _value):
        raise ValueError("two assets")

    def __getitem__(self, asset_ref):
        assert type(asset_ref) is type(Asset.ref(name="x"))
        return self.stores[asset_ref.name]


async def test_a_restarted_triggerer_continues_at_the_stored_position(table):
    table.create()
    values = {}
    async with RunningTrigger(trigger(table, AssetStateStore(values))) as watching:
        await wait_until(lambda: bool(values))
        table.commit(1, table.add())
        assert (await watching.next_event())["version"] == 1
        await wait_until(lambda: next(iter(values.values()))["announced"] == 1)
    for version in (2, 3):
        table.commit(version, table.add())
    async with RunningTrigger(trigger(table, AssetStateStore(values), poke_interval=0.02)) as watching:
        event = await watching.next_event()
        assert (event["from_version"], event["version"]) == (2, 3)


@pytest.mark.parametrize("start", ["latest", 1])
async def test_a_table_that_is_recreated_while_no_triggerer_runs_is_announced_from_its_first_version(table, start):
    table.create()
    values = {}
    async with RunningTrigger(trigger(table, AssetStateStore(values), start=start)):
        await wait_until(lambda: bool(values))
    table.root.rename(table.root.parent / "dropped")
    table.create(table.add())
    for version in (1, 2):
        table.commit(version, table.add())
    async with RunningTrigger(trigger(table, AssetStateStore(values), start=start)) as watching:
        event = await watching.next_event()
        assert (event["from_version"], event["version"], event["reset"]) == (0, 2, True)


async def test_an_event_is_emitted_before_its_position_is_stored(table):
    table.create()
    values = {}
    running_events = trigger(table, AssetStateStore(values), start=1).run()
    table.commit(1, table.add())
    first_event = await anext(running_events)
    assert next(iter(values.values()))["announced"] == 0
    await running_events.aclose()  # The triggerer dies before Airflow stores the event.
    repeated_event = await anext(trigger(table, AssetStateStore(values), start=1).run())
    assert repeated_event.payload == first_event.payload


async def test_a_triggerer_that_dies_before_airflow_stores_the_event_repeats_it(table, monkeypatch):
    monkeypatch.setattr("airflow_provider_deltalite.triggers._table._STORING_SECONDS", 60.0)
    table.create()
    table.commit(1, table.add())
    values = {}
    async with RunningTrigger(trigger(table, AssetStateStore(values), start=1)) as watching:
        first_event = await watching.next_event()  # Airflow's database does not have this event yet.
        await asyncio.sleep(0.1)
    async with RunningTrigger(trigger(table, AssetStateStore(values), start=1)) as watching:
        assert await watching.next_event() == first_event


@pytest.mark.parametrize("failing_method", ["get", "set"])
async def test_a_failing_state_store_neither_ends_the_watcher_nor_loses_commits(table, failing_method):
    table.create()
    table.commit(1, table.add())
    store = AssetStateStore()
    if failing_method == "get":
        store.remaining_failures = 2
    async with RunningTrigger(trigger(table, store, start=1)) as watching:
        assert (await watching.next_event())["version"] == 1
        if failing_method == "set":
            store.remaining_failures = 1
        table.commit(2, table.add())
        event = await watching.next_event()
        assert (event["from_version"], event["version"]) == (2, 2)


async def test_a_watcher_without_a_usable_store_still_emits_events(table, capsys):
    table.create()
    table.commit(1, table.add())
    for store in (None, StoresOfTwoAssets(other=AssetStateStore())):
        async with RunningTrigger(trigger(table, store, start=1)) as watching:
            assert (await watching.next_event())["version"] == 1
    assert "Cannot save the watch position" in capsys.readouterr().out


async def test_the_store_of_the_tables_asset_gets_the_position_if_the_trigger_has_several_assets(table):
    table.create()
    store = AssetStateStore()
    async with RunningTrigger(
        trigger(table, StoresOfTwoAssets(**{asset_uri(str(table)): store, "other": AssetStateStore()}))
    ):
        await wait_until_started(store)


async def test_a_store_without_asynchronous_methods_is_used(table):
    table.create()
    store = SynchronousStore()
    async with RunningTrigger(trigger(table, store)):
        await wait_until_started(store)


async def test_a_new_interval_keeps_the_position_and_new_conditions_start_a_new_one(table):
    keys = {
        name: trigger(table, **changes)._position_key
        for name, changes in {
            "base": {},
            "interval": {"poke_interval": 9},
            "start": {"start": 2},
            "operations": {"operations": ["WRITE"]},
        }.items()
    }
    assert keys["base"] == keys["interval"]
    assert len(set(keys.values())) == 3


def test_another_spelling_of_the_address_keeps_the_position():
    assert trigger("s3a://lake/orders/")._position_key == trigger("s3://lake/orders")._position_key


PLACE = {"version": 1, "mark": "m", "remade": False}
# Stored positions that are unreadable, each with the problem that the log names.
UNREADABLE_POSITIONS = {
    "a text": ("far", "position is 'far', not a mapping"),
    "a list": ([], "position is [], not a mapping"),
    "no place": ({"announced": 1, "table_id": None}, "position has no 'place'"),
    "no last event": ({"place": PLACE}, "position has no 'announced'"),
    "no version": ({"place": {"mark": "m"}, "announced": 1}, "position.place has no 'version'"),
    "another release's": ({"place": PLACE, "announced": 1, "lag": 0}, "position has the unknown key 'lag'"),
    "another type": ({"place": PLACE, "announced": None}, "position.announced is None"),
    "an event after the position": (
        {"place": PLACE, "announced": 2},
        "announced is 2, and the last version that was read is 1",
    ),
    "before the first version": ({"place": {"version": -2}, "announced": -2}, "announced is -2"),
}


@pytest.mark.parametrize(("stored_position", "problem"), UNREADABLE_POSITIONS.values(), ids=UNREADABLE_POSITIONS)
@pytest.mark.parametrize(("start", "first_version"), [("latest", 3), (1, 1)])
async def test_an_unreadable_position_is_ignored_and_the_log_names_the_commits_that_may_be_missed(
    table, capsys, stored_position, problem, start, first_version
):
    table.create()
    for version in (1, 2):
        table.commit(version, table.add())
    store = AssetStateStore({trigger(table, start=start)._position_key: stored_position})
    async with RunningTrigger(trigger(table, store, start=start)) as watching:
        await wait_until(lambda: store.position != stored_position)
        log = capsys.readouterr().out
        assert problem in log and repr(stored_position) in log
        assert f"restarts at version {first_version} (start={start}). Events for earlier commits may be missing" in log
        table.commit(3, table.add())
        events = [await watching.next_event()]
        while events[-1]["version"] < 3:
            events.append(await watching.next_event())
        assert events[0]["from_version"] == first_version
        await wait_until(lambda: store.position["announced"] == 3)
    async with RunningTrigger(trigger(table, store, start=start)) as watching:
        table.commit(4, table.add())
        assert (await watching.next_event())["from_version"] == 4
    assert "is unreadable" not in capsys.readouterr().out


async def test_the_log_truncates_a_long_unreadable_position(table, capsys):
    table.create()
    store = AssetStateStore({trigger(table)._position_key: "x" * 100_000})
    async with RunningTrigger(trigger(table, store)):
        await wait_until(lambda: store.position != "x" * 100_000)
    log = capsys.readouterr().out
    assert "'xxx" in log and len(log) < 5_000
