"""The version after which a sensor waits, and the log positions that it keeps between task attempts."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from deltalite import watch
from deltalite.conditions import LogPosition
from tests.airflow.sensing import create_second_table, defer, event_of, make_sensor, recreate, resume
from tests.support.airflow_versions import NEVER_EXPIRE, AirflowRescheduleException, since_3_3


@pytest.fixture
def polled_versions(monkeypatch):
    """The version after which each poll of a sensor searched, in the order of the polls."""
    versions, poll = [], watch.poll

    def record_and_poll(store, after, condition):
        versions.append(after.version)
        return poll(store, after, condition)

    monkeypatch.setattr(watch, "poll", record_and_poll)
    return versions


@since_3_3
@pytest.mark.parametrize("deferrable", [False, True])
def test_the_starting_version_survives_into_the_next_task_attempt(table, context, deferrable):
    table.create()
    first_sensor = make_sensor(table, deferrable=deferrable)
    if deferrable:
        defer(first_sensor, context)
    else:
        assert not first_sensor.poke(context)
    table.commit(1, table.add())
    table.commit(2, table.add())
    context["ti"].try_number = 2
    result = make_sensor(table, deferrable=deferrable).execute(context)
    assert (result["version"], result["after_version"]) == (1, 0)


@since_3_3
@pytest.mark.parametrize("deferrable", [False, True])
@pytest.mark.parametrize("after_version", [None, 2], ids=["chosen by the sensor", "given by the author"])
def test_the_wait_for_a_recreated_table_continues_at_its_first_version(table, context, deferrable, after_version):
    table.create()
    table.commit(1, table.add())
    table.commit(2, table.add())
    version_sensor = make_sensor(table, deferrable=deferrable, after_version=after_version)
    if deferrable:
        deferral = defer(version_sensor, context)
        recreate(table, table.add(partition={"day": "new"}))
        result = resume(version_sensor, deferral, context)
    else:
        assert not version_sensor.poke(context)
        recreate(table, table.add(partition={"day": "new"}))
        result = version_sensor.execute(context)
    assert (result["from_version"], result["version"], result["after_version"], result["reset"]) == (0, 0, 2, True)


@pytest.mark.parametrize("deferrable", [False, True])
def test_versions_that_log_cleanup_deleted_are_skipped_but_belong_to_the_range(table, context, deferrable, caplog):
    table.create()
    version_sensor = make_sensor(table, deferrable=deferrable, after_version=0)
    deferral = defer(version_sensor, context) if deferrable else version_sensor.poke(context)
    table.commit(5, table.add())
    for version in (0, 1):
        (table.root / "_delta_log" / f"{version:020}.json").unlink(missing_ok=True)
    result = resume(version_sensor, deferral, context) if deferrable else version_sensor.execute(context)
    assert (result["from_version"], result["version"], result["reset"]) == (1, 5, False)
    assert "Skipping versions 1 to 4" in caplog.text


@since_3_3
def test_a_rescheduled_sensor_reads_a_commit_again_only_for_another_condition(table, context, polled_versions):
    table.create()
    for version in range(1, 4):
        table.commit(version, table.add(data_change=False))
    context["ti"].get_first_reschedule_date = lambda _: None
    for condition in ({}, {}, {"operations": ["MERGE"]}):
        with pytest.raises(AirflowRescheduleException):
            make_sensor(table, after_version=0, mode="reschedule", **condition).execute(context)
    assert polled_versions == [0, 3, 0]


def test_a_rescheduled_sensor_keeps_its_starting_version(table, context):
    table.create()
    context["ti"].get_first_reschedule_date = lambda _: None
    with pytest.raises(AirflowRescheduleException):
        make_sensor(table, mode="reschedule").execute(context)
    table.commit(1, table.add())
    table.commit(2, table.add())
    assert make_sensor(table, mode="reschedule").execute(context)["version"] == 1


@since_3_3
def test_an_unreadable_starting_version_fails_the_sensor_with_a_remedy(table, context):
    table.create()
    assert not make_sensor(table).poke(context)
    state = context["task_state_store"]
    stored_position = state.get("deltalite_after_version")
    state.set("deltalite_after_version", {**stored_position, "place": {"version": 0, "lag": 1}})
    with pytest.raises(AirflowFailException, match=r"(?s)unknown key 'lag'.*Give after_version"):
        make_sensor(table).execute(context)


@since_3_3
@pytest.mark.parametrize("deferrable", [False, True])
def test_a_stored_starting_version_of_another_table_is_not_used(table, context, caplog, deferrable):
    table.create()
    assert not make_sensor(table).poke(context)
    second_table = create_second_table(table)
    version_sensor = make_sensor(second_table, deferrable=deferrable)
    if deferrable:
        assert defer(version_sensor, context).trigger.wait.after_version == 3
    else:
        assert not version_sensor.poke(context)
    assert f"belongs to another request (table file://{table})" in caplog.text
    second_table.commit(4, second_table.add())
    assert make_sensor(second_table).execute(context)["version"] == 4


@since_3_3
@pytest.mark.parametrize("change", [{"app_id": "b"}, {"partition": {"day": "2"}}, {"operations": ["MERGE"]}])
def test_a_stored_starting_version_of_other_conditions_is_not_used(table, context, change):
    table.create()
    assert not make_sensor(table, app_id="a").poke(context)
    table.commit(1, table.add(partition={"day": "2"}), table.txn("b"), operation="MERGE")
    assert not make_sensor(table, **change).poke(context)
    table.commit(2, table.add(partition={"day": "2"}), table.txn("b"), operation="MERGE")
    assert make_sensor(table, **change).execute(context)["version"] == 2


@since_3_3
def test_another_spelling_of_the_address_is_the_same_table(table, context):
    table.create()
    assert not make_sensor(table).poke(context)
    table.commit(1, table.add())
    assert make_sensor(f"file:{table}/").execute(context)["version"] == 1


def test_an_event_for_another_table_is_not_the_result_of_the_sensor(table, context):
    table.create()
    version_sensor = make_sensor(table, after_version=0, deferrable=True)
    deferral = defer(version_sensor, context)
    table.commit(1, table.add())
    event_argument = {"event": event_of(deferral.trigger)}
    second_table = create_second_table(table)
    moved_sensor = make_sensor(second_table, after_version=1, deferrable=True)
    result = moved_sensor.resume_execution(deferral.method_name, {**deferral.kwargs, **event_argument}, context)
    assert (result["table"], result["version"]) == (str(second_table), 2)


def test_a_sensor_object_rendered_for_another_table_polls_that_table_from_its_start(table, context):
    table.create()
    table.commit(1, table.add(data_change=False))
    version_sensor = make_sensor(table, after_version=0)
    assert not version_sensor.poke(context)
    version_sensor.table = str(create_second_table(table))
    assert version_sensor.execute(context)["version"] == 1


@since_3_3
@pytest.mark.parametrize(
    "make_unreadable",
    [
        lambda position: {**position, "place": {"version": 1, "lag": 0}},
        lambda position: {"request": position["request"]},
        lambda _: "far",
    ],
    ids=["another release's", "no place", "a text"],
)
def test_an_unreadable_log_position_restarts_at_the_starting_version(table, context, polled_versions, make_unreadable):
    table.create()
    table.commit(1, table.add(data_change=False))
    context["ti"].get_first_reschedule_date = lambda _: None
    state = context["task_state_store"]
    for _ in range(2):
        with pytest.raises(AirflowRescheduleException):
            make_sensor(table, after_version=0, mode="reschedule").execute(context)
        state.set("deltalite_place", make_unreadable(state.get("deltalite_place")))
    assert polled_versions == [0, 0]


@since_3_3
def test_the_starting_version_is_kept_as_long_as_the_dag_run(table, context):
    assert not make_sensor(table).poke(context)
    state = context["task_state_store"]
    assert state.values["deltalite_after_version"]["place"] == LogPosition(version=-1).as_dict()
    assert state.retentions == {"deltalite_after_version": NEVER_EXPIRE}


def test_without_a_task_state_store_the_wait_begins_at_the_version_at_the_start_of_the_dag_run(table, context):
    table.create(timestamp=1_000)
    table.commit(1, table.add(), timestamp=2_000)
    table.commit(2, table.add(), timestamp=3_000)
    for version, seconds in ((0, 1), (1, 2), (2, 3)):
        path = table.root / "_delta_log" / f"{version:020}.json"
        os.utime(path, (seconds, seconds))
    context.pop("task_state_store", None)
    context["dag_run"] = SimpleNamespace(start_date=datetime.fromtimestamp(2.5, tz=UTC))
    result = make_sensor(table).execute(context)
    assert (result["version"], result["after_version"]) == (2, 1)


def test_after_version_needs_no_task_state_store(table):
    table.create(table.add())
    assert make_sensor(table, after_version=-1).execute({})["version"] == 0


def test_a_poke_continues_at_the_log_position_of_the_last_poke(table, context, polled_versions):
    table.create()
    table.commit(1, table.add(data_change=False))
    version_sensor = make_sensor(table, after_version=0)
    assert [bool(version_sensor.poke(context)) for _ in range(3)] == [False, False, False]
    assert polled_versions == [0, 1, 1]


def test_the_trigger_continues_at_the_log_position_of_the_first_poll(table, context):
    table.create()
    table.commit(1, table.add(data_change=False))
    trigger = defer(make_sensor(table, after_version=0, deferrable=True), context).trigger
    assert (trigger.wait.after_version, trigger.position.version) == (0, 1)
