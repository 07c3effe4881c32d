"""The sensor: the same answer poking and deferred, and a wait that begins where it began at the first try."""

from __future__ import annotations

import asyncio
import os
import shutil
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
    TaskDeferred,
)
from airflow.sdk import DAG

from airflow_provider_deltalite.hooks.delta import DeltaHook
from airflow_provider_deltalite.sensors.delta import DeltaVersionSensor
from deltalite import watch
from deltalite.conditions import LogPosition
from deltalite.errors import StorageError
from tests.support.airflow_versions import NEVER_EXPIRE, AirflowRescheduleException, since_3_3


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


def test_poking_and_deferred_return_the_same(table, context):
    table.create()
    waits = sensor(table, after_version=0, deferrable=True)
    deferral = deferred(waits, context)
    table.commit(1, table.add(), operation="MERGE")
    poked = sensor(table, after_version=0).execute(context)
    assert poked == {
        "table": str(table),
        "from_version": 1,
        "version": 1,
        "after_version": 0,
        "reset": False,
        "operation": "MERGE",
        "timestamp": 1_700_000_000_001,
    }
    assert resumed(waits, deferral, context) == poked


def test_a_version_that_is_there_is_returned_without_deferring(table, context):
    table.create()
    table.commit(1, table.add())
    assert sensor(table, after_version=0, deferrable=True).execute(context)["version"] == 1


def test_it_defers_for_its_own_timeout(table, context):
    assert deferred(sensor(table, timeout=77, deferrable=True), context).timeout == timedelta(seconds=77)


def test_the_trigger_goes_on_where_the_first_look_ended(table, context):
    table.create()
    table.commit(1, table.add(data_change=False))
    trigger = deferred(sensor(table, after_version=0, deferrable=True), context).trigger
    assert (trigger.wait.after_version, trigger.position.version) == (0, 1)


@pytest.mark.parametrize("deferrable", [False, True])
def test_a_table_that_does_not_exist_yet_is_waited_for(table, context, deferrable):
    waits = sensor(table, deferrable=deferrable)
    if deferrable:
        deferral = deferred(waits, context)
        table.create(table.add())
        found = resumed(waits, deferral, context)
    else:
        assert not waits.poke(context)
        table.create(table.add())
        found = waits.execute(context)
    assert (found["version"], found["after_version"]) == (0, -1)


@since_3_3
@pytest.mark.parametrize("deferrable", [False, True])
def test_the_version_of_the_first_look_survives_into_another_try(table, context, deferrable):
    table.create()
    first = sensor(table, deferrable=deferrable)
    if deferrable:
        deferred(first, context)
    else:
        assert not first.poke(context)
    table.commit(1, table.add())
    table.commit(2, table.add())
    context["ti"].try_number = 2
    found = sensor(table, deferrable=deferrable).execute(context)
    assert (found["version"], found["after_version"]) == (1, 0)


def made_again(table, *actions):
    shutil.rmtree(table.root)
    table.create(*actions)


@since_3_3
@pytest.mark.parametrize("deferrable", [False, True])
@pytest.mark.parametrize("baseline", [None, 2], ids=["of its own", "given"])
def test_a_table_that_is_made_again_while_it_is_waited_for_is_waited_on_from_its_beginning(
    table, context, deferrable, baseline
):
    table.create()
    table.commit(1, table.add())
    table.commit(2, table.add())
    waits = sensor(table, deferrable=deferrable, after_version=baseline)
    if deferrable:
        deferral = deferred(waits, context)
        made_again(table, table.add(partition={"day": "new"}))
        found = resumed(waits, deferral, context)
    else:
        assert not waits.poke(context)
        made_again(table, table.add(partition={"day": "new"}))
        found = waits.execute(context)
    assert (found["from_version"], found["version"], found["after_version"], found["reset"]) == (0, 0, 2, True)


@pytest.mark.parametrize("deferrable", [False, True])
def test_what_log_cleanup_took_away_is_passed_over_and_told_in_the_range(table, context, deferrable, caplog):
    table.create()
    waits = sensor(table, deferrable=deferrable, after_version=0)
    deferral = deferred(waits, context) if deferrable else waits.poke(context)
    table.commit(5, table.add())
    for version in (0, 1):
        (table.root / "_delta_log" / f"{version:020}.json").unlink(missing_ok=True)
    found = resumed(waits, deferral, context) if deferrable else waits.execute(context)
    assert (found["from_version"], found["version"], found["reset"]) == (1, 5, False)
    assert "Skipping versions 1 to 4" in caplog.text


@since_3_3
def test_a_rescheduled_sensor_reads_no_commit_twice_unless_it_is_asked_for_another_one(table, context, monkeypatch):
    table.create()
    for version in range(1, 4):
        table.commit(version, table.add(data_change=False))
    context["ti"].get_first_reschedule_date = lambda _: None
    asked, poll = [], watch.poll
    monkeypatch.setattr(
        watch, "poll", lambda store, after, condition: asked.append(after.version) or poll(store, after, condition)
    )
    for condition in ({}, {}, {"operations": ["MERGE"]}):
        with pytest.raises(AirflowRescheduleException):
            sensor(table, after_version=0, mode="reschedule", **condition).execute(context)
    assert asked == [0, 3, 0]


def test_a_rescheduled_sensor_begins_where_it_began(table, context):
    table.create()
    context["ti"].get_first_reschedule_date = lambda _: None
    with pytest.raises(AirflowRescheduleException):
        sensor(table, mode="reschedule").execute(context)
    table.commit(1, table.add())
    table.commit(2, table.add())
    assert sensor(table, mode="reschedule").execute(context)["version"] == 1


@since_3_3
def test_a_beginning_that_cannot_be_read_ends_the_wait_and_says_what_to_do(table, context):
    table.create()
    assert not sensor(table).poke(context)
    state = context["task_state_store"]
    kept = state.get("deltalite_after_version")
    state.set("deltalite_after_version", {**kept, "place": {"version": 0, "lag": 1}})
    with pytest.raises(AirflowFailException, match=r"(?s)unknown key 'lag'.*Give after_version"):
        sensor(table).execute(context)


def other_table(table):
    other = type(table)(table.root.parent / "returns")
    other.create()
    for version in range(1, 4):
        other.commit(version, other.add())
    return other


@since_3_3
@pytest.mark.parametrize("deferrable", [False, True])
def test_a_starting_version_is_used_only_for_the_table_that_it_was_read_from(table, context, caplog, deferrable):
    table.create()
    assert not sensor(table).poke(context)
    other = other_table(table)
    waits = sensor(other, deferrable=deferrable)
    if deferrable:
        assert deferred(waits, context).trigger.wait.after_version == 3
    else:
        assert not waits.poke(context)
    assert f"belongs to another request (table file://{table})" in caplog.text
    other.commit(4, other.add())
    assert sensor(other).execute(context)["version"] == 4


@since_3_3
@pytest.mark.parametrize("change", [{"app_id": "b"}, {"partition": {"day": "2"}}, {"operations": ["MERGE"]}])
def test_a_starting_version_is_used_only_for_the_request_that_it_was_kept_for(table, context, change):
    table.create()
    assert not sensor(table, app_id="a").poke(context)
    table.commit(1, table.add(partition={"day": "2"}), table.txn("b"), operation="MERGE")
    assert not sensor(table, **change).poke(context)
    table.commit(2, table.add(partition={"day": "2"}), table.txn("b"), operation="MERGE")
    assert sensor(table, **change).execute(context)["version"] == 2


@since_3_3
def test_another_spelling_of_the_address_is_the_same_table(table, context):
    table.create()
    assert not sensor(table).poke(context)
    table.commit(1, table.add())
    assert sensor(f"file:{table}/").execute(context)["version"] == 1


def test_the_event_of_a_deferral_is_used_only_for_the_request_that_was_deferred(table, context):
    table.create()
    waits = sensor(table, after_version=0, deferrable=True)
    deferral = deferred(waits, context)
    table.commit(1, table.add())
    event = {"event": event_of(deferral.trigger)}
    other = other_table(table)
    moved = sensor(other, after_version=1, deferrable=True)
    found = moved.resume_execution(deferral.method_name, {**deferral.kwargs, **event}, context)
    assert (found["table"], found["version"]) == (str(other), 2)


def test_one_sensor_object_that_is_rendered_for_another_table_reads_that_one_from_its_start(table, context):
    table.create()
    table.commit(1, table.add(data_change=False))
    waits = sensor(table, after_version=0)
    assert not waits.poke(context)
    waits.table = str(other_table(table))
    assert waits.execute(context)["version"] == 1


@since_3_3
@pytest.mark.parametrize(
    "broken",
    [
        lambda kept: {**kept, "place": {"version": 1, "lag": 0}},
        lambda kept: {"request": kept["request"]},
        lambda _: "far",
    ],
    ids=["another release's", "no place", "a text"],
)
def test_how_far_it_has_looked_is_looked_at_again_where_that_cannot_be_read(table, context, monkeypatch, broken):
    table.create()
    table.commit(1, table.add(data_change=False))
    context["ti"].get_first_reschedule_date = lambda _: None
    state, asked, poll = context["task_state_store"], [], watch.poll
    monkeypatch.setattr(
        watch, "poll", lambda store, after, condition: asked.append(after.version) or poll(store, after, condition)
    )
    for _ in range(2):
        with pytest.raises(AirflowRescheduleException):
            sensor(table, after_version=0, mode="reschedule").execute(context)
        state.set("deltalite_place", broken(state.get("deltalite_place")))
    assert asked == [0, 0]


@since_3_3
def test_the_version_of_the_first_look_is_kept_as_long_as_the_dag_run(table, context):
    assert not sensor(table).poke(context)
    state = context["task_state_store"]
    assert state.values["deltalite_after_version"]["place"] == LogPosition(version=-1).as_dict()
    assert state.retentions == {"deltalite_after_version": NEVER_EXPIRE}


def test_without_state_of_the_task_the_wait_begins_when_the_dag_run_began(table, context):
    table.create(timestamp=1_000)
    table.commit(1, table.add(), timestamp=2_000)
    table.commit(2, table.add(), timestamp=3_000)
    for version, seconds in ((0, 1), (1, 2), (2, 3)):
        path = table.root / "_delta_log" / f"{version:020}.json"
        os.utime(path, (seconds, seconds))
    context.pop("task_state_store", None)
    context["dag_run"] = SimpleNamespace(start_date=datetime.fromtimestamp(2.5, tz=UTC))
    found = sensor(table).execute(context)
    assert (found["version"], found["after_version"]) == (2, 1)


def test_a_version_that_is_given_needs_no_state(table):
    table.create(table.add())
    assert sensor(table, after_version=-1).execute({})["version"] == 0


@pytest.mark.parametrize("native", [False, True])
def test_its_parameters_are_templates(table, native):
    table.create()
    table.commit(1, table.add(partition={"day": "2026-01-01"}))
    table.commit(2, table.add(partition={"day": "2026-01-02"}))
    with DAG("d", schedule=None, render_template_as_native_obj=native):
        waits = sensor("{{ t }}", after_version="{{ n }}", partition={"day": "{{ ds }}"}, operations=["{{ op }}"])
    waits.render_template_fields({"t": str(table), "n": 0, "ds": "2026-01-02", "op": "write"})
    assert waits.execute({})["version"] == 2


@pytest.mark.parametrize(
    ("conditions", "version"),
    [
        ({}, 2),
        ({"data_change_only": False}, 1),
        ({"operations": ["OPTIMIZE"]}, 1),
        ({"operations": ["MERGE"]}, 3),
        ({"app_id": "run-4"}, 4),
        ({"partition": {"day": "b"}}, 3),
    ],
)
def test_only_a_commit_that_meets_all_conditions_counts(table, conditions, version):
    table.create()
    table.commit(1, table.add(data_change=False), operation="OPTIMIZE")
    table.commit(2, table.add(partition={"day": "a"}))
    table.commit(3, table.add(partition={"day": "b"}), operation="MERGE")
    table.commit(4, table.add(), table.txn("run-4"))
    assert sensor(table, after_version=0, **conditions).execute({})["version"] == version


def test_the_commit_of_a_run_that_wrote_no_rows_is_found_by_its_app_id(table):
    table.create()
    table.commit(1, table.txn("run-1"))
    assert sensor(table, after_version=-1, app_id="run-1").execute({})["version"] == 1
    assert not sensor(table, after_version=-1, app_id="run-1", data_change_only=True).poke({})


@pytest.mark.parametrize("deferrable", [False, True])
@pytest.mark.parametrize("start", ["2026-03-02T01:00:00+01:00", "2026-03-02", datetime(2026, 3, 2, tzinfo=UTC)])
def test_a_commit_is_found_by_its_data_interval_whichever_kind_of_run_made_it(table, context, deferrable, start):
    def ingest(day, kind):
        names = {"dag_id": "ingest", "task_id": "load", "run_id": f"{kind}__{day}"}
        return names | {"data_interval_start": f"2026-03-{day:02}T00:00:00+00:00"}

    table.create()
    table.commit(1, table.add(), run=ingest(1, "scheduled"))
    table.commit(2, table.add(), run=ingest(2, "scheduled") | {"task_id": "other"})
    waits = sensor(
        table,
        after_version=-1,
        deferrable=deferrable,
        made_by={"dag_id": "ingest", "task_id": "load", "data_interval_start": start},
    )
    if deferrable:
        deferral = deferred(waits, context)
        table.commit(3, table.add(), run=ingest(2, "backfill"))
        assert resumed(waits, deferral, context)["version"] == 3
    else:
        table.commit(3, table.add(), run=ingest(2, "backfill"))
        assert waits.execute(context)["version"] == 3


def test_a_poke_reads_on_from_where_the_last_one_ended(table, context, monkeypatch):
    table.create()
    table.commit(1, table.add(data_change=False))
    asked, poll = [], watch.poll
    monkeypatch.setattr(
        watch, "poll", lambda store, after, condition: asked.append(after.version) or poll(store, after, condition)
    )
    waits = sensor(table, after_version=0)
    assert [bool(waits.poke(context)) for _ in range(3)] == [False, False, False]
    assert asked == [0, 1, 1]


def test_storage_that_does_not_answer_is_poked_again(table, monkeypatch):
    table.create()
    table.commit(1, table.add())
    poll, asked = watch.poll, []

    def at_the_second_time(store, after, condition):
        asked.append(after)
        if len(asked) == 1:
            raise StorageError("timed out", remedy="Wait.")
        return poll(store, after, condition)

    monkeypatch.setattr(watch, "poll", at_the_second_time)
    assert sensor(table, after_version=0).execute({})["version"] == 1


@pytest.mark.parametrize("deferrable", [False, True])
def test_so_is_storage_that_does_not_answer_at_the_first_look(table, context, monkeypatch, deferrable):
    table.create()
    get_conn, asked = DeltaHook.get_conn, []

    def at_the_second_time(hook):
        asked.append(hook.table)
        if len(asked) == 1:
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
def test_a_corrupt_log_ends_the_wait_in_both_modes_as_soft_fail_says(table, context, deferrable, soft_fail):
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
def test_a_timeout_is_a_sensor_timeout_in_both_modes_and_a_skip_under_soft_fail(table, context, deferrable, soft_fail):
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
def test_an_event_that_is_not_ours_is_an_error(table, context, event):
    with pytest.raises(AirflowException, match="does not know"):
        sensor(table).execute_complete(context, event)


def test_a_request_that_is_invalid_when_the_sensor_resumes_fails_at_once(table, context):
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
    ("parameters", "said"),
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
def test_what_cannot_be_waited_for_fails_at_once(table, context, parameters, said):
    waiting = sensor(table)
    for name, value in parameters.items():  # as templates give them
        setattr(waiting, name, value)
    with pytest.raises(AirflowFailException, match=said):
        waiting.execute(context)


def test_the_default_of_deferrable_is_airflows_own(table):
    assert sensor(table).deferrable is False


@pytest.mark.parametrize("deferrable", [False, True])
def test_it_says_what_it_waits_for_when_it_begins(table, context, caplog, deferrable):
    caplog.set_level("INFO")
    table.create()
    table.commit(1, table.add(data_change=False))
    waits = sensor(table, after_version=0, operations=["MERGE"], partition={"day": "1"}, deferrable=deferrable)
    deferred(waits, context) if deferrable else waits.poke(context)
    assert f"commit to {table} of operation MERGE, in partition day=1, after version 0." in caplog.text
    assert "The newest version is 1. Last poll: 20" in caplog.text


@pytest.mark.parametrize("soft_fail", [False, True])
@pytest.mark.parametrize("deferrable", [False, True])
def test_a_timeout_says_what_was_waited_for_and_that_the_table_does_not_exist(table, context, deferrable, soft_fail):
    waits = sensor(table, timeout=0, deferrable=deferrable, soft_fail=soft_fail, after_version=-1)
    if deferrable:
        deferred(waits, context)
        end = lambda: waits.resume_execution("__fail__", {"error": "Trigger timeout"}, context)
    else:
        end = lambda: waits.execute(context)
    with pytest.raises(AirflowSkipException if soft_fail else AirflowSensorTimeout) as caught:
        end()
    assert f"commit to {table} that changes rows, after any version. The table does not exist." in str(caught.value)


def test_a_skip_for_another_error_than_a_timeout_is_left_as_it_is(table, context):
    table.create()
    corrupt(table, 1)
    with pytest.raises(AirflowSkipException, match=r"^Skipping due to soft_fail is set to True\.$"):
        sensor(table, after_version=0, soft_fail=True).execute(context)
