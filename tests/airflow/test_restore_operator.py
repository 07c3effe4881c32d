"""DeltaRestoreOperator: the request for the job, and parameters that are rejected before the job starts."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from airflow.sdk import DAG

from airflow_provider_deltalite.operators.delta import DeltaRestoreOperator
from deltalite.errors import InvalidRequestError
from deltalite.requests import OnRerun, RestoreRequest, RunIdentity
from tests.airflow.rendering import TEXT_AND_NATIVE, rendered_task
from tests.support.airflow_versions import scheduler_copy


def operator(**parameters) -> DeltaRestoreOperator:
    return rendered_task(DeltaRestoreOperator, **parameters)


def rendered_request(**parameters) -> RestoreRequest:
    return operator(**parameters)._request()


@TEXT_AND_NATIVE
def test_every_parameter_is_rendered(native):
    request = rendered_request(
        native=native,
        table="/lake/{{ name }}",
        version="{{ version }}",
        ignore_missing_files="{{ flag }}",
        user_metadata="why",
        conflict_retries="0",
        rendered_with={"name": "orders", "version": 3, "flag": True},
    )
    assert request == RestoreRequest(
        table="/lake/orders", version=3, ignore_missing_files=True, user_metadata="why", conflict_retries=0
    )
    assert RestoreRequest.from_json(request.to_json()) == request


@TEXT_AND_NATIVE
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-01-01", "2026-01-01"),
        ("2026-11-12", "2026-11-12"),
        (datetime(2026, 1, 1, 5, tzinfo=UTC), "2026-01-01T05:00:00+00:00"),
        ("2026-01-01T05:00:00Z", "2026-01-01T05:00:00Z"),
    ],
)
def test_a_time_may_be_a_text_or_a_datetime(native, value, expected):
    assert rendered_request(native=native, timestamp="{{ at }}", rendered_with={"at": value}).timestamp in (
        expected,
        expected.replace("T", " "),
    )


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({}, "neither a version nor a time"),
        ({"version": 1, "timestamp": "2026-01-01"}, "both a version and a time"),
        ({"version": -1}, "version is -1"),
        ({"version": "latest"}, "not a whole number"),
        ({"version": True}, "not a whole number"),
        ({"timestamp": "noon"}, "Invalid time"),
        ({"timestamp": " "}, "timestamp is empty"),
        ({"version": 1, "ignore_missing_files": "maybe"}, "not true or false"),
        ({"version": 1, "table": "/lake/orders@v3"}, "names a version"),
        ({"version": 1, "conflict_retries": -1}, "conflict_retries is -1"),
    ],
)
def test_an_invalid_parameter_is_rejected_before_the_job_starts(parameters, problem):
    with pytest.raises(InvalidRequestError, match=problem):
        rendered_request(**parameters)


@TEXT_AND_NATIVE
def test_a_template_that_renders_as_empty_restores_nothing(native):
    for parameter in ("version", "timestamp"):
        with pytest.raises(InvalidRequestError):
            rendered_request(native=native, rendered_with={"empty": None}, **{parameter: "{{ empty }}"})


def test_a_cleared_restore_restores_again_and_never_replaces():
    task = operator(version=1)
    assert task.default_on_rerun(task._request()) is OnRerun.WRITE
    with pytest.raises(InvalidRequestError, match="applies only to an append"):
        RestoreRequest(table="/t", version=1, identity=RunIdentity(app_id="a", on_rerun=OnRerun.REPLACE))


def test_a_dag_with_a_restore_is_serialized():
    with DAG("d", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        DeltaRestoreOperator(task_id="restore", table="/lake/orders", version="{{ params.version }}")
    task = scheduler_copy(dag).get_task("restore")
    assert (task.table, task.version) == ("/lake/orders", "{{ params.version }}")
