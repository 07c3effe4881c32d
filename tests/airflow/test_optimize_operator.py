"""DeltaOptimizeOperator: the request for the job, and parameters that are rejected before the job starts."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from airflow.sdk import DAG

from airflow_provider_deltalite.operators.delta import DeltaOptimizeOperator
from deltalite.errors import InvalidRequestError
from deltalite.requests import OnRerun, OptimizeRequest, RunIdentity
from tests.airflow.rendering import TEXT_AND_NATIVE, rendered_task
from tests.support.airflow_versions import scheduler_copy


def operator(**parameters) -> DeltaOptimizeOperator:
    return rendered_task(DeltaOptimizeOperator, **parameters)


def rendered_request(**parameters) -> OptimizeRequest:
    return operator(**parameters)._request()


@TEXT_AND_NATIVE
def test_the_default_packs_the_complete_table(native):
    request = rendered_request(native=native)
    assert request == OptimizeRequest(table="/lake/orders")
    assert (request.where, request.z_order_by, request.max_deleted_rows_ratio) == (None, (), 0.05)


@TEXT_AND_NATIVE
def test_every_parameter_is_rendered(native):
    request = rendered_request(
        native=native,
        where="kind = '{{ kind }}'",
        z_order_by=["{{ column }}", "b.c"],
        target_file_size="{{ size }}",
        max_deleted_rows_ratio="{{ ratio }}",
        max_commit_bytes="{{ size }}",
        user_metadata="why",
        conflict_retries="0",
        rendered_with={"kind": "closed", "column": "a", "size": 1000, "ratio": 0.5},
    )
    assert request == OptimizeRequest(
        table="/lake/orders", where="kind = 'closed'", z_order_by=("a", "b.c"), target_file_size=1000,
        max_deleted_rows_ratio=0.5, max_commit_bytes=1000, user_metadata="why", conflict_retries=0,
    )  # fmt: skip
    assert OptimizeRequest.from_json(request.to_json()) == request
    assert rendered_request(native=native, min_file_size="10").min_file_size == 10
    assert rendered_request(native=native, where="'closed' = kind").where == "'closed' = kind"


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"where": "  "}, "where"),
        ({"z_order_by": "a, b"}, "not a list"),
        ({"z_order_by": [" "]}, "z_order_by"),
        ({"z_order_by": ["a"], "min_file_size": 1}, "any size"),
        ({"target_file_size": 0}, "target_file_size is 0"),
        ({"target_file_size": "large"}, "not a whole number"),
        ({"max_commit_bytes": 0}, "max_commit_bytes is 0"),
        ({"min_file_size": -1}, "min_file_size is -1"),
        ({"max_deleted_rows_ratio": 5}, "ratio is 5"),
        ({"max_deleted_rows_ratio": "some"}, "not a number"),
        ({"max_deleted_rows_ratio": "nan"}, "ratio is nan"),
        ({"max_deleted_rows_ratio": True}, "not a number"),
        ({"table": "/lake/orders@v3"}, "version"),
    ],
)
def test_an_invalid_parameter_is_rejected_before_the_job_starts(parameters, problem):
    with pytest.raises(InvalidRequestError, match=problem):
        rendered_request(**parameters)


def test_a_cleared_optimize_runs_again_and_never_replaces():
    task = operator()
    assert task.default_on_rerun(task._request()) is OnRerun.WRITE
    with pytest.raises(InvalidRequestError, match="applies only to an append"):
        OptimizeRequest(table="/t", identity=RunIdentity(app_id="a", on_rerun=OnRerun.REPLACE))


def test_a_dag_with_an_optimize_is_serialized():
    with DAG("d", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        DeltaOptimizeOperator(task_id="optimize", table="/lake/orders", z_order_by=["a"])
    task = scheduler_copy(dag).get_task("optimize")
    assert (task.table, task.z_order_by) == ("/lake/orders", ["a"])
