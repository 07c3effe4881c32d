"""The commits that a sensor waits for, and the same result in poke and deferrable mode."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from airflow.sdk import DAG

from tests.airflow.rendering import TEXT_AND_NATIVE
from tests.airflow.sensing import defer, make_sensor, resume


def test_both_modes_return_the_same_result(table, context):
    table.create()
    version_sensor = make_sensor(table, after_version=0, deferrable=True)
    deferral = defer(version_sensor, context)
    table.commit(1, table.add(), operation="MERGE")
    poke_result = make_sensor(table, after_version=0).execute(context)
    assert poke_result == {
        "table": str(table),
        "from_version": 1,
        "version": 1,
        "after_version": 0,
        "reset": False,
        "operation": "MERGE",
        "timestamp": 1_700_000_000_001,
    }
    assert resume(version_sensor, deferral, context) == poke_result


def test_a_commit_that_exists_is_returned_without_deferring(table, context):
    table.create()
    table.commit(1, table.add())
    assert make_sensor(table, after_version=0, deferrable=True).execute(context)["version"] == 1


def test_the_deferral_has_the_timeout_of_the_sensor(table, context):
    assert defer(make_sensor(table, timeout=77, deferrable=True), context).timeout == timedelta(seconds=77)


@pytest.mark.parametrize("deferrable", [False, True])
def test_the_sensor_waits_for_a_missing_table(table, context, deferrable):
    version_sensor = make_sensor(table, deferrable=deferrable)
    if deferrable:
        deferral = defer(version_sensor, context)
        table.create(table.add())
        result = resume(version_sensor, deferral, context)
    else:
        assert not version_sensor.poke(context)
        table.create(table.add())
        result = version_sensor.execute(context)
    assert (result["version"], result["after_version"]) == (0, -1)


@TEXT_AND_NATIVE
def test_the_parameters_of_a_sensor_are_templates(table, native):
    table.create()
    table.commit(1, table.add(partition={"day": "2026-01-01"}))
    table.commit(2, table.add(partition={"day": "2026-01-02"}))
    with DAG("d", schedule=None, render_template_as_native_obj=native):
        version_sensor = make_sensor(
            "{{ t }}", after_version="{{ n }}", partition={"day": "{{ ds }}"}, operations=["{{ op }}"]
        )
    version_sensor.render_template_fields({"t": str(table), "n": 0, "ds": "2026-01-02", "op": "write"})
    assert version_sensor.execute({})["version"] == 2


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
def test_only_a_commit_that_satisfies_all_conditions_ends_the_wait(table, conditions, version):
    table.create()
    table.commit(1, table.add(data_change=False), operation="OPTIMIZE")
    table.commit(2, table.add(partition={"day": "a"}))
    table.commit(3, table.add(partition={"day": "b"}), operation="MERGE")
    table.commit(4, table.add(), table.txn("run-4"))
    assert make_sensor(table, after_version=0, **conditions).execute({})["version"] == version


def test_the_commit_of_a_run_that_wrote_no_rows_is_found_by_its_app_id(table):
    table.create()
    table.commit(1, table.txn("run-1"))
    assert make_sensor(table, after_version=-1, app_id="run-1").execute({})["version"] == 1
    assert not make_sensor(table, after_version=-1, app_id="run-1", data_change_only=True).poke({})


@pytest.mark.parametrize("deferrable", [False, True])
@pytest.mark.parametrize("start", ["2026-03-02T01:00:00+01:00", "2026-03-02", datetime(2026, 3, 2, tzinfo=UTC)])
def test_a_commit_of_any_kind_of_dag_run_is_found_by_its_data_interval(table, context, deferrable, start):
    def ingest_run(day, kind):
        names = {"dag_id": "ingest", "task_id": "load", "run_id": f"{kind}__{day}"}
        return names | {"data_interval_start": f"2026-03-{day:02}T00:00:00+00:00"}

    table.create()
    table.commit(1, table.add(), user_metadata=ingest_run(1, "scheduled"))
    table.commit(2, table.add(), user_metadata=ingest_run(2, "scheduled") | {"task_id": "other"})
    version_sensor = make_sensor(
        table,
        after_version=-1,
        deferrable=deferrable,
        made_by={"dag_id": "ingest", "task_id": "load", "data_interval_start": start},
    )
    if deferrable:
        deferral = defer(version_sensor, context)
        table.commit(3, table.add(), user_metadata=ingest_run(2, "backfill"))
        assert resume(version_sensor, deferral, context)["version"] == 3
    else:
        table.commit(3, table.add(), user_metadata=ingest_run(2, "backfill"))
        assert version_sensor.execute(context)["version"] == 3


def test_the_default_of_deferrable_is_the_default_of_airflow(table):
    assert make_sensor(table).deferrable is False
