"""The task group `delta_maintenance`: its tasks, its arguments and its mapping over tables."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from airflow.sdk import DAG, task, task_group

from airflow_provider_deltalite.operators.delta import (
    DeltaCheckpointOperator,
    DeltaOptimizeOperator,
    DeltaVacuumOperator,
)
from airflow_provider_deltalite.task_groups.delta import delta_maintenance
from deltalite.errors import InvalidRequestError


@pytest.fixture
def dag():
    with DAG("upkeep", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        yield dag


def edges(dag):
    """The pairs (task id, downstream task id) of a DAG."""
    return {(task.task_id, downstream_id) for task in dag.tasks for downstream_id in task.downstream_task_ids}


def test_the_default_is_three_steps_in_order_with_their_defaults(dag):
    group = delta_maintenance("/lake/{{ ds }}")
    assert group.group_id == "maintenance"
    step_classes = {name.partition(".")[2]: type(step) for name, step in dag.task_dict.items()}
    assert step_classes == {
        "optimize": DeltaOptimizeOperator,
        "checkpoint": DeltaCheckpointOperator,
        "vacuum": DeltaVacuumOperator,
    }
    assert edges(dag) == {
        ("maintenance.optimize", "maintenance.checkpoint"),
        ("maintenance.checkpoint", "maintenance.vacuum"),
    }
    assert {step.table for step in dag.tasks} == {"/lake/{{ ds }}"}
    vacuum = dag.get_task("maintenance.vacuum")
    assert (vacuum.retention_hours, vacuum.mode, vacuum.dry_run_only) == (None, "full", False)


def test_a_step_gets_its_arguments_and_the_common_arguments_or_is_left_out(dag):
    delta_maintenance.override(group_id="orders")(
        "/lake/orders",
        optimize={"z_order_by": ["customer"], "retries": 5},
        checkpoint=False,
        vacuum={"mode": "lite"},
        operator_args={"retries": 1, "conn_id": "cluster"},
    )
    optimize, vacuum = (dag.get_task(f"orders.{step}") for step in ("optimize", "vacuum"))
    assert edges(dag) == {("orders.optimize", "orders.vacuum")}
    assert (optimize.z_order_by, optimize.retries, vacuum.mode, vacuum.retries) == (["customer"], 5, "lite", 1)
    assert {optimize._conn_id, vacuum._conn_id} == {"cluster"}


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        ({"optimize": False, "checkpoint": False, "vacuum": False}, "delta_maintenance has no step"),
        ({"optimize": None}, "'optimize' of delta_maintenance is None"),
        ({"vacuum": "lite"}, "'vacuum' of delta_maintenance is 'lite'"),
        ({"vacuum": {"table": "/other"}}, "'vacuum' of delta_maintenance names another table, '/other'"),
        ({"operator_args": ["retries"]}, "'operator_args' of delta_maintenance is"),
    ],
)
def test_invalid_steps_are_rejected_when_the_dag_is_parsed(dag, steps, problem):
    with pytest.raises(InvalidRequestError, match=problem):
        delta_maintenance("/lake/orders", **steps)


def test_arguments_of_steps_cannot_be_mapped_because_they_decide_the_tasks(dag):
    with pytest.raises(InvalidRequestError, match="when the DAG is parsed"):
        delta_maintenance.expand(table=["/a"], vacuum=[{"mode": "lite"}])


def test_a_dag_may_contain_the_group_twice_among_other_tasks(dag):
    @task
    def address():
        return "/lake/orders"

    address() >> delta_maintenance("/lake/a", optimize=False, vacuum=False) >> delta_maintenance(address())
    assert ("address", "maintenance.checkpoint") in edges(dag)
    assert ("maintenance.checkpoint", "maintenance__1.optimize") in edges(dag)
    assert {"maintenance__1.optimize", "maintenance__1.vacuum"} <= dag.get_task("address__1").downstream_task_ids


def test_a_task_group_of_the_dag_author_maps_arguments_that_differ_by_table(dag):
    @task_group
    def upkeep(table, columns):
        delta_maintenance(table, optimize={"z_order_by": columns}, vacuum=False)

    upkeep.expand_kwargs([{"table": "/a", "columns": ["customer"]}, {"table": "/b", "columns": []}])
    optimize = dag.get_task("upkeep.maintenance.optimize")
    assert dag.get_task("upkeep.maintenance.checkpoint").upstream_task_ids == {optimize.task_id}
    assert [mapped.group_id for mapped in optimize.iter_mapped_task_groups()] == ["upkeep"]
