"""DeltaVacuumOperator: the request for the job, and parameters that are rejected before the job starts."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from airflow.sdk import DAG

from airflow_provider_deltalite.operators.delta import DeltaVacuumOperator
from deltalite.errors import InvalidRequestError
from deltalite.requests import OnRerun, RunIdentity, VacuumMode, VacuumRequest
from deltalite.results import OperationResult
from tests.airflow.rendering import TEXT_AND_NATIVE, rendered_task
from tests.support.airflow_versions import scheduler_copy


def operator(**parameters) -> DeltaVacuumOperator:
    return rendered_task(DeltaVacuumOperator, **parameters)


def rendered_request(**parameters) -> VacuumRequest:
    return operator(**parameters)._request()


@TEXT_AND_NATIVE
def test_the_default_is_a_full_vacuum_with_the_tables_retention(native):
    request = rendered_request(native=native)
    assert request == VacuumRequest(table="/lake/orders")
    assert (request.mode, request.retention_hours, request.dry_run) == (VacuumMode.FULL, None, False)
    assert not request.confirms_short_retention


@TEXT_AND_NATIVE
def test_every_parameter_is_rendered(native):
    request = rendered_request(
        native=native,
        table="/lake/{{ name }}",
        retention_hours="{{ hours }}",
        confirm_short_retention="{{ name }}",
        dry_run="{{ flag }}",
        mode="{{ mode }}",
        user_metadata="why",
        conflict_retries="0",
        rendered_with={"name": "orders", "hours": 24, "flag": True, "mode": "lite"},
    )
    assert request == VacuumRequest(
        table="/lake/orders", retention_hours=24, confirm_short_retention="orders", dry_run=True,
        mode=VacuumMode.LITE, user_metadata="why", conflict_retries=0,
    )  # fmt: skip
    assert VacuumRequest.from_json(request.to_json()) == request


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"retention_hours": -1}, "retention_hours is -1"),
        ({"retention_hours": "a week"}, "not a whole number"),
        ({"mode": "fast"}, "mode is 'fast'"),
        ({"dry_run": "maybe"}, "not true or false"),
        ({"retention_hours": 1, "confirm_short_retention": "customers"}, "names 'customers', but the table is /lake"),
        ({"confirm_short_retention": "true"}, "names 'true'"),
        ({"table": "/lake/orders@v3"}, "version"),
    ],
)
def test_an_invalid_parameter_is_rejected_before_the_job_starts(parameters, problem):
    with pytest.raises(InvalidRequestError, match=problem):
        rendered_request(**parameters)


def test_the_confirmation_for_one_table_does_not_confirm_another():
    for table in ("/lake/orders", "/lake/orders/", "s3://lake/orders"):
        assert rendered_request(
            table=table, retention_hours=1, confirm_short_retention="orders"
        ).confirms_short_retention
    with pytest.raises(InvalidRequestError, match="'orders'"):
        rendered_request(table="/lake/customers", retention_hours=1, confirm_short_retention="orders")


def test_a_cleared_vacuum_runs_again_and_never_replaces():
    task = operator()
    assert task.default_on_rerun(task._request()) is OnRerun.WRITE
    with pytest.raises(InvalidRequestError, match="applies only to an append"):
        VacuumRequest(table="/t", identity=RunIdentity(app_id="a", on_rerun=OnRerun.REPLACE))


def test_a_dry_run_ignores_earlier_commits_and_logs_its_metrics(capsys):
    task = operator(dry_run=True)
    assert task.find_finished_run(None, task._request()) is None
    result = OperationResult(table="/lake/orders", operation="VACUUM DRY RUN", version=3, read_version=3,
                             committed=False, skipped=False, app_id=None, txn_version=None, timestamp=None,
                             metrics={"numFilesToDelete": 7})  # fmt: skip
    task.log_result(result)
    log = capsys.readouterr().out
    assert "Finished the dry run of a vacuum of /lake/orders: {'numFilesToDelete': 7}" in log


def test_the_parameter_dry_run_does_not_hide_airflows_method_dry_run(capsys):
    operator(dry_run=True, confirm_short_retention="orders").dry_run()
    log = capsys.readouterr().out
    assert "Rendering template for table" in log and "Rendering template for confirm_short_retention" in log


def test_a_dag_with_a_vacuum_is_serialized():
    with DAG("d", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        DeltaVacuumOperator(task_id="vacuum", table="/lake/orders", dry_run=True, retention_hours=24)
    task = scheduler_copy(dag).get_task("vacuum")
    assert (task.table, task.dry_run_only, task.retention_hours) == ("/lake/orders", True, 24)
