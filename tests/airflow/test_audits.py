"""Audits of operators: faults are found when the DAG is parsed, values are templated, and results reach the task."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from airflow_provider_deltalite.lineage.edges import edges_of
from airflow_provider_deltalite.lineage.facets import operator_lineage
from airflow_provider_deltalite.operators.delta import (
    DeltaCheckOperator,
    DeltaDeleteOperator,
    DeltaMergeOperator,
    DeltaRestoreOperator,
    DeltaUpdateOperator,
    DeltaWriteOperator,
)
from airflow_provider_deltalite.request_digest import request_digests
from deltalite.errors import InvalidRequestError, InvalidTableAddressError
from deltalite.requests import Audit, AuditScope, CheckRequest, DeleteRequest, Source, WriteRequest
from deltalite.results import AuditResult, OperationResult, check_result
from tests.airflow.rendering import TEXT_AND_NATIVE, rendered_task
from tests.support.stand_in_jobs import COPY_REQUEST

NO_NULL = {"name": "no null", "rows": "customer IS NULL"}
OPERATORS = {
    DeltaWriteOperator: {"source": {"format": "csv"}},
    DeltaMergeOperator: {"source": {"format": "csv"}, "on": "a", "when_not_matched": [{"insert": "*"}]},
    DeltaUpdateOperator: {"set": {"a": "1"}},
    DeltaDeleteOperator: {"condition": "a = 1"},
    DeltaRestoreOperator: {"version": 1},
    DeltaCheckOperator: {},
}
OPERATOR_CASES = pytest.mark.parametrize(
    ("operator", "parameters"), OPERATORS.items(), ids=lambda value: getattr(value, "__name__", "")
)


def audit_result(*, passed=True, level="fail", **changes):
    values = {"name": "a", "kind": "rows", "on": "table", "measured": 3, "threshold": "max_rows=0", **changes}
    return AuditResult(passed=passed, level=level, **values)


@OPERATOR_CASES
@TEXT_AND_NATIVE
def test_audits_of_each_operator_are_rendered_and_converted(operator, parameters, native):
    audits = [
        {"name": "share of {{ country }}", "rows": "country = '{{ country }}'", "max_share": "{{ share }}"},
        {"name": "fresh", "freshness": "at", "max_age_hours": 2, "as_of": "{{ end }}", "level": "warn"},
        {"name": "key", "unique": ["id"], "on": "table"},
        {
            "name": "other",
            "references": {"customer": "id"},
            "in_table": "/lake/{{ other }}",
            "version_as_of": "{{ 3 }}",
        },
    ]
    values = {"country": "DE", "share": "0.5", "end": "2026-01-01 00:00:00+00:00", "other": "customers"}
    task = rendered_task(operator, native=native, rendered_with=values, audits=audits, **parameters)
    request = task._request()
    assert request.audits == (
        Audit(name="share of DE", rows="country = 'DE'", max_share=0.5),
        Audit(name="fresh", freshness="at", max_age_hours=2, as_of="2026-01-01 00:00:00+00:00", level="warn"),
        Audit(name="key", unique=("id",), on=AuditScope.TABLE),
        Audit(name="other", references={"customer": "id"}, in_table="/lake/customers", version_as_of=3),
    )
    assert "/lake/customers" in task.addresses(request)


@OPERATOR_CASES
@pytest.mark.parametrize(
    ("audits", "problem"),
    [
        ([NO_NULL, {"name": "x"}], r"audits\[1\]: The audit 'x' has no check"),
        ([{"name": "x", "row": "a"}], r"audits\[0\] has the unknown key 'row'"),
        ([{"rows": "a"}], r"audits\[0\] has no 'name'"),
        ([NO_NULL, {"name": "No Null", "rows": "{{ sql }}"}], "the name 'no null'"),
        ([{"name": "{{ name }}", "rows": "a", "max_share": 2}], "max_share"),
        ([{"name": "x", "freshness": "{{ column }}", "max_age_hours": 1}], "has no as_of"),
        ([{"name": "x", "rows": None}], "is None"),
    ],
    ids=str,
)
def test_a_wrong_audit_is_rejected_when_the_dag_is_parsed(operator, parameters, audits, problem):
    with pytest.raises(InvalidRequestError, match=problem):
        operator(task_id="t", table="/t", audits=audits, **parameters)


def test_an_audit_of_new_rows_is_rejected_where_there_are_none():
    audits = [{**NO_NULL, "on": "new_rows"}]
    with pytest.raises(InvalidRequestError, match="a delete adds no rows"):
        DeltaDeleteOperator(task_id="t", table="/t", condition="a", audits=audits)
    with pytest.raises(InvalidRequestError, match="a restore writes no new rows"):
        DeltaRestoreOperator(task_id="t", table="/t", version=1, audits=audits)
    with pytest.raises(InvalidRequestError, match=r"'quarantine', but a restore brings back all rows"):
        DeltaRestoreOperator(task_id="t", table="/t", version=1, audits=[{**NO_NULL, "level": "quarantine"}])
    with pytest.raises(InvalidRequestError, match="a version that exists has no new rows"):
        DeltaCheckOperator(task_id="t", table="/t", audits=audits)
    with pytest.raises(InvalidRequestError, match="has no audit"):
        DeltaCheckOperator(task_id="t", table="/t", audits=[])


def test_an_audit_rejects_an_address_with_a_parent_segment():
    audit = {"name": "x", "references": {"a": "b"}, "in_table": "/lake/../secret"}
    with pytest.raises(InvalidTableAddressError):
        DeltaCheckOperator(task_id="t", table="/t", audits=[audit])


def test_an_audit_without_quarantine_keeps_the_digest_of_a_request():
    request = DeleteRequest(table="/t", condition="a")
    with_audits = DeleteRequest(table="/t", condition="a", audits=(Audit(**NO_NULL),))
    assert request_digests(request) == request_digests(with_audits)


PRINT_RESULT = """
from deltalite.markers import result_marker
from deltalite.results import AuditResult, check_result
audit = AuditResult(
    name="a", kind="rows", on="table", level="warn", passed=False, measured=3, threshold="max_rows=0", rows=9)
print(result_marker(check_result("/t", 4, (audit,))))
"""
PRINT_ERROR = """
from deltalite.markers import error_marker
print(error_marker("AuditFailedError", "1 of 1 audit of /t did not pass: 'a'"))
sys.exit(59)
"""


def check_task(table):
    return DeltaCheckOperator(task_id="check", table=str(table), audits=[NO_NULL])


def test_a_check_returns_the_results_of_its_audits(table, spark_submit, context, tmp_path):
    table.create()
    request_copy = tmp_path / "request.json"
    spark_submit.set_script(COPY_REQUEST.format(copy=str(request_copy)) + PRINT_RESULT)
    result = check_task(table).execute(context)
    assert (result["operation"], result["version"], result["committed"]) == ("CHECK", 4, False)
    assert result["metrics"] == {"numAudits": 1, "numAuditsNotPassed": 1}
    assert [(audit["name"], audit["passed"], audit["rows"]) for audit in result["audits"]] == [("a", False, 9)]
    request = CheckRequest.from_json(request_copy.read_text())
    assert request == CheckRequest(table=str(table), audits=(Audit(**NO_NULL),))
    assert Path(spark_submit.argv[-2]).name == "check.py"


def test_a_check_whose_output_is_lost_succeeds_without_measured_values(table, spark_submit, context):
    table.create()
    table.commit(1, table.add())
    spark_submit.set_script("")
    result = check_task(table).execute(context)
    assert (result["version"], result["audits"]) == (1, None)


def test_airflow_retries_a_killed_job_but_no_failed_audit(table, spark_submit, context):
    table.create()
    spark_submit.set_script(PRINT_ERROR)
    with pytest.raises(AirflowFailException, match="AuditFailedError: 1 of 1 audit"):
        check_task(table).execute(context)
    spark_submit.set_script("sys.exit(137)")
    with pytest.raises(AirflowException) as error:
        check_task(table).execute(context)
    assert not isinstance(error.value, AirflowFailException), "Airflow retries a killed job"


def test_lineage_has_the_results_of_audits_and_the_other_table():
    audits = (audit_result(version=7), audit_result(name="b", passed=False, level="warn"))
    other = Audit(name="a", references={"x": "y"}, in_table="/other")
    request = CheckRequest(table="/t", audits=(other, Audit(name="b", rows="x")))
    result = check_result("/t", 4, audits)
    edges = edges_of(request, result)
    assert [(edge.name.name, edge.version) for edge in edges.inputs] == [("/t", 4), ("/other", 7)]
    lineage = operator_lineage(edges, result=result)
    assertions = lineage.inputs[0].inputFacets["dataQualityAssertions"].assertions
    assert [(a.name, a.success, a.severity) for a in assertions] == [("a", True, "error"), ("b", False, "warn")]
    assert lineage.inputs[1].inputFacets == {}
    tests = lineage.run_facets["test"].tests
    assert [(t.name, t.status, t.actual, t.expected) for t in tests] == [
        ("a", "pass", "3", "max_rows=0"),
        ("b", "fail", "3", "max_rows=0"),
    ]


def test_lineage_of_a_skipped_run_has_no_results_of_audits():
    request = WriteRequest(table="/t", sources={"source": Source(format="csv")}, audits=(Audit(**NO_NULL),))
    values = {"operation": "WRITE", "version": 1, "read_version": 0, "app_id": "a", "txn_version": 0, "timestamp": 1}

    def run_facets(**flags):
        result = OperationResult(table="/t", **values, **flags, audits=(audit_result(),))
        return operator_lineage(edges_of(request, result), result=result).run_facets

    assert "test" in run_facets(committed=True, skipped=False)
    assert "test" not in run_facets(committed=False, skipped=True)
