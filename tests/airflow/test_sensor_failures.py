"""How a wait ends without a commit: storage errors, corrupt logs, invalid parameters and timeouts."""

from __future__ import annotations

import pytest
from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
)

from airflow_provider_deltalite.hooks.delta import DeltaHook
from deltalite import watch
from deltalite.errors import StorageError
from tests.airflow.sensing import corrupt, deferred, resumed, sensor


def test_a_storage_error_is_retried_at_the_next_poll(table, monkeypatch):
    table.create()
    table.commit(1, table.add())
    poll, versions = watch.poll, []

    def at_the_second_time(store, after, condition):
        versions.append(after)
        if len(versions) == 1:
            raise StorageError("timed out", remedy="Wait.")
        return poll(store, after, condition)

    monkeypatch.setattr(watch, "poll", at_the_second_time)
    assert sensor(table, after_version=0).execute({})["version"] == 1


@pytest.mark.parametrize("deferrable", [False, True])
def test_a_storage_error_at_the_first_poll_is_retried_too(table, context, monkeypatch, deferrable):
    table.create()
    get_conn, tables = DeltaHook.get_conn, []

    def at_the_second_time(hook):
        tables.append(hook.table)
        if len(tables) == 1:
            raise StorageError("timed out", remedy="Wait.")
        return get_conn(hook)

    monkeypatch.setattr(DeltaHook, "get_conn", at_the_second_time)
    waits = sensor(table, deferrable=deferrable)
    assert not waits.poke(context)
    if deferrable:
        deferred(waits, context)
    else:
        assert not waits.poke(context)


@pytest.mark.parametrize("soft_fail", [False, True])
@pytest.mark.parametrize("deferrable", [False, True])
def test_a_corrupt_log_fails_or_skips_the_sensor_in_both_modes(table, context, deferrable, soft_fail):
    table.create()
    waits = sensor(table, after_version=0, deferrable=deferrable, soft_fail=soft_fail)
    expected = AirflowSkipException if soft_fail else AirflowFailException
    if deferrable:
        deferral = deferred(waits, context)
        corrupt(table, 1)
        with pytest.raises(expected) as caught:
            resumed(waits, deferral, context)
    else:
        corrupt(table, 1)
        with pytest.raises(expected) as caught:
            waits.execute(context)
    failure = caught.value.__cause__ if soft_fail else caught.value
    assert "CorruptLogError" in str(failure)


@pytest.mark.parametrize("soft_fail", [False, True])
@pytest.mark.parametrize("deferrable", [False, True])
def test_a_timeout_fails_or_skips_the_sensor_in_both_modes(table, context, deferrable, soft_fail):
    table.create()
    waits = sensor(table, timeout=0, deferrable=deferrable, soft_fail=soft_fail)
    if deferrable:
        deferred(waits, context)
        end = lambda: waits.resume_execution("__fail__", {"error": "Trigger timeout"}, context)
    else:
        end = lambda: waits.execute(context)
    with pytest.raises(AirflowSkipException if soft_fail else AirflowSensorTimeout):
        end()


@pytest.mark.parametrize("event", [None, {"status": "odd"}, {"status": "success"}])
def test_an_unknown_event_is_an_error(table, context, event):
    with pytest.raises(AirflowException, match="does not know"):
        sensor(table).execute_complete(context, event)


def test_an_invalid_request_at_resume_fails_for_good(table, context):
    waits = sensor(table)
    waits.table = f"{table}/../other"  # as a template gives it now
    with pytest.raises(AirflowFailException, match="leads to another folder"):
        waits.execute_complete(context, {"status": "success", "result": {}}, request={"table": str(table)})


def test_an_error_of_another_release_can_be_retried(table, context):
    event = {"status": "error", "kind": "NewError", "message": "new"}
    with pytest.raises(AirflowException, match="NewError: new") as caught:
        sensor(table).execute_complete(context, event)
    assert type(caught.value) is AirflowException


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"after_version": "None"}, "after_version is 'None'"),
        ({"after_version": -2}, "after_version is -2"),
        ({"after_version": 0, "operations": "WRITE"}, "operations is 'WRITE', not a list"),
        ({"after_version": 0, "storage_conn_id": "lake"}, "storage_conn_id is 'lake'"),
        ({"after_version": 0, "table": "gs://lake/t"}, "UnsupportedStorageError"),
        ({"after_version": 0, "table": ""}, "InvalidTableAddressError"),
        ({"after_version": 0, "made_by": {"logical_date": "soon"}}, "made_by.logical_date is 'soon'"),
        ({"after_version": 0, "made_by": {"day": "1"}}, "made_by has the unknown name 'day'"),
    ],
)
def test_an_invalid_parameter_fails_for_good(table, context, parameters, message):
    waiting = sensor(table)
    for name, value in parameters.items():  # as templates give them
        setattr(waiting, name, value)
    with pytest.raises(AirflowFailException, match=message):
        waiting.execute(context)


@pytest.mark.parametrize("deferrable", [False, True])
def test_the_first_poll_logs_what_the_sensor_waits_for(table, context, caplog, deferrable):
    caplog.set_level("INFO")
    table.create()
    table.commit(1, table.add(data_change=False))
    waits = sensor(table, after_version=0, operations=["MERGE"], partition={"day": "1"}, deferrable=deferrable)
    deferred(waits, context) if deferrable else waits.poke(context)
    assert f"commit to {table} of operation MERGE, in partition day=1, after version 0." in caplog.text
    assert "The newest version is 1. Last answered poll: 20" in caplog.text


@pytest.mark.parametrize("soft_fail", [False, True])
@pytest.mark.parametrize("deferrable", [False, True])
def test_the_message_of_a_timeout_names_the_wait_and_a_missing_table(table, context, deferrable, soft_fail):
    waits = sensor(table, timeout=0, deferrable=deferrable, soft_fail=soft_fail, after_version=-1)
    if deferrable:
        deferred(waits, context)
        end = lambda: waits.resume_execution("__fail__", {"error": "Trigger timeout"}, context)
    else:
        end = lambda: waits.execute(context)
    with pytest.raises(AirflowSkipException if soft_fail else AirflowSensorTimeout) as caught:
        end()
    assert f"commit to {table} that changes rows, at any version. The table does not exist." in str(caught.value)


def test_a_skip_for_another_error_keeps_its_message(table, context):
    table.create()
    corrupt(table, 1)
    with pytest.raises(AirflowSkipException, match=r"^Skipping due to soft_fail is set to True\.$"):
        sensor(table, after_version=0, soft_fail=True).execute(context)
