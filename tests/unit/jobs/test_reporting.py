"""The report of a job that ends with a question to a person."""

from __future__ import annotations

import pytest

from deltalite.errors import ApprovalNeededError
from deltalite.jobs import runner
from deltalite.markers import parse_marker, question_parts
from deltalite.requests import AskedAudit, AuditQuestion
from deltalite.results import JobError


def test_a_question_is_reported_without_secrets_and_without_a_traceback(capsys):
    asked_audit = AskedAudit(name="a", check="c", text="measured 3")
    error = ApprovalNeededError("A person decides", remedy="Answer.")
    error.question = AuditQuestion(audits=(asked_audit,), measured_at_ms=1, samples={"a": ('{"x": "planted"}',)})
    assert runner._report_failure(error, "nonce", ["planted"]) == 110
    output = capsys.readouterr()
    assert output.err == ""
    question_line, error_line = [line for line in output.out.splitlines() if line]
    question = question_parts().add(parse_marker(question_line, "nonce"))
    assert question.samples == {"a": ('{"x": "***"}',)}
    assert parse_marker(error_line, "nonce") == JobError(
        kind="ApprovalNeededError", message="A person decides Answer.", remedy="Answer."
    )


def test_an_error_without_a_question_has_a_traceback(capsys):
    with pytest.raises(ApprovalNeededError) as caught:
        raise ApprovalNeededError("A person decides", remedy="Answer.")
    runner._report_failure(caught.value, "nonce", [])
    assert "Traceback" in capsys.readouterr().err
