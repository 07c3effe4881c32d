"""DeltaConvertOperator: the request for the job, and parameters that are rejected before the job starts."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from airflow.sdk import DAG

from airflow_provider_deltalite.operators.delta import DeltaConvertOperator
from deltalite.errors import InvalidRequestError
from deltalite.requests import ConvertRequest, OnRerun, RunIdentity
from tests.airflow.rendering import TEXT_AND_NATIVE, rendered_task
from tests.support.airflow_versions import scheduler_copy


def operator(**parameters) -> DeltaConvertOperator:
    return rendered_task(DeltaConvertOperator, **parameters)


def rendered_request(**parameters) -> ConvertRequest:
    return operator(**parameters)._request()


@TEXT_AND_NATIVE
def test_every_parameter_is_rendered(native):
    request = rendered_request(
        native=native,
        table="/lake/{{ name }}",
        partition_schema="{{ column }} DATE, n INT",
        properties={"delta.enableChangeDataFeed": "{{ flag }}", "mine": "1"},
        user_metadata="why",
        rendered_with={"name": "orders", "column": "day", "flag": "true"},
    )
    assert request == ConvertRequest(
        table="/lake/orders", partition_schema="day DATE, n INT", user_metadata="why",
        properties={"delta.enableChangeDataFeed": "true", "mine": "1"},
    )  # fmt: skip
    assert ConvertRequest.from_json(request.to_json()) == request
    assert rendered_request(native=native) == ConvertRequest(table="/lake/orders")


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"partition_schema": " "}, "partition_schema is empty"),
        ({"properties": {"delta.constraints.c": "id > 0"}}, "a constraint on rows"),
        ({"properties": ["a"]}, "not a mapping"),
        ({"table": "/lake/orders@v3"}, "names a version"),
        ({"table": " "}, "address"),
        ({"conflict_seconds": -1}, "conflict_seconds is -1"),
    ],
)
def test_an_invalid_parameter_is_rejected_before_the_job_starts(parameters, problem):
    with pytest.raises(InvalidRequestError, match=problem):
        rendered_request(**parameters)


def test_a_cleared_conversion_keeps_the_table_and_never_replaces_it():
    task = operator()
    assert task.default_on_rerun(task._request()) is OnRerun.SKIP
    with pytest.raises(InvalidRequestError, match="applies only to an append"):
        ConvertRequest(table="/t", identity=RunIdentity(app_id="a", on_rerun=OnRerun.REPLACE))


def test_a_dag_with_a_conversion_is_serialized():
    with DAG("d", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        DeltaConvertOperator(task_id="convert", table="/lake/orders", partition_schema="day DATE")
    task = scheduler_copy(dag).get_task("convert")
    assert (task.table, task.partition_schema) == ("/lake/orders", "day DATE")
