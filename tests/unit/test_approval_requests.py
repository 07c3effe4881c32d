"""The question of a job and the approval of a person keep their values in JSON and in marker lines."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from deltalite.errors import InvalidRequestError
from deltalite.markers import MAX_MARKER_BYTES, QuestionPart, parse_marker, question_markers, question_parts
from deltalite.requests import (
    Approval,
    AskedAudit,
    Audit,
    AuditQuestion,
    CheckRequest,
    DeleteRequest,
    RunIdentity,
    Source,
    WriteRequest,
)
from deltalite.requests.approvals import different_parts, request_parts
from deltalite.requests.source import fields_with_sources

ASKED = tuple(
    AskedAudit(name=str(number), check="c", text="é" * 200, measured=value, rows=9)
    for number, value in enumerate((3, 0.5, False, None, "nan"))
)
QUESTION = AuditQuestion(
    audits=ASKED, measured_at_ms=5, effect="files", request={"table": "/t"}, samples={"0": ("{}", '{"a": 1}')}
)
APPROVAL = Approval(audits=ASKED, measured_at_ms=5, accepted_by="Ada", accepted_at="2026-01-01T00:00:00+00:00")


def test_a_question_arrives_from_its_marker_lines_in_any_order():
    lines = question_markers(QUESTION, nonce="n1")
    assert max(len(line.encode()) for line in lines) <= MAX_MARKER_BYTES
    long_question = AuditQuestion(
        audits=ASKED, measured_at_ms=5, samples={str(n): (f"{n * 7919:x}" * 40,) for n in range(60)}
    )
    lines = question_markers(long_question, nonce="n1")
    assert len(lines) > 1
    assert max(len(line.encode()) for line in lines) <= MAX_MARKER_BYTES
    parts = question_parts()
    questions = [parts.add(parse_marker(line, "n1")) for line in reversed(lines)]
    assert questions == [*[None] * (len(lines) - 1), long_question]
    assert parse_marker(lines[0], "n2") is None


@pytest.mark.parametrize("text", ["", "e30=", "!"])
def test_an_invalid_question_is_ignored(text):
    assert question_parts().add(QuestionPart(index=0, count=1, text=text)) is None


def test_a_question_and_an_approval_are_json():
    assert AuditQuestion.from_dict(json.loads(json.dumps(QUESTION.as_dict()))) == QUESTION
    assert Approval.from_dict(json.loads(json.dumps(APPROVAL.as_dict()))) == APPROVAL
    assert QUESTION.without_samples.samples == {}
    assert QUESTION.without_samples.code == QUESTION.code
    assert QUESTION.with_texts(str.upper).samples == {"0": ("{}", '{"A": 1}')}


def test_a_request_keeps_its_approval_in_json_and_in_the_request_of_its_write():
    audits, sources = (Audit(name="0", rows="x", level="ask"),), {"source": Source(format="csv")}
    for request in (
        WriteRequest(table="/t", sources=sources, audits=audits, approval=APPROVAL),
        DeleteRequest(table="/t", condition="x", audits=(Audit(name="0", row_count=True, min=1),), approval=APPROVAL),
    ):
        assert type(request).from_json(request.to_json()) == request
    write = WriteRequest(table="/t", sources=sources, approval=APPROVAL)
    assert fields_with_sources(write)["approval"] == APPROVAL


def test_an_approval_belongs_to_the_table_the_parameters_and_the_audits():
    audit = Audit(name="0", rows="x", level="ask")
    identity = RunIdentity(app_id="a", request_digest="d", parameter_digests={"mode": "1", "query": "2"})

    def different(table="/t", audits=(audit,), **changes):
        parts, other_parts = (
            request_parts("/t", identity, (audit,)),
            request_parts(table, replace(identity, **changes), audits),
        )
        return different_parts(parts, other_parts)

    assert different(app_id="b", audits=(replace(audit, samples=0),)) == []
    assert different(table="/u") == ["table"]
    assert different(request_digest="e", parameter_digests={"mode": "1", "query": "3"}) == ["parameter query"]
    assert different(request_digest="e") == ["request"]
    assert different(audits=()) == different(audits=(replace(audit, level="warn"),)) == ["audit '0'"]
    assert different(audits=(replace(audit, max_rows=1),)) == ["audit '0'"]


def test_a_check_cannot_ask():
    with pytest.raises(InvalidRequestError, match="a check publishes no rows"):
        CheckRequest(table="/t", audits=(Audit(name="0", rows="x", level="ask"),))
