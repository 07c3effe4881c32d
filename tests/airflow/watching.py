"""A watcher that runs in a test, and the store in which Airflow keeps its log position."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing

from airflow_provider_deltalite.triggers.delta import DeltaTableTrigger


class Store:
    """The state store of a trigger with one asset, as in Airflow 3.3.2; `values` outlives a triggerer."""

    def __init__(self, values=None):
        self.values = {} if values is None else values
        self.fails = 0

    async def aget(self, key):
        self._fail()
        return self.values.get(key)

    async def aset(self, key, value):
        self._fail()
        self.values[key] = json.loads(json.dumps(value))

    def _fail(self):
        if self.fails:
            self.fails -= 1
            raise ConnectionError("the API server is away")


def trigger(table, store=None, **changes) -> DeltaTableTrigger:
    table_trigger = DeltaTableTrigger(table=str(table), **{"poke_interval": 0.01, **changes})
    table_trigger.asset_state_store = store
    return table_trigger


class Watching:
    """A running trigger; `next` returns its next event."""

    def __init__(self, trigger):
        self.trigger = trigger
        self.events = asyncio.Queue()

    async def __aenter__(self):
        self.task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def _run(self):
        async with aclosing(self.trigger.run()) as events:
            async for event in events:
                await self.events.put(event.payload)

    async def next(self):
        return await asyncio.wait_for(self.events.get(), 20)

    async def sees(self, condition):
        async with asyncio.timeout(20):
            while not condition():  # noqa: ASYNC110  what is waited for is a file or a store
                await asyncio.sleep(0.01)


def started(store):
    """Whether a trigger has stored its first position."""
    return lambda: bool(store.values)
