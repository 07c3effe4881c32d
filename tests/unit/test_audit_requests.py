"""An audit has exactly one check and limits that fit it; a request keeps its audits in JSON."""

from __future__ import annotations

from decimal import Decimal

import pytest

from deltalite.errors import InvalidRequestError
from deltalite.requests import (
    Audit,
    AuditScope,
    CheckRequest,
    DeleteRequest,
    MergeClause,
    MergeRequest,
    Source,
    UpdateRequest,
    WriteRequest,
)

FRESH = {"freshness": "at", "max_age_hours": 1, "as_of": "2026-01-01T00:00:00Z"}
VALID = [
    {"rows": "x IS NULL", "max_share": 0.1, "level": "warn"},
    {"unique": ("id", "day"), "samples": 0},
    {"references": {"a": "b"}, "in_table": "/other", "version_as_of": 3},
    {"row_count": True, "max_change": 0.5},
    {"aggregate": "sum(x)", "min": 0, "on": "table"},
    FRESH,
]


@pytest.mark.parametrize(
    ("audit", "problem"),
    [
        ({}, "has no check"),
        ({"row_count": False}, "has no check"),
        ({"rows": "x", "unique": ("id",)}, "has rows and unique"),
        ({"rows": " "}, "rows of the audit 'a' is empty"),
        ({"aggregate": ""}, "is empty"),
        ({"rows": "x", "min": 1}, "has the key min, which does not apply to rows"),
        ({"rows": "x", "in_table": "/t"}, "in_table"),
        ({"rows": "x", "max_rows": -1}, "max_rows of the audit 'a' is -1"),
        ({"rows": "x", "max_rows": True}, "max_rows of the audit 'a' is True, which is not a whole number"),
        ({"rows": "x", "samples": 2.5}, "samples of the audit 'a' is 2.5, which is not a whole number"),
        ({"rows": "x", "max_share": "0.1"}, "max_share of the audit 'a' is '0.1', which is not a number"),
        ({**FRESH, "max_age_hours": "2"}, "max_age_hours of the audit 'a' is '2', which is not a number"),
        ({"rows": "x", "max_share": 1.5}, "max_share of the audit 'a' is 1.5"),
        ({"rows": "x", "max_share": float("nan")}, "max_share"),
        ({"rows": "x", "samples": 21}, "samples of the audit 'a' is 21"),
        ({"row_count": True, "min": 1, "samples": 1}, "has the key samples, which does not apply to row_count"),
        ({"rows": "x", "level": "error"}, "level is 'error'"),
        ({"rows": "x", "on": "rows"}, "on is 'rows'"),
        ({"unique": ("id", "ID")}, "names 'id' twice"),
        ({"references": {"a": "b"}}, "has no in_table"),
        ({"references": {"a": ""}, "in_table": "/t"}, "an empty name"),
        ({"row_count": True}, "has no limit"),
        ({"row_count": True, "min": 3, "max": 2}, "min of the audit 'a' is 3, and max is 2"),
        ({"row_count": True, "min": float("nan")}, "min of the audit 'a' is NaN"),
        ({"row_count": True, "max_change": 1, "on": "new_rows"}, "max_change"),
        ({**FRESH, "max_age_hours": -1}, "max_age_hours of the audit 'a' is -1"),
        ({**FRESH, "as_of": None}, "has no as_of"),
        ({**FRESH, "as_of": "yesterday"}, "as_of of the audit 'a': Invalid time 'yesterday'"),
        ({"name": " ", "rows": "x"}, "The name of an audit is ' '"),
        ({"name": "a" * 101, "rows": "x"}, "at most 100 characters"),
        ({"name": "a\n\x1b[31mOK", "rows": "x"}, "The name of an audit is"),
    ],
    ids=str,
)
def test_a_wrong_audit_is_rejected(audit, problem):
    with pytest.raises(InvalidRequestError, match=problem):
        Audit(**{"name": "a", **audit})


def test_the_kind_decides_which_rows_an_audit_examines():
    audits = [Audit(name="a", **{**values, "on": None}) for values in VALID]
    new_rows, table = AuditScope.NEW_ROWS, AuditScope.TABLE
    assert [a.scope(has_new_rows=True) for a in audits] == [new_rows, table, new_rows, table, new_rows, table]
    assert {a.scope(has_new_rows=False) for a in audits} == {table}
    assert Audit(name="a", rows="x", on="table").scope(has_new_rows=True) is table


def test_an_audit_of_bad_rows_has_five_samples_unless_it_says_otherwise():
    assert [Audit(name="a", **values).sample_count for values in VALID] == [5, 0, 5, 0, 0, 0]
    assert Audit(name="a", rows="x", samples=20).sample_count == 20


def test_each_request_keeps_its_audits_in_json():
    audits = tuple(Audit(name=str(number), **values) for number, values in enumerate(VALID))
    sources = {"source": Source(format="csv")}
    for request in (
        WriteRequest(table="/t", sources=sources, audits=audits),
        MergeRequest(table="/t", sources=sources, on="x", when_matched=(MergeClause(update="*"),), audits=audits),
        UpdateRequest(table="/t", set={"a": "1"}, audits=audits),
        DeleteRequest(table="/t", condition="x", audits=audits),
        CheckRequest(table="/t", audits=audits, version=3),
    ):
        assert type(request).from_json(request.to_json()) == request


def test_a_request_has_at_most_100_audits():
    audits = tuple(Audit(name=str(number), rows="x") for number in range(101))
    with pytest.raises(InvalidRequestError, match="101 audits"):
        CheckRequest(table="/t", audits=audits)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"version": 1, "timestamp": "2026-01-01T00:00:00Z"}, "both a version and a time"),
        ({"version": -1}, "negative"),
        ({"timestamp": "soon"}, "Invalid time"),
    ],
)
def test_a_check_names_at_most_one_version(options, problem):
    with pytest.raises(InvalidRequestError, match=problem):
        CheckRequest(table="/t", audits=(Audit(name="a", rows="x"),), **options)


def test_a_decimal_limit_survives_json():
    request = CheckRequest(table="/t", audits=(Audit(name="a", aggregate="sum(x)", min=Decimal("0.29")),))
    (audit,) = CheckRequest.from_json(request.to_json()).audits
    assert audit.min == 0.29 and audit.threshold == "min=0.29"
