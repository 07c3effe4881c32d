"""An audit of level `ask` commits only rows whose measured values a person has accepted."""

from __future__ import annotations

import json

import pytest

from deltalite import DeltaTable
from deltalite.errors import ApprovalNeededError, AuditFailedError, InvalidRequestError
from deltalite.requests import Approval, Audit, AuditQuestion
from tests.support.merging import merge_into
from tests.support.properties import VECTORS
from tests.support.racing import run_before_commits
from tests.support.tables import rows, update_rows, values, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

NO_NULL = Audit(name="no null", rows="x IS NULL", level="ask")
PASSES = Audit(name="count", row_count=True, min=1, level="ask")


def question_of(operation) -> AuditQuestion:
    """The question that an operation raises."""
    with pytest.raises(ApprovalNeededError) as caught:
        operation()
    return caught.value.question


def approval_of(question: AuditQuestion) -> Approval:
    return Approval(
        audits=question.audits,
        measured_at_ms=question.measured_at_ms,
        accepted_by="Ada",
        accepted_at="2026-01-01T00:00:00+00:00",
    )


def audits_in_log(table):
    """(name, measured value, the person who accepted it) for each audit of the newest commit."""
    stored = json.loads(DeltaTable(str(table)).history(limit=1)[0]["operationParameters"]["audits"])
    return [(audit["name"], audit["measured"], audit.get("accepted_by")) for audit in stored]


def test_an_approval_publishes_only_rows_whose_values_are_not_worse_than_the_accepted_ones(spark, tmp_path):
    table = tmp_path / "t"

    def write(*new_rows, run="r", **options):
        return write_rows(
            spark, table, values("id, x", *new_rows), run=run, audits=(NO_NULL, PASSES), properties=VECTORS, **options
        )

    question = question_of(lambda: write("1, NULL", "2, 2"))
    assert [(audit.name, audit.measured, audit.rows) for audit in question.audits] == [("no null", 1, 2)]
    assert question.samples == {"no null": ('{"x": null, "id": 1}',)}
    assert "The rows stay in" in question.effect
    approval = approval_of(question)
    question = question_of(lambda: write("1, NULL", "2, CAST(NULL AS INT)", approval=approval))
    assert [audit.measured for audit in question.audits] == [2]
    assert not list((table / "_delta_log").glob("*.json"))
    result = write("1, NULL", "2, 2", approval=approval)
    assert (result.version, [audit.accepted_by for audit in result.audits]) == (0, ["Ada", None])
    assert audits_in_log(table) == [("no null", 1, "Ada"), ("count", 2, None)]
    assert '"x": null' not in (table / "_delta_log" / f"{0:020}.json").read_text().replace("\\", "")
    assert write("1, NULL", "2, 2").skipped, "a retry finds the commit, and nobody is asked"

    # An approval has no effect on an audit of the level `fail`. SQL that fails is an error at each level.
    fails = Audit(name="fails", rows="id = 3")
    with pytest.raises(AuditFailedError, match="'fails'") as caught:
        write_rows(
            spark, table, values("id, x", "3, CAST(NULL AS INT)"), run="s", audits=(NO_NULL, fails), approval=approval
        )
    assert not isinstance(caught.value, ApprovalNeededError)
    broken = Audit(name="broken", rows="CAST('a' AS INT) = id", level="ask")
    with pytest.raises(InvalidRequestError, match="'broken'"):
        write_rows(spark, table, values("id, x", "3, 3"), run="s", audits=(broken,))

    def update(**options):
        return update_rows(spark, table, {"x": "CAST(NULL AS INT)"}, "id = 2", audits=(NO_NULL,), **options)

    question = question_of(update)
    assert rows(table) == [(1, None), (2, 2)]
    assert update(approval=approval_of(question)).committed
    assert rows(table) == [(1, None), (2, None)]


def test_a_person_is_asked_again_if_another_commit_makes_an_accepted_value_worse(spark, tmp_path, monkeypatch):
    table = tmp_path / "t"
    write_rows(spark, table, values("id, x", "1, 1"))
    unique = Audit(name="one row each", unique=("id",), level="ask")

    def write(**options):
        return write_rows(spark, table, values("id, x", "1, 2"), audits=(unique,), **options)

    approval = approval_of(question_of(write))
    assert [audit.measured for audit in approval.audits] == [2]
    run_before_commits(monkeypatch, lambda: write_rows(spark, table, values("id, x", "1, 3")))
    question = question_of(lambda: write(approval=approval))
    assert [audit.measured for audit in question.audits] == [3]
    assert rows(table) == [(1, 1), (1, 3)]
    assert write(approval=approval_of(question)).committed


def test_rejected_rows_wait_for_the_decision_on_the_other_rows(spark, tmp_path):
    table, quarantine = tmp_path / "t", tmp_path / "quarantine"
    rejecting = Audit(name="negative", rows="x < 0", level="quarantine")

    def write(**options):
        query = values("id, x", "1, NULL", "2, -1", "3, 3")
        return write_rows(
            spark, table, query, run="r", audits=(rejecting, NO_NULL), quarantine=str(quarantine), **options
        )

    question = question_of(write)
    assert [(audit.name, audit.measured, audit.rows) for audit in question.audits] == [("no null", 1, 2)]
    assert not quarantine.exists()
    result = write(approval=approval_of(question))
    assert (result.committed, result.quarantine.rows) == (True, 1)
    assert rows(table) == [(1, None), (3, 3)]
    assert [row["record"] for row in DeltaTable(str(quarantine)).to_arrow().to_pylist()] == ['{"id":2,"x":-1}']


def test_a_merge_commits_only_with_an_approval(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, values("id, x", "1, 1"), properties=VECTORS)

    def merge(**options):
        return merge_into(
            spark,
            table,
            values("id, x", "1, CAST(NULL AS INT)", "2, 2"),
            "target.id = source.id",
            matched=[{"update": "*"}],
            inserts=[{"insert": "*"}],
            audits=(NO_NULL,),
            **options,
        )

    question = question_of(merge)
    assert [(audit.measured, audit.rows) for audit in question.audits] == [(1, 2)]
    assert rows(table) == [(1, 1)]
    assert merge(approval=approval_of(question)).committed
    assert rows(table) == [(1, None), (2, 2)]
