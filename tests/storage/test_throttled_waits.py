"""A sensor, a trigger and a watcher wait for a commit while the object store throttles all their requests.

A proxy answers 429 or 503 instead of the server. A stand-in for `asyncio.sleep` records the pauses of the triggers. It
also replaces the pauses of the storage's clients, so no pause takes time.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading

import fsspec
import pytest

from airflow_provider_deltalite.sensors.delta import DeltaVersionSensor
from airflow_provider_deltalite.triggers import _version
from airflow_provider_deltalite.triggers.delta import DeltaVersionTrigger
from deltalite.conditions import CommitCondition, LogPosition
from tests.airflow.sensing import make_sensor
from tests.airflow.watching import AssetStateStore
from tests.airflow.watching import trigger as table_trigger
from tests.support.storage_answers import throttling_answer
from tests.support.tables import write_rows

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

SECOND_COMMIT = "t/_delta_log/00000000000000000001.json"
ADD = {"path": "x.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
# The pauses after failed polls, with a poll interval of one second: they double up to ten minutes.
PAUSES = [2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]


@pytest.fixture
def table(proxied, spark, monkeypatch):
    """The address of a table with one version, which fsspec opens through the proxy without an Airflow connection."""
    write_rows(spark, f"{proxied.bucket.spark_root}/t", "SELECT 1 AS id")
    address = f"{proxied.bucket.worker_root}/t"
    protocol = address.partition(":")[0]
    monkeypatch.setitem(fsspec.config.conf, protocol, proxied.bucket.fsspec_options)
    return address


class Pauses:
    """A stand-in for `asyncio.sleep`, which records the pauses in the thread of the test and waits for none."""

    def __init__(self):
        self.seconds, self._sleep, self._thread = [], asyncio.sleep, threading.get_ident()

    async def __call__(self, seconds, result=None):
        if threading.get_ident() == self._thread and seconds > 0:
            self.seconds.append(seconds)
        await self._sleep(0)
        return result


@pytest.fixture
def pauses(monkeypatch):
    """The pauses of a trigger. They take no time."""
    recorded_pauses = Pauses()
    monkeypatch.setattr(asyncio, "sleep", recorded_pauses)
    monkeypatch.setattr(_version, "_SETTLING_SECONDS", 0.0)
    return recorded_pauses


class Throttling:
    """A fault for all requests until `has_ended` returns true. Then another writer commits version 1."""

    def __init__(self, proxied, status, has_ended):
        self._proxied, self._has_ended, self._has_committed = proxied, has_ended, False
        self._answer = throttling_answer(proxied.bucket, status)
        self.count = 0

    def __call__(self, _request):
        if not self._has_ended():
            self.count += 1
            return self._answer
        if not self._has_committed:
            self._has_committed = True
            actions = ({"commitInfo": {"operation": "WRITE", "timestamp": 1}}, {"add": ADD})
            self._proxied.direct.put_objects({SECOND_COMMIT: "\n".join(map(json.dumps, actions)).encode()})
        return None


async def first_event(trigger):
    """Run a trigger up to its first event, and return the payload."""
    async with contextlib.aclosing(trigger.run()) as events:
        return (await asyncio.wait_for(anext(events), 120)).payload


@pytest.mark.sample(429)
@pytest.mark.parametrize("status", [429, 503])
async def test_a_trigger_pauses_longer_after_each_throttled_poll_and_then_finds_the_version(
    proxied, table, pauses, status
):
    throttling = Throttling(proxied, status, lambda: len(pauses.seconds) >= len(PAUSES))
    trigger = DeltaVersionTrigger(
        table=table,
        after_version=0,
        condition=CommitCondition().as_dict(),
        place=LogPosition(version=0).as_dict(),
        poke_interval=1.0,
    )
    with proxied.proxy.faults(throttling):
        event = await first_event(trigger)
    assert (event["status"], event["result"]["version"]) == ("success", 1)
    assert pauses.seconds == PAUSES and throttling.count >= len(PAUSES)


@pytest.mark.campaign
async def test_a_watcher_pauses_longer_after_each_throttled_poll_and_then_finds_the_version(proxied, table, pauses):
    throttling = Throttling(proxied, 429, lambda: len(pauses.seconds) >= len(PAUSES))
    with proxied.proxy.faults(throttling):
        event = await first_event(table_trigger(table, AssetStateStore(), start=0, poke_interval=1.0))
    assert event["version"] == 1
    assert pauses.seconds[: len(PAUSES)] == PAUSES and throttling.count >= len(PAUSES)


@pytest.mark.usefixtures("pauses")
def test_a_sensor_continues_after_throttled_polls_and_then_finds_the_version(proxied, table, monkeypatch):
    poke, outcomes = DeltaVersionSensor.poke, []

    def poke_and_record(sensor, context):
        outcome = poke(sensor, context)
        outcomes.append(outcome.is_done)
        return outcome

    monkeypatch.setattr(DeltaVersionSensor, "poke", poke_and_record)
    throttling = Throttling(proxied, 429, lambda: len(outcomes) >= 3)
    with proxied.proxy.faults(throttling):
        assert make_sensor(table, after_version=0, timeout=600).execute({})["version"] == 1
    assert outcomes == [False, False, False, True] and throttling.count >= 3
