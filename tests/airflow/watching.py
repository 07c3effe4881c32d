"""A watcher that runs in a test, and a stand-in for the store in which Airflow keeps the watcher's log position."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing

from airflow_provider_deltalite.triggers.delta import DeltaTableTrigger


class AssetStateStore:
    """The state store of a trigger with one asset, as in Airflow 3.3.2.

    Two stores with the same `values` are the stores of one asset before and after a restart of the triggerer. The next
    `remaining_failures` calls fail.
    """

    def __init__(self, values=None):
        self.values = {} if values is None else values
        self.remaining_failures = 0

    @property
    def position(self):
        """The stored position of the only trigger, or None if it has stored none yet."""
        return next(iter(self.values.values()), None)

    async def aget(self, key):
        self._fail_if_due()
        return self.values.get(key)

    async def aset(self, key, value):
        self._fail_if_due()
        self.values[key] = json.loads(json.dumps(value))

    def _fail_if_due(self):
        if self.remaining_failures:
            self.remaining_failures -= 1
            raise ConnectionError("the API server does not answer")


def trigger(table, store=None, **changes) -> DeltaTableTrigger:
    """Create the trigger of a watcher that polls every 10 ms. `changes` are further arguments of the trigger."""
    table_trigger = DeltaTableTrigger(table=str(table), **{"poke_interval": 0.01, **changes})
    table_trigger.asset_state_store = store
    return table_trigger


class RunningTrigger:
    """A trigger that runs in a task of the event loop, while its `with` block runs."""

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

    async def next_event(self):
        """Wait for the next event, and return its payload."""
        return await asyncio.wait_for(self.events.get(), 20)


async def wait_until(condition):
    """Wait until the function `condition` returns a true value. Raises TimeoutError after 20 seconds."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  a changed file or store sets no event for which this could wait
            await asyncio.sleep(0.01)


async def wait_until_started(store):
    """Wait until a trigger has stored its first position."""
    await wait_until(lambda: store.position is not None)
