"""A wait that ends without a commit: storage errors, corrupt logs, invalid parameters and timeouts."""

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
from tests.airflow.sensing import corrupt_commit, defer, make_sensor, resume


def test_a_storage_error_is_retried_at_the_next_poll(table, monkeypatch):
    table.create()
    table.commit(1, table.add())
    poll, polled_positions = watch.poll, []

    def fail_at_the_first_poll(store, after, condition):
        polled_positions.append(after)
        if len(polled_positions) == 1:
            raise StorageError("timed out", remedy="Wait.")
        return poll(store, after, condition)

    monkeypatch.setattr(watch, "poll", fail_at_the_first_poll)
    assert make_sensor(table, after_version=0).execute({})["version"] == 1


@pytest.mark.parametrize("deferrable", [False, True])
def test_a_storage_error_at_the_first_poll_is_retried_too(table, context, monkeypatch, deferrable):
    table.create()
    get_conn, hooks = DeltaHook.get_conn, []

    def fail_at_the_first_call(hook):
        hooks.append(hook)
        if len(hooks) == 1:
            raise StorageError("timed out", remedy="Wait.")
        return get_conn(hook)

    monkeypatch.setattr(DeltaHook, "get_conn", fail_at_the_first_call)
    version_sensor = make_sensor(table, deferrable=deferrable)
    assert not version_sensor.poke(context)
    if deferrable:
        defer(version_sensor, context)
    else:
        assert not version_sensor.poke(context)


@pytest.mark.parametrize("soft_fail", [False, True])
@pytest.mark.parametrize("deferrable", [False, True])
def test_a_corrupt_log_fails_or_skips_the_sensor_in_both_modes(table, context, deferrable, soft_fail):
    table.create()
    version_sensor = make_sensor(table, after_version=0, deferrable=deferrable, soft_fail=soft_fail)
    expected = AirflowSkipException if soft_fail else AirflowFailException
    if deferrable:
        deferral = defer(version_sensor, context)
        corrupt_commit(table, 1)
        with pytest.raises(expected) as caught:
            resume(version_sensor, deferral, context)
    else:
        corrupt_commit(table, 1)
        with pytest.raises(expected) as caught:
            version_sensor.execute(context)
    failure = caught.value.__cause__ if soft_fail else caught.value
    assert "CorruptLogError" in str(failure)


def error_at_timeout(version_sensor, context):
    """Let the wait of a sensor time out, and return the error that the sensor raises."""
    end_wait = lambda: version_sensor.execute(context)
    if version_sensor.deferrable:
        defer(version_sensor, context)
        end_wait = lambda: version_sensor.resume_execution("__fail__", {"error": "Trigger timeout"}, context)
    with pytest.raises(AirflowSkipException if version_sensor.soft_fail else AirflowSensorTimeout) as caught:
        end_wait()
    return caught.value


@pytest.mark.parametrize("soft_fail", [False, True])
@pytest.mark.parametrize("deferrable", [False, True])
def test_a_timeout_fails_or_skips_the_sensor_in_both_modes(table, context, deferrable, soft_fail):
    table.create()
    version_sensor = make_sensor(table, timeout=0, deferrable=deferrable, soft_fail=soft_fail)
    assert error_at_timeout(version_sensor, context)


@pytest.mark.parametrize("event", [None, {"status": "odd"}, {"status": "success"}])
def test_an_unknown_event_is_an_error(table, context, event):
    with pytest.raises(AirflowException, match="the trigger sent an unknown event"):
        make_sensor(table).execute_complete(context, event)


def test_an_invalid_request_at_resume_fails_without_a_retry(table, context):
    version_sensor = make_sensor(table)
    version_sensor.table = f"{table}/../other"  # Rendering a template sets the attribute in the same way.
    with pytest.raises(AirflowFailException, match="leads to another folder"):
        version_sensor.execute_complete(context, {"status": "success", "result": {}}, request={"table": str(table)})


def test_an_error_of_another_release_can_be_retried(table, context):
    event = {"status": "error", "kind": "NewError", "message": "new"}
    with pytest.raises(AirflowException, match="NewError: new") as caught:
        make_sensor(table).execute_complete(context, event)
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
        ({"after_version": 0, "made_by": {"day": "1"}}, "made_by contains the unknown name 'day'"),
    ],
)
@pytest.mark.usefixtures("without_gcsfs")
def test_an_invalid_parameter_fails_without_a_retry(table, context, parameters, message):
    version_sensor = make_sensor(table)
    for name, value in parameters.items():  # Rendering the templates sets the attributes in the same way.
        setattr(version_sensor, name, value)
    with pytest.raises(AirflowFailException, match=message):
        version_sensor.execute(context)


@pytest.mark.parametrize("deferrable", [False, True])
def test_the_first_poll_logs_what_the_sensor_waits_for(table, context, caplog, deferrable):
    caplog.set_level("INFO")
    table.create()
    table.commit(1, table.add(data_change=False))
    version_sensor = make_sensor(
        table, after_version=0, operations=["MERGE"], partition={"day": "1"}, deferrable=deferrable
    )
    defer(version_sensor, context) if deferrable else version_sensor.poke(context)
    assert f"commit to {table} of operation MERGE, in partition day=1, after version 0." in caplog.text
    assert "The newest version is 1. Last answered poll: 20" in caplog.text


@pytest.mark.parametrize("soft_fail", [False, True])
@pytest.mark.parametrize("deferrable", [False, True])
def test_the_message_of_a_timeout_names_the_wait_and_a_missing_table(table, context, deferrable, soft_fail):
    version_sensor = make_sensor(table, timeout=0, deferrable=deferrable, soft_fail=soft_fail, after_version=-1)
    message = str(error_at_timeout(version_sensor, context))
    assert f"commit to {table} that changes rows, at any version. The table does not exist." in message


def test_a_skip_after_an_error_other_than_a_timeout_keeps_the_message_of_airflow(table, context):
    table.create()
    corrupt_commit(table, 1)
    with pytest.raises(AirflowSkipException, match=r"^Skipping due to soft_fail is set to True\.$"):
        make_sensor(table, after_version=0, soft_fail=True).execute(context)
