"""An audit of level `ask` commits only rows whose measured values a person has accepted."""

from __future__ import annotations

import json

import pytest

from deltalite import DeltaTable
from deltalite.errors import ApprovalNeededError, AuditFailedError, InvalidRequestError
from deltalite.requests import Approval, Audit, AuditQuestion
from tests.support.properties import VECTORS
from tests.support.tables import rows, update_rows, values, write_rows

pytestmark = pytest.mark.spark

NO_NULL = Audit(name="no null", rows="x IS NULL", level="ask")
PASSES = Audit(name="count", row_count=True, min=1, level="ask")


def question_of(run) -> AuditQuestion:
    """The question that a write raises."""
    with pytest.raises(ApprovalNeededError) as caught:
        run()
    return caught.value.question


def approval_of(question: AuditQuestion) -> Approval:
    return Approval(
        audits=question.audits,
        measured_at_ms=question.measured_at_ms,
        accepted_by="Ada",
        accepted_at="2026-01-01T00:00:00+00:00",
    )


def accepted_in_log(table):
    stored = json.loads(DeltaTable(str(table)).history(limit=1)[0]["operationParameters"]["audits"])
    return [(audit["name"], audit["measured"], audit.get("accepted_by")) for audit in stored]


def test_rows_are_published_only_with_an_approval_of_values_that_are_not_worse(spark, tmp_path):
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
    assert accepted_in_log(table) == [("no null", 1, "Ada"), ("count", 2, None)]
    assert '"x": null' not in (table / "_delta_log" / f"{0:020}.json").read_text().replace("\\", "")
    assert write("1, NULL", "2, 2").skipped, "a retry finds the commit, and nobody is asked"

    # Values of another level stay refused, and so does SQL without a value.
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
