"""An approval covers an audit if the check is the same, and no value is worse than the person saw."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deltalite.requests import Approval, Audit, AuditScope
from deltalite.txn.approvals import is_undecided, question_of, with_acceptance
from deltalite.txn.audits import Measurement, audit_result, failed_audits

HOUR_MS = 3_600_000
ASKED_MS = 100 * HOUR_MS
NOW_MS = ASKED_MS + 5 * HOUR_MS
ROWS = {"rows": "x IS NULL"}
SHARE = {**ROWS, "max_share": 0.01}
INF = float("inf")
RANGE = {"aggregate": "sum(x)", "min": 10, "max": 20}
CHANGE = {"row_count": True, "max_change": 0.1}
FRESH = {"freshness": "at", "max_age_hours": 1, "as_of": "1970-01-05T04:00:00Z"}


def result_of(audit, value, now_ms=ASKED_MS, **more):
    return audit_result(audit, AuditScope.TABLE, Measurement(value=value, **more), now_ms=now_ms)


def approval_of(audit, value, **more):
    question = question_of(
        [result_of(audit, value, **more)], {audit.name: audit}, effect="", samples={}, now_ms=ASKED_MS
    )
    return Approval(
        audits=question.audits, measured_at_ms=ASKED_MS, accepted_by="Ada", accepted_at="2026-01-01T00:00:00+00:00"
    )


def is_accepted(approval, audit, value, **more):
    (result,) = with_acceptance(
        [result_of(audit, value, now_ms=NOW_MS, **more)], {audit.name: audit}, approval, now_ms=NOW_MS
    )
    assert is_undecided(result) is (result.accepted_by is None)
    return result.accepted_by == "Ada"


@pytest.mark.parametrize(
    ("check", "asked", "no_worse", "worse"),
    [
        (ROWS, {"value": 3}, [{"value": 3}, {"value": 1}], [{"value": 4}]),
        (
            SHARE,
            {"value": 5, "rows": 100},
            [{"value": 5, "rows": 100}, {"value": 5, "rows": 200}],
            [{"value": 5, "rows": 50}, {"value": 6, "rows": 200}],
        ),
        # The share may not grow, also if only the number of rows is limited.
        (ROWS, {"value": 3, "rows": 9}, [{"value": 3, "rows": 10}], [{"value": 3, "rows": 8}, {"value": 3}]),
        # A value on the other side of the range is worse.
        (RANGE, {"value": 8}, [{"value": 9}], [{"value": 7}, {"value": 21}]),
        (
            CHANGE,
            {"value": 50, "before": 100},
            [{"value": 60, "before": 100}, {"value": 30, "before": 60}],
            [{"value": 40, "before": 100}, {"value": 149, "before": 100}],
        ),
        ({**CHANGE, "min": 500}, {"value": 50}, [{"value": 60}], [{"value": 60, "before": 9}, {"value": 40}]),
        # The last digits of a double depend on the order of the rows. An integer is exact.
        (RANGE, {"value": 1e9}, [{"value": 1e9 + 0.5}], [{"value": 1e9 + 2}]),
        (RANGE, {"value": 10**9}, [{"value": 10**9}], [{"value": 10**9 + 1}]),
        (RANGE, {"value": INF}, [{"value": INF}, {"value": 21}], [{"value": -INF}, {"value": 9}]),
        (RANGE, {"value": 10**400}, [{"value": 21}, {"value": 21.5}], [{"value": 10**400 + 1}, {"value": INF}]),
        (FRESH, {"value": 50 * HOUR_MS}, [{"value": 60 * HOUR_MS}], [{"value": 49 * HOUR_MS}]),
        # The five hours of waiting do not count.
        ({**FRESH, "as_of": "now"}, {"value": 50 * HOUR_MS}, [{"value": 50 * HOUR_MS}], [{"value": 49 * HOUR_MS}]),
        ({"aggregate": "x"}, {"value": False}, [{"value": False}], []),
        (RANGE, {"value": None}, [{"value": None}], [{"value": 9}, {"value": float("nan")}]),
        (RANGE, {"value": float("nan")}, [{"value": float("nan")}], [{"value": None}, {"value": 9}]),
    ],
    ids=str,
)
def test_values_that_are_not_worse_are_accepted(check, asked, no_worse, worse):
    audit = Audit(name="a", level="ask", **check)
    approval = approval_of(audit, **asked)
    assert [is_accepted(approval, audit, **values) for values in no_worse] == [True] * len(no_worse)
    assert [is_accepted(approval, audit, **values) for values in worse] == [False] * len(worse)


def test_another_check_or_another_name_is_not_accepted():
    audit = Audit(name="a", level="ask", **ROWS)
    approval = approval_of(audit, 3)
    assert is_accepted(approval, Audit(name="a", level="ask", samples=0, **ROWS), 3)
    assert not is_accepted(approval, Audit(name="a", level="ask", rows="y IS NULL"), 3)
    assert not is_accepted(approval, Audit(name="a", level="ask", max_rows=1, **ROWS), 3)
    assert not is_accepted(approval, Audit(name="b", level="ask", **ROWS), 3)
    assert not is_accepted(None, audit, 3)


def test_a_question_contains_only_audits_of_level_ask_that_have_a_value():
    ask, fail, warn = (Audit(name=level, level=level, **ROWS) for level in ("ask", "fail", "warn"))
    broken = Audit(name="broken", level="ask", **ROWS)
    audits = {audit.name: audit for audit in (ask, fail, warn, broken)}
    results = [result_of(ask, 1), result_of(fail, 1), result_of(warn, 1), result_of(broken, None, error="cast")]
    assert [result.name for result in failed_audits(results)] == ["fail", "broken"]
    question = question_of(results, audits, effect="e", samples={"ask": ["{}"], "fail": ["{}"]}, now_ms=1)
    assert [audit.name for audit in question.audits] == ["ask"]
    assert question.samples == {"ask": ("{}",)}
    assert not question_of([result_of(ask, 0)], audits, effect="", samples={}, now_ms=1).audits


def test_a_question_says_why_the_approval_does_not_cover_its_values():
    audit = Audit(name="a", level="ask", **ROWS)
    approval = approval_of(audit, 3, rows=9)

    def reason(audit, **values):
        results = [result_of(audit, now_ms=NOW_MS, **values)]
        (asked,) = question_of(
            results, {audit.name: audit}, effect="", samples={}, now_ms=NOW_MS, approval=approval
        ).audits
        return asked.reason

    assert reason(audit, value=4, rows=12) == (
        "the number of bad rows got worse: measured 4 of 12 rows, accepted 3 of 9 rows"
    )
    assert reason(audit, value=3, rows=8).startswith("their share got worse")
    assert "no audit of this name" in reason(Audit(name="b", level="ask", **ROWS), value=1)
    assert "changed" in reason(Audit(name="a", level="ask", rows="y"), value=1)


def test_a_question_has_no_paths_if_an_audit_shows_no_samples():
    ask, hidden = Audit(name="ask", level="ask", **ROWS), Audit(name="hidden", samples=0, **ROWS)

    def effect(*audits):
        return question_of(
            [result_of(ask, 1)], {audit.name: audit for audit in audits}, effect="/p=1", samples={}, now_ms=1
        ).effect

    assert (effect(ask), effect(ask, hidden)) == ("/p=1", "")


def test_the_code_of_a_question_changes_with_its_values_and_not_with_its_samples():
    audit = Audit(name="a", level="ask", **ROWS)

    def code(value, samples=()):
        return question_of(
            [result_of(audit, value)], {"a": audit}, effect="", samples={"a": samples}, now_ms=value
        ).code

    assert code(3) == code(3, samples=["{}"]) != code(4)
    question = question_of([result_of(audit, 3)], {"a": audit}, effect="", samples={}, now_ms=1)
    codes = {replace(question, request=request).code for request in ({}, {"table": "/a"}, {"table": "/b"})}
    assert len(codes) == 3
    assert all(code[0].isalpha() for code in codes)
