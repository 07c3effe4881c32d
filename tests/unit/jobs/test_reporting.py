"""The report of a job: a question to a person, an error, and the phases."""

from __future__ import annotations

import io
import logging
import sys
from dataclasses import replace

import pytest

from deltalite.errors import ApprovalNeededError, MaintenanceError
from deltalite.jobs import runner
from deltalite.markers import parse_marker, question_parts
from deltalite.phases import Phase, PhaseRecord
from deltalite.requests import AskedAudit, AuditQuestion
from deltalite.results import JobError, result_without_commit
from tests.support.clocks import SettableClock


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


@pytest.fixture
def write_phase(monkeypatch):
    """A job of this process that has planned for a second, and now writes."""
    clock = SettableClock()
    record = PhaseRecord(clock_s=clock)
    record.end_start(2.5)
    clock.now_s += 1
    record.begin(Phase.WRITE)
    monkeypatch.setattr(runner, "PHASES", record)


def test_an_error_without_a_question_has_a_traceback(capsys):
    with pytest.raises(ApprovalNeededError) as caught:
        raise ApprovalNeededError("A person decides", remedy="Answer.")
    runner._report_failure(caught.value, "nonce", [])
    assert "Traceback" in capsys.readouterr().err


def test_a_failed_job_logs_its_phases_before_the_traceback(write_phase, capsys, caplog):
    """The worker counts every line from the beginning of the traceback to the marker as a part of the traceback."""
    caplog.set_level("INFO", logger="deltalite")
    handler = logging.StreamHandler(sys.stderr)
    logging.getLogger("deltalite").addHandler(handler)
    try:
        runner._report_failure(ValueError("bad"), "nonce", [])
    finally:
        logging.getLogger("deltalite").removeHandler(handler)
    assert capsys.readouterr().err.splitlines() == [
        "The job failed in the phase write. Seconds in each phase: start 2.5, plan 1.0, write 0.0.",
        "ValueError: bad",
    ]


def test_a_marker_and_its_line_break_are_one_write_so_that_the_jvm_cannot_log_between_them(monkeypatch):
    writes = []

    class RawOutput(io.RawIOBase):
        def writable(self):
            return True

        def write(self, data):
            writes.append(bytes(data))
            return len(data)

    # Spark sets PYTHONUNBUFFERED, and Python then creates stdout in this way.
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(RawOutput(), write_through=True))
    runner._print_marker("a marker")
    assert writes == [b"\na marker\n"]


def test_the_result_of_a_partly_failed_maintenance_has_the_phases(write_phase, capsys):
    error = MaintenanceError("1 of 2 tables failed", remedy="Read the log.")
    error.result = result_without_commit("MAINTAIN", "/lake/*", None)
    runner._report_failure(error, "nonce", [])
    result, job_error = [parse_marker(line, "nonce") for line in capsys.readouterr().out.splitlines() if line]
    assert result == replace(error.result, phases={"start": 2.5, "plan": 1.0, "write": 0.0})
    assert job_error.kind == "MaintenanceError"
