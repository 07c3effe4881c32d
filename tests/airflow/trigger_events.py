"""The events of a trigger that runs to its end."""

from __future__ import annotations

import asyncio


async def events(trigger) -> list[dict]:
    """Run a trigger to its end, and return the payloads of its events."""
    async with asyncio.timeout(60):
        return [event.payload async for event in trigger.run()]
