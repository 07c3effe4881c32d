"""A sensor that starts in the triggerer: the arguments that the scheduler stores, and the event of the trigger."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from airflow.providers.common.compat.sdk import AirflowNotFoundException
from airflow.sdk import DAG
from airflow.triggers.base import BaseTrigger

from airflow_provider_deltalite.hooks.delta import DeltaHook
from airflow_provider_deltalite.sensors import delta as sensors
from airflow_provider_deltalite.sensors.delta import DeltaVersionSensor
from airflow_provider_deltalite.triggers.delta import DeltaVersionStartTrigger
from deltalite.errors import InvalidRequestError
from tests.airflow.trigger_events import events
from tests.support.airflow_versions import scheduler_copy

needs_templates_in_triggers = pytest.mark.skipif(
    not hasattr(BaseTrigger, "render_template_fields"), reason="Airflow renders no templates in a trigger's arguments"
)


def sensor(**parameters) -> DeltaVersionSensor:
    defaults = {
        "task_id": "wait",
        "table": "/lake/orders",
        "after_version": -1,
        "deferrable": True,
        "poke_interval": 0.01,
    }
    return DeltaVersionSensor(**{**defaults, "start_from_trigger": True, **parameters})


def trigger_of(parameters, context) -> DeltaVersionStartTrigger:
    """The trigger as the triggerer makes it for a task that the scheduler has deferred."""
    with DAG("sales", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        sensor(**parameters)
    task = scheduler_copy(dag).get_task("wait")
    assert task.start_from_trigger is True
    assert task.start_trigger_args.trigger_cls == ("airflow_provider_deltalite.triggers.delta.DeltaVersionStartTrigger")
    from airflow.serialization.decoders import smart_decode_trigger_kwargs
    from airflow.serialization.serialized_objects import BaseSerialization

    kwargs = BaseSerialization.deserialize(task.start_trigger_args.trigger_kwargs)
    trigger = DeltaVersionStartTrigger(**{name: smart_decode_trigger_kwargs(value) for name, value in kwargs.items()})
    trigger.task_instance = SimpleNamespace(task=task, task_id="wait")
    trigger.render_template_fields(context=context)
    return trigger


@needs_templates_in_triggers
async def test_the_trigger_renders_the_templates_and_finds_the_commit(table):
    table.create()
    table.commit(1, table.add(partition={"day": "2026-01-01"}))
    parameters = {"table": "{{ lake }}/orders", "after_version": "{{ 0 }}", "partition": {"day": "{{ ds }}"}}
    context = {"lake": str(table.root.parent), "ds": "2026-01-01"}
    (event,) = await events(trigger_of(parameters, context))
    assert (event["status"], event["result"]["version"]) == ("success", 1)
    task = sensor(table=str(table), after_version=0, partition={"day": "2026-01-01"})
    assert task.execute_complete({}, event) == event["result"]


@needs_templates_in_triggers
async def test_an_event_that_does_not_belong_to_the_parameters_of_the_worker_starts_the_wait_again(table):
    table.create()
    table.commit(1, table.add())
    (event,) = await events(trigger_of({"table": str(table)}, {}))
    merge_sensor = sensor(table=str(table), operations=["MERGE"], timeout=0.01)
    with pytest.raises(BaseException) as raised:  # Airflow's TaskDeferred is not a subclass of Exception
        merge_sensor.execute_complete({}, event)
    assert type(raised.value).__name__ == "TaskDeferred"


@needs_templates_in_triggers
@pytest.mark.parametrize(
    "parameters",
    [{"table": "{{ '' }}"}, {"after_version": "{{ None }}"}, {"made_by": {"logical_date": "{{ 'soon' }}"}}],
    ids=str,
)
async def test_parameters_that_render_to_invalid_values_fail_the_task(table, parameters):
    (event,) = await events(trigger_of({"table": str(table), **parameters}, {}))
    assert event["status"] == "error"
    with pytest.raises(Exception, match=r"table|after_version|made_by"):
        sensor(table=str(table)).execute_complete({}, event)


@needs_templates_in_triggers
async def test_a_connection_that_does_not_exist_is_an_error_of_the_task_at_the_first_poll(table, monkeypatch):
    def fail(hook):
        raise AirflowNotFoundException("There is no Airflow connection 'laek'")

    monkeypatch.setattr(DeltaHook, "get_conn", fail)
    (event,) = await events(trigger_of({"table": str(table)}, {}))
    assert (event["status"], event["kind"]) == ("error", "AirflowNotFoundException")
    with pytest.raises(AirflowNotFoundException, match="'laek'"):
        sensor(table=str(table)).execute_complete({}, event)


@needs_templates_in_triggers
async def test_a_connection_may_be_missing_for_a_while_after_the_first_poll(table, monkeypatch):
    get_conn, hooks = DeltaHook.get_conn, []

    def fail_at_the_second_call(hook):
        hooks.append(hook)
        if len(hooks) == 2:
            raise AirflowNotFoundException("There is no Airflow connection 'lake'")
        if len(hooks) == 3:
            table.create(table.add())
        return get_conn(hook)

    monkeypatch.setattr(DeltaHook, "get_conn", fail_at_the_second_call)
    (event,) = await events(trigger_of({"table": str(table)}, {}))
    assert event["status"] == "success" and len(hooks) >= 3


@needs_templates_in_triggers
def test_a_name_that_the_triggerer_does_not_know_fails_the_trigger(table):
    with pytest.raises(Exception, match="my_macro"):
        trigger_of({"table": "{{ my_macro }}/orders"}, {})


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"deferrable": False}, "deferrable"),
        ({"after_version": None}, "after_version"),
        ({"table": lambda context, jinja_env: "/lake/orders"}, "table"),
    ],
)
def test_an_argument_that_a_triggerer_cannot_render_is_rejected_when_the_dag_is_parsed(parameters, message):
    with pytest.raises(InvalidRequestError, match=f"start_from_trigger.*{message}"):
        sensor(**parameters)


def test_a_mapped_sensor_starts_in_a_worker():
    with DAG("sales", schedule=None) as dag:
        DeltaVersionSensor.partial(task_id="wait", after_version=-1, deferrable=True, start_from_trigger=True).expand(
            table=["/a", "/b"]
        )
    assert not scheduler_copy(dag).get_task("wait").start_trigger_args


def test_an_older_airflow_starts_the_sensor_in_a_worker(monkeypatch):
    monkeypatch.setattr(sensors, "_RENDERS_TRIGGERS", False)
    task = sensor()
    assert (task.start_from_trigger, task.start_trigger_args) == (False, None)


@needs_templates_in_triggers
def test_the_sensor_keeps_its_timeout_and_serializes_its_trigger(table):
    task = sensor(timeout=60)
    assert task.start_trigger_args.timeout.total_seconds() == 60
    trigger = DeltaVersionStartTrigger(**task.start_trigger_args.trigger_kwargs)
    assert trigger.serialize() == (task.start_trigger_args.trigger_cls, task.start_trigger_args.trigger_kwargs)
