"""The verdict of each kind of audit, and the results in a commit."""

from __future__ import annotations

from decimal import Decimal

import pytest

from deltalite.protocol.actions import Metadata, Protocol
from deltalite.requests import Audit, AuditScope
from deltalite.results import AuditResult
from deltalite.txn.audits import (
    AUDITS,
    Measurement,
    audit_result,
    audit_results_of,
    audits_parameter,
    failed_audits,
)
from deltalite.txn.isolation import IsolationLevel
from deltalite.txn.proposal import BaseState, Operation, Proposal

HOUR_MS = 3_600_000


def result(audit, value, **other_values):
    measurement = Measurement(value=value, **other_values)
    return audit_result(Audit(name="a", **audit), AuditScope.TABLE, measurement, now_ms=100 * HOUR_MS)


@pytest.mark.parametrize(
    ("audit", "value", "other_values", "passed"),
    [
        ({"rows": "x"}, 0, {}, True),
        ({"rows": "x"}, 1, {}, False),
        ({"rows": "x", "max_rows": 2}, 2, {}, True),
        ({"rows": "x", "max_share": 0.1}, 10, {"rows": 100}, True),
        ({"rows": "x", "max_share": 0.1}, 11, {"rows": 100}, False),
        ({"rows": "x", "max_share": 0.1}, 0, {"rows": 0}, True),
        ({"rows": "x", "max_share": 0.1, "max_rows": 5}, 6, {"rows": 100}, False),
        ({"rows": "x", "max_share": 0.29}, 29, {"rows": 100}, True),
        ({"rows": "x", "max_share": 0.29}, 30, {"rows": 100}, False),
        ({"row_count": True, "max_change": 0.29}, 129, {"before": 100}, True),
        ({"row_count": True, "max_change": 0.29}, 71, {"before": 100}, True),
        ({"row_count": True, "max_change": 0.29}, 130, {"before": 100}, False),
        ({"aggregate": "x", "min": 0.1, "max": 0.1}, 0.1, {}, True),
        ({"aggregate": "x", "max": 1e16}, 10**16 + 1, {}, False),
        ({"aggregate": "x", "max": 0}, float("-inf"), {}, True),
        ({"aggregate": "x", "min": 0}, float("-inf"), {}, False),
        ({"unique": ("x",)}, 2, {}, False),
        ({"references": {"x": "y"}, "in_table": "/t", "max_rows": 1}, 1, {}, True),
        ({"row_count": True, "min": 1}, 0, {}, False),
        ({"row_count": True, "max": 1}, 1, {}, True),
        ({"row_count": True, "max_change": 0.5}, 150, {"before": 100}, True),
        ({"row_count": True, "max_change": 0.5}, 151, {"before": 100}, False),
        ({"row_count": True, "max_change": 0.5}, 49, {"before": 100}, False),
        ({"row_count": True, "max_change": 0.0}, 5, {"before": None}, True),
        ({"row_count": True, "max_change": 0.0}, 5, {"before": 0}, True),
        ({"aggregate": "x"}, True, {}, True),
        ({"aggregate": "x"}, False, {}, False),
        ({"aggregate": "x"}, None, {}, False),
        ({"aggregate": "x", "min": 0.1, "max": 0.1}, Decimal("0.1"), {}, True),
        ({"aggregate": "x", "max": 0.1}, Decimal("0.1000001"), {}, False),
        ({"aggregate": "x", "min": 0}, float("nan"), {}, False),
        ({"aggregate": "x", "max": 0}, float("nan"), {}, False),
        ({"aggregate": "x", "min": 0}, float("inf"), {}, True),
        ({"freshness": "x", "max_age_hours": 2, "as_of": "1970-01-01T10:00:00Z"}, 8 * HOUR_MS, {}, True),
        ({"freshness": "x", "max_age_hours": 2, "as_of": "1970-01-01T10:00:00Z"}, 8 * HOUR_MS - 9000, {}, False),
        ({"freshness": "x", "max_age_hours": 2, "as_of": "1970-01-01T10:00:00Z"}, 11 * HOUR_MS, {}, True),
        ({"freshness": "x", "max_age_hours": 2, "as_of": "now"}, 97 * HOUR_MS, {}, False),
        ({"freshness": "x", "max_age_hours": 2, "as_of": "now"}, None, {}, False),
    ],
    ids=str,
)
def test_an_audit_passes_within_its_limits(audit, value, other_values, passed):
    assert result(audit, value, **other_values).passed is passed


def test_measured_values_are_valid_json():
    assert result({"aggregate": "x", "min": 0}, Decimal("12.00")).measured == 12
    assert result({"aggregate": "x", "min": 0}, Decimal("0.5")).measured == 0.5
    assert result({"aggregate": "x", "min": 0}, float("nan")).measured == "nan"
    assert result({"freshness": "x", "max_age_hours": 2, "as_of": "now"}, 97 * HOUR_MS).measured == 3.0


def test_the_results_of_a_commit_are_read_from_its_parameters():
    results = [
        result({"rows": "x"}, 1, rows=4),
        result({"row_count": True, "max_change": 1}, 5, before=4),
        result({"references": {"x": "y"}, "in_table": "/t", "level": "warn"}, 1, version=3),
    ]
    assert list(audit_results_of({AUDITS: audits_parameter(results)})) == results
    assert failed_audits(results) == [results[0]]


@pytest.mark.parametrize(
    "parameters",
    [
        None,
        {},
        {AUDITS: 1},
        {AUDITS: "{"},
        {AUDITS: "3"},
        {AUDITS: "[1]"},
        {AUDITS: '[{"name": "a"}]'},
        {AUDITS: '{"a": 1}'},
    ],
    ids=str,
)
def test_parameters_of_another_program_have_no_results(parameters):
    assert audit_results_of(parameters) == ()


@pytest.mark.parametrize("changes", [{"passed": 1}, {"measured": [1]}, {"rows": "4"}, {"name": None}], ids=str)
def test_a_result_with_a_value_of_another_type_is_rejected(changes):
    values = result({"rows": "x"}, 1).as_dict()
    assert AuditResult.from_dict(values).name == "a"
    with pytest.raises(TypeError):
        AuditResult.from_dict(values | changes)


@pytest.mark.parametrize("audits_table", [True, False])
def test_a_commit_with_audits_of_the_table_is_serializable(audits_table):
    configuration = {"delta.isolationLevel": "WriteSerializable"}
    metadata = Metadata(id="t", schema_string="{}", partition_columns=(), configuration=configuration)
    base = BaseState(version=0, protocol=Protocol(min_reader_version=1, min_writer_version=2), metadata=metadata)
    proposal = Proposal(base=base, operation=Operation(name="WRITE"), audits_table=audits_table)
    assert (proposal.isolation is IsolationLevel.SERIALIZABLE) is audits_table
