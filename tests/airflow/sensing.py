"""Sensors for tests, and how a test defers and resumes them."""

from __future__ import annotations

import asyncio
import shutil

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred

from airflow_provider_deltalite.sensors.delta import DeltaVersionSensor


def sensor(table, **parameters) -> DeltaVersionSensor:
    return DeltaVersionSensor(
        **{"task_id": "wait", "table": str(table), "poke_interval": 0.01, "timeout": 5, **parameters}
    )


def deferred(sensor, context) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as caught:
        sensor.execute(context)
    return caught.value


def event_of(trigger) -> dict:
    async def first() -> dict:
        async with asyncio.timeout(60):
            return [event.payload async for event in trigger.run()]

    (event,) = asyncio.run(first())
    return event


def resumed(sensor, deferral, context):
    next_kwargs = {**deferral.kwargs, "event": event_of(deferral.trigger)}
    return sensor.resume_execution(deferral.method_name, next_kwargs, context)


def corrupt(table, version):
    table.root.joinpath("_delta_log", f"{version:020}.json").write_text("{not json\n")


def recreate(table, *actions):
    shutil.rmtree(table.root)
    table.create(*actions)


def other_table(table):
    other = type(table)(table.root.parent / "returns")
    other.create()
    for version in range(1, 4):
        other.commit(version, other.add())
    return other
