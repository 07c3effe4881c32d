"""DeltaTableOperator: the request for the job, and parameters that are rejected before the job starts."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from airflow.sdk import DAG

from airflow_provider_deltalite.operators.delta import DeltaTableOperator
from deltalite.errors import InvalidRequestError
from deltalite.requests import OnRerun, RunIdentity, TableRequest
from tests.airflow.rendering import TEXT_AND_NATIVE, rendered_task
from tests.support.airflow_versions import scheduler_copy


@TEXT_AND_NATIVE
def test_every_parameter_is_rendered(native):
    request = rendered_task(
        DeltaTableOperator,
        native=native,
        table="/lake/{{ name }}",
        schema="id BIGINT, {{ name }} STRING",
        partition_by=["{{ name }}"],
        properties={"owner": "{{ name }}"},
        unset_properties=["old.{{ name }}"],
        constraints={"positive": "id > {{ least }}"},
        drop_constraints=["{{ name }}"],
        drop_features=["{{ feature }}"],
        description="All {{ name }}",
        conflict_retries="0",
        rendered_with={"name": "orders", "least": 3, "feature": "typeWidening"},
    )._request()
    assert request == TableRequest(
        table="/lake/orders", schema="id BIGINT, orders STRING", partition_by=("orders",),
        properties={"owner": "orders"}, unset_properties=("old.orders",), constraints={"positive": "id > 3"},
        drop_constraints=("orders",), drop_features=("typeWidening",), description="All orders", conflict_retries=0,
    )  # fmt: skip
    assert TableRequest.from_json(request.to_json()) == request


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({}, "declares nothing"),
        ({"schema": " "}, "schema is empty"),
        ({"schema": "id INT", "partition_by": ["id", "ID"]}, "partition_by names 'id' twice"),
        ({"constraints": {"c": " "}}, "'c' has no name or no condition"),
        ({"constraints": {"c": "id > 0"}, "drop_constraints": ["C"]}, "names 'c' twice"),
        ({"properties": {"a": "1"}, "unset_properties": ["a"]}, "names 'a' twice"),
        ({"constraints": {"c": None}}, "constraints.c is None"),
        ({"cluster_by": ["a"], "partition_by": ["b"]}, "both partition_by and cluster_by"),
        ({"cluster_by": ["a", "A"]}, "cluster_by names 'a' twice"),
        ({"drop_features": ["a", "A"]}, "drop_features names 'a' twice"),
        ({"schema": "id INT", "table": "/lake/orders@v3"}, "names a version"),
    ],
)
def test_an_invalid_parameter_is_rejected_before_the_job_starts(parameters, problem):
    def check_parameters():
        task = rendered_task(DeltaTableOperator, **parameters)
        task.reject_invalid_sql_values()
        task._request()

    with pytest.raises(InvalidRequestError, match=problem):
        check_parameters()


@TEXT_AND_NATIVE
def test_an_empty_list_of_clustering_columns_is_kept_and_differs_from_no_list(native):
    for columns in ([], ["{{ name }}"]):
        request = rendered_task(
            DeltaTableOperator, native=native, cluster_by=columns, rendered_with={"name": "id"}
        )._request()
        assert request.cluster_by == tuple(["id"] * len(columns))
        assert TableRequest.from_json(request.to_json()) == request
    assert rendered_task(DeltaTableOperator, description="x")._request().cluster_by is None


def test_only_a_task_with_a_schema_can_create_the_table():
    for parameters, needs_table in (({"schema": "id INT"}, False), ({"description": "x"}, True)):
        task = rendered_task(DeltaTableOperator, **parameters)
        assert task.needs_table(task._request()) is needs_table


def test_a_cleared_task_compares_the_table_again_and_never_replaces():
    task = rendered_task(DeltaTableOperator, description="x")
    assert task.default_on_rerun(task._request()) is OnRerun.WRITE
    with pytest.raises(InvalidRequestError, match="applies only to an append"):
        TableRequest(table="/t", description="x", identity=RunIdentity(app_id="a", on_rerun=OnRerun.REPLACE))


def test_a_dag_with_a_declared_table_is_serialized():
    with DAG("d", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        DeltaTableOperator(task_id="declare", table="/lake/orders", schema="id INT", constraints={"c": "id > 0"})
    task = scheduler_copy(dag).get_task("declare")
    assert (task.table, task.schema, task.constraints) == ("/lake/orders", "id INT", {"c": "id > 0"})


@pytest.mark.parametrize("parameter", ["partition_by", "cluster_by"])
def test_a_list_with_an_item_that_is_not_a_text_is_rejected(parameter):
    with pytest.raises(InvalidRequestError, match=f"{parameter} is .*, but its items must be texts"):
        TableRequest(table="/lake/orders", **{parameter: ["a", None]})
