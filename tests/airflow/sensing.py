"""Sensors for tests, functions that defer and resume a sensor, and changes of its table."""

from __future__ import annotations

import asyncio
import shutil

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred

from airflow_provider_deltalite.sensors.delta import DeltaVersionSensor
from tests.airflow.trigger_events import events


def make_sensor(table, **parameters) -> DeltaVersionSensor:
    return DeltaVersionSensor(
        **{"task_id": "wait", "table": str(table), "poke_interval": 0.01, "timeout": 5, **parameters}
    )


def defer(sensor, context) -> TaskDeferred:
    """Execute a sensor that defers, and return its deferral."""
    with pytest.raises(TaskDeferred) as caught:
        sensor.execute(context)
    return caught.value


def event_of(trigger) -> dict:
    """Run a trigger to its end, and return the payload of its only event."""
    (event,) = asyncio.run(events(trigger))
    return event


def resume(sensor, deferral, context):
    """Resume a deferred sensor with the event of its trigger, and return the sensor's result."""
    next_kwargs = {**deferral.kwargs, "event": event_of(deferral.trigger)}
    return sensor.resume_execution(deferral.method_name, next_kwargs, context)


def corrupt_commit(table, version):
    """Replace the commit file of a version by a text that is not JSON."""
    table.root.joinpath("_delta_log", f"{version:020}.json").write_text("{not json\n")


def recreate(table, *actions):
    """Delete a table, and create another one in its folder."""
    shutil.rmtree(table.root)
    table.create(*actions)


def create_second_table(table):
    """Create a table with versions 0 to 3 beside another table, and return it."""
    second_table = type(table)(table.root.parent / "returns")
    second_table.create()
    for version in range(1, 4):
        second_table.commit(version, second_table.add())
    return second_table
