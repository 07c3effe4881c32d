"""The position that a watcher stores with its asset: a restart continues there, may repeat an event, and loses none."""

from __future__ import annotations

import asyncio

import pytest
from airflow.sdk import Asset

from airflow_provider_deltalite.assets.delta import asset_uri
from tests.airflow.watching import Store, Watching, started, trigger

pytestmark = pytest.mark.usefixtures("events_are_stored_at_once")


class OldStore:
    """The asset state store of Airflow 3.3.0, which has no asynchronous methods."""

    def __init__(self):
        self.values = {}

    def get(self, key):
        return self.values.get(key)

    def set(self, key, value):
        self.values[key] = value


class StoresOfTwo:
    """The stores that Airflow passes to a trigger of two assets; the trigger must name the asset."""

    def __init__(self, **stores):
        self.stores = stores

    async def aget(self, _key):
        raise ValueError("two assets")

    async def aset(self, _key, _value):
        raise ValueError("two assets")

    def __getitem__(self, ref):
        assert type(ref) is type(Asset.ref(name="x"))
        return self.stores[ref.name]


async def test_a_restarted_triggerer_continues_at_the_stored_position(table):
    table.create()
    values = {}
    async with Watching(trigger(table, Store(values))) as watching:
        await watching.sees(lambda: bool(values))
        table.commit(1, table.add())
        assert (await watching.next())["version"] == 1
        await watching.sees(lambda: next(iter(values.values()))["announced"] == 1)
    for version in (2, 3):
        table.commit(version, table.add())
    async with Watching(trigger(table, Store(values), poke_interval=0.02)) as watching:
        event = await watching.next()
        assert (event["from_version"], event["version"]) == (2, 3)


@pytest.mark.parametrize("start", ["latest", 1])
async def test_a_table_that_is_recreated_without_a_triggerer_is_announced_from_its_first_version(table, start):
    table.create()
    values = {}
    async with Watching(trigger(table, Store(values), start=start)) as watching:
        await watching.sees(lambda: bool(values))
    table.root.rename(table.root.parent / "dropped")
    table.create(table.add())
    for version in (1, 2):
        table.commit(version, table.add())
    async with Watching(trigger(table, Store(values), start=start)) as watching:
        event = await watching.next()
        assert (event["from_version"], event["version"], event["reset"]) == (0, 2, True)


async def test_an_event_is_emitted_before_its_position_is_stored(table):
    table.create()
    values = {}
    running = trigger(table, Store(values), start=1).run()
    table.commit(1, table.add())
    first = await anext(running)
    assert next(iter(values.values()))["announced"] == 0
    await running.aclose()  # a triggerer that dies before the event was stored
    again = await anext(trigger(table, Store(values), start=1).run())
    assert again.payload == first.payload


async def test_a_triggerer_that_dies_before_airflow_stores_the_event_repeats_it(table, monkeypatch):
    monkeypatch.setattr("airflow_provider_deltalite.triggers._table._STORING_SECONDS", 60.0)
    table.create()
    table.commit(1, table.add())
    values = {}
    async with Watching(trigger(table, Store(values), start=1)) as watching:
        first = await watching.next()  # the triggerer has it, and Airflow's database not yet
        await asyncio.sleep(0.1)
    async with Watching(trigger(table, Store(values), start=1)) as watching:
        assert await watching.next() == first


@pytest.mark.parametrize("keeps", ["get", "set"])
async def test_a_failing_state_store_neither_ends_the_watcher_nor_loses_commits(table, keeps):
    table.create()
    table.commit(1, table.add())
    store = Store()
    if keeps == "get":
        store.fails = 2
    async with Watching(trigger(table, store, start=1)) as watching:
        assert (await watching.next())["version"] == 1
        if keeps == "set":
            store.fails = 1
        table.commit(2, table.add())
        event = await watching.next()
        assert (event["from_version"], event["version"]) == (2, 2)


async def test_a_watcher_without_a_usable_store_still_emits_events(table, capsys):
    table.create()
    table.commit(1, table.add())
    for store in (None, StoresOfTwo(other=Store())):
        async with Watching(trigger(table, store, start=1)) as watching:
            assert (await watching.next())["version"] == 1
    assert "Cannot save the watch position" in capsys.readouterr().out


async def test_the_asset_of_the_table_stores_the_position_if_a_trigger_has_several(table):
    table.create()
    store = Store()
    async with Watching(trigger(table, StoresOfTwo(**{asset_uri(str(table)): store, "other": Store()}))) as watching:
        await watching.sees(started(store))


async def test_a_store_without_asynchronous_methods_is_used(table):
    table.create()
    store = OldStore()
    async with Watching(trigger(table, store)) as watching:
        await watching.sees(started(store))


async def test_a_new_interval_keeps_the_position_and_new_conditions_start_again(table):
    keys = {
        name: trigger(table, **changes)._cursor_key
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
    assert trigger("s3a://lake/orders/")._cursor_key == trigger("s3://lake/orders")._cursor_key


PLACE = {"version": 1, "mark": "m", "remade": False}
UNREADABLE = {
    "a text": ("far", "position is 'far', not a mapping"),
    "a list": ([], "position is [], not a mapping"),
    "no place": ({"announced": 1, "table_id": None}, "position has no 'place'"),
    "no last event": ({"place": PLACE}, "position has no 'announced'"),
    "no version": ({"place": {"mark": "m"}, "announced": 1}, "position.place has no 'version'"),
    "another release's": ({"place": PLACE, "announced": 1, "lag": 0}, "position has the unknown key 'lag'"),
    "another type": ({"place": PLACE, "announced": None}, "position.announced is None"),
    "an event beyond it": (
        {"place": PLACE, "announced": 2},
        "announced is 2, and the last version that was read is 1",
    ),
    "before the first": ({"place": {"version": -2}, "announced": -2}, "announced is -2"),
}


@pytest.mark.parametrize(("kept", "why"), UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize(("start", "begins"), [("latest", 3), (1, 1)])
async def test_an_unreadable_position_is_ignored_and_the_log_names_the_commits_that_may_be_missed(
    table, capsys, kept, why, start, begins
):
    table.create()
    for version in (1, 2):
        table.commit(version, table.add())
    store = Store({trigger(table, start=start)._cursor_key: kept})
    async with Watching(trigger(table, store, start=start)) as watching:
        await watching.sees(lambda: all(value != kept for value in store.values.values()))
        log = capsys.readouterr().out
        assert why in log and repr(kept) in log
        assert f"restarts at version {begins} (start={start}). Events for earlier commits may be missing" in log
        table.commit(3, table.add())
        events = [await watching.next()]
        while events[-1]["version"] < 3:
            events.append(await watching.next())
        assert events[0]["from_version"] == begins
        await watching.sees(lambda: all(value["announced"] == 3 for value in store.values.values()))
    async with Watching(trigger(table, store, start=start)) as watching:
        table.commit(4, table.add())
        assert (await watching.next())["from_version"] == 4
    assert "is unreadable" not in capsys.readouterr().out


async def test_the_log_truncates_a_long_unreadable_position(table, capsys):
    table.create()
    store = Store({trigger(table)._cursor_key: "x" * 100_000})
    async with Watching(trigger(table, store)) as watching:
        await watching.sees(lambda: store.values[watching.trigger._cursor_key] != "x" * 100_000)
    log = capsys.readouterr().out
    assert "'xxx" in log and len(log) < 5_000
