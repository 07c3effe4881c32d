"""Vacuum as a DAG's author writes it: what is asked of the job, and what is refused before it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from airflow.sdk import DAG

from airflow_provider_deltalite.operators.delta import DeltaVacuumOperator
from deltalite.errors import InvalidRequestError
from deltalite.requests import OnRerun, RunIdentity, VacuumMode, VacuumRequest
from deltalite.results import OperationResult
from tests.airflow.rendering import rendered
from tests.support.airflow_versions import stored

BOTH = pytest.mark.parametrize("native", [False, True], ids=["text", "native"])


def operator(**parameters) -> DeltaVacuumOperator:
    return rendered(DeltaVacuumOperator, **parameters)


def asked(**parameters) -> VacuumRequest:
    return operator(**parameters)._request()


@BOTH
def test_the_least_that_an_author_writes_is_a_full_vacuum_by_the_tables_own_retention(native):
    request = asked(native=native)
    assert request == VacuumRequest(table="/lake/orders")
    assert (request.mode, request.retention_hours, request.dry_run) == (VacuumMode.FULL, None, False)
    assert not request.confirms_short_retention


@BOTH
def test_every_parameter_arrives_with_its_templates_rendered(native):
    request = asked(
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
        ({"retention_hours": 1, "confirm_short_retention": "customers"}, "names 'customers', and the table is /lake"),
        ({"confirm_short_retention": "true"}, "names 'true'"),
        ({"table": "/lake/orders@v3"}, "version"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_a_job(parameters, problem):
    with pytest.raises(InvalidRequestError, match=problem):
        asked(**parameters)


def test_what_confirms_one_table_of_a_mapped_task_does_not_confirm_the_next():
    for table in ("/lake/orders", "/lake/orders/", "s3://lake/orders"):
        assert asked(table=table, retention_hours=1, confirm_short_retention="orders").confirms_short_retention
    with pytest.raises(InvalidRequestError, match="'orders'"):
        asked(table="/lake/customers", retention_hours=1, confirm_short_retention="orders")


def test_a_cleared_vacuum_looks_again_and_never_replaces():
    made = operator()
    assert made.default_on_rerun(made._request()) is OnRerun.WRITE
    with pytest.raises(InvalidRequestError, match="takes back an earlier append"):
        VacuumRequest(table="/t", identity=RunIdentity(app_id="a", on_rerun=OnRerun.REPLACE))


def test_a_dry_run_looks_for_no_earlier_end_and_says_so(capsys):
    made = operator(dry_run=True)
    assert made.find_finished_run(None, made._request()) is None
    result = OperationResult(table="/lake/orders", operation="VACUUM DRY RUN", version=3, read_version=3,
                             committed=False, skipped=False, app_id=None, txn_version=None, timestamp=None,
                             metrics={"numFilesToDelete": 7})  # fmt: skip
    made.log_result(result)
    said = capsys.readouterr().out
    assert "dry run" in said and "7" in said


def test_airflows_own_dry_run_of_a_task_still_works_and_a_dag_is_serialized():
    with DAG("d", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        made = DeltaVacuumOperator(task_id="vacuum", table="/lake/orders", dry_run=True)
    made.dry_run()
    stored(dag)
