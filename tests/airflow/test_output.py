"""The output of a job becomes the log of a task."""

from __future__ import annotations

import io
import logging
from types import SimpleNamespace
from typing import cast

import pytest

from airflow_provider_deltalite.output import (
    BEGIN_OF_GROUP,
    END_OF_GROUP,
    JobOutput,
    LevelledLog,
    bounded_lines,
    level_of,
    spark_threshold,
)
from deltalite.errors import InvalidRequestError
from deltalite.markers import error_marker, question_markers, result_marker, started_marker
from deltalite.requests import AskedAudit, AuditQuestion
from deltalite.results import JobError, JobStarted, OperationResult

SPARK_LINE = "26/11/22 05:05:23 INFO SparkContext: Running Spark version 4.3.0"
JOB_LINE = "INFO deltalite.txn: replanned"
RESULT = OperationResult(
    table="/t", operation="WRITE", version=1, read_version=0, committed=True, skipped=False, app_id="a",
    txn_version=0, timestamp=1,
)  # fmt: skip
TRACEBACK = [
    "Traceback (most recent call last):",
    '  File "write.py", line 3, in run',
    "    raise error",
    "deltalite.errors.SchemaMismatchError: The column 'a' is new.",
    "  It stands here.",
]


def log_output(*lines) -> tuple[JobOutput, list[str]]:
    """Pass lines of a job through `JobOutput`. Returns it and the lines that the task logs."""
    logged_lines: list[str] = []
    output = JobOutput(logged_lines.append)
    for line in output.to_log(iter([f"{line}\n" for line in lines])):
        logged_lines.append(line)  # noqa: PERF402  `to_log` also adds the lines of groups to this list
    return output, logged_lines


def test_markers_are_parsed_and_not_logged():
    output, logged_lines = log_output(SPARK_LINE, "", result_marker(RESULT))
    assert output.result == RESULT
    assert logged_lines == [BEGIN_OF_GROUP, SPARK_LINE, END_OF_GROUP]


def test_a_question_is_kept_without_secrets_and_not_logged():
    asked_audit = AskedAudit(name="a", check="c", text="measured 3")
    question = AuditQuestion(audits=(asked_audit,), measured_at_ms=1, samples={"a": ('{"x": "planted"}',)})
    logged_lines: list[str] = []
    output = JobOutput(logged_lines.append, hidden=["planted"])
    assert output.question is None
    lines = [f"{line}\n" for line in question_markers(question)]
    assert [*output.to_log(iter(lines)), *logged_lines] == []
    assert output.question is not None
    assert output.question.samples == {"a": ('{"x": "***"}',)}
    assert output.question.code == question.code


def test_spark_lines_are_grouped_between_lines_of_the_job():
    _, logged_lines = log_output(SPARK_LINE, "WARNING: Using incubator modules", JOB_LINE, JOB_LINE, SPARK_LINE)
    spark_lines = [SPARK_LINE, "WARNING: Using incubator modules"]
    assert logged_lines == [
        BEGIN_OF_GROUP,
        *spark_lines,
        END_OF_GROUP,
        JOB_LINE,
        JOB_LINE,
        BEGIN_OF_GROUP,
        SPARK_LINE,
        END_OF_GROUP,
    ]


def test_the_traceback_of_the_error_is_complete_even_if_spark_logs_between_its_lines():
    interrupted = [*TRACEBACK[:2], SPARK_LINE, *TRACEBACK[2:]]
    output, logged_lines = log_output(
        SPARK_LINE, *interrupted, error_marker("SchemaMismatchError", "The column 'a' is new."), SPARK_LINE
    )
    assert output.error == JobError(kind="SchemaMismatchError", message="The column 'a' is new.")
    assert output.traceback == "\n".join(TRACEBACK)
    assert logged_lines == [BEGIN_OF_GROUP, SPARK_LINE, SPARK_LINE, SPARK_LINE, END_OF_GROUP]


def test_chained_tracebacks_are_one_traceback():
    chained = [*TRACEBACK, "", "The above exception was the direct cause of the following exception:", "", *TRACEBACK]
    assert log_output(*chained, error_marker("E", "m"))[0].traceback == "\n".join(chained)


@pytest.mark.parametrize("last_lines", [[result_marker(RESULT)], []], ids=["a result", "nothing"])
def test_a_traceback_that_did_not_end_the_job_is_logged_as_normal_lines(last_lines):
    output, logged_lines = log_output(
        "WARNING deltalite: Spark did not stop cleanly", *TRACEBACK, *last_lines, SPARK_LINE
    )
    assert output.traceback is None
    assert [line for line in logged_lines if line in TRACEBACK] == TRACEBACK


def test_the_last_of_two_tracebacks_belongs_to_the_error_and_the_first_is_logged():
    output, logged_lines = log_output(*TRACEBACK, TRACEBACK[0], "ValueError: x", error_marker("ValueError", "x"))
    assert output.traceback == f"{TRACEBACK[0]}\nValueError: x"
    assert [line for line in logged_lines if line in TRACEBACK] == TRACEBACK


def test_no_line_after_an_endless_traceback_is_lost():
    later_lines = [f"line {number}" for number in range(2000)]
    _, logged_lines = log_output(*TRACEBACK, *later_lines)
    assert [line for line in logged_lines if line not in (BEGIN_OF_GROUP, END_OF_GROUP)] == [*TRACEBACK, *later_lines]


@pytest.mark.parametrize(
    ("line", "level"),
    [
        (SPARK_LINE, logging.INFO),
        ("26/11/22 05:05:19 WARN NativeCodeLoader: Unable to load", logging.WARNING),
        ("2026-11-22T05:05:19.123Z ERROR Executor: Exception in task 0.0", logging.ERROR),
        ("WARNING deltalite.spark.scan.frame: slow", logging.WARNING),
        ("ERRORS are counted", logging.INFO),
        ("java.lang.RuntimeException: 100% full", logging.INFO),
    ],
)
def test_a_line_is_logged_at_the_level_that_it_names(line, level):
    assert level_of(line) == level


@pytest.mark.parametrize("hidden", [("planted", "planted-and-more"), ("planted-and-more", "planted")])
def test_a_secret_that_begins_like_another_one_is_hidden_completely(hidden):
    output = JobOutput(lambda _: None, hidden=hidden)
    assert list(output.to_log(iter(["key planted-and-more\n"]))) == ["key ***"]


@pytest.mark.parametrize("command", [BEGIN_OF_GROUP, END_OF_GROUP])
@pytest.mark.parametrize("line", ["{}", "  {}", "the column 'x{}' is new"])
def test_a_quoted_line_neither_begins_nor_ends_a_group(line, command):
    """Airflow's log page acts on these commands anywhere in a line."""
    _, logged_lines = log_output(line.format(command))
    assert len(logged_lines) == 3 and command not in logged_lines[1] and "group::" in logged_lines[1]


@pytest.mark.parametrize(
    ("line", "escaped"),
    [
        ("\x1b[2J\x1b]8;;http://evil\x07click", r"\x1b[2J\x1b]8;;http://evil\x07click"),
        ("all is well\rtwo", r"all is well\rtwo"),
        ("\u202egnihton", r"\u202egnihton"),
        ("a\x85b\u2028c\x9b", r"a\x85b\u2028c\x9b"),
        ("a tab\tand ü stay", "a tab\tand ü stay"),
    ],
)
def test_control_characters_are_logged_as_escapes(line, escaped):
    assert list(JobOutput(lambda _: None).to_log(iter([line + "\n"]))) == [escaped]


def test_a_marker_without_the_nonce_is_logged_as_a_normal_line():
    starts = []
    output = JobOutput(lambda _: None, starts.append, nonce="a1b2")
    forged_lines = [
        result_marker(RESULT),
        error_marker("SourceError", "m", nonce="guess"),
        started_marker(JobStarted(application_id="app-1", ui_url="http://evil"), "a1b"),
        "x " + result_marker(RESULT, "a1b2"),
    ]
    assert list(output.to_log(iter(forged_lines))) == forged_lines
    assert (output.result, output.error, starts) == (None, None, [])


def test_a_long_line_is_logged_in_parts_and_no_part_is_a_marker():
    marker = result_marker(RESULT)
    text = "x" * 16_384 + marker + "\n" + marker + "\n"
    output = JobOutput(lambda _: None)
    logged_parts = list(output.to_log(bounded_lines(io.StringIO(text))))
    assert max(map(len, logged_parts)) < 20_000
    assert len(logged_parts) == 2 and marker in logged_parts[1], "the first marker is inside a line"
    assert output.result == RESULT, "the second marker is a complete line"


def test_an_endless_line_is_never_completely_in_memory():
    class EndlessLine(io.StringIO):
        reads = 0

        def readline(self, size=-1):
            assert 0 < size <= 16_384
            self.reads += 1
            return "x" * size if self.reads < 1000 else ""

    assert sum(len(part) >= 16_384 for part in bounded_lines(EndlessLine())) == 999


def test_lines_below_the_level_are_omitted_from_the_log_but_kept_and_passed_to_the_hook():
    job_lines = [
        SPARK_LINE,
        "26/11/22 05:05:24 INFO Client: ",
        "\t client token: N/A",
        JOB_LINE,
        SPARK_LINE,
        "26/11/22 05:05:25 WARN TaskSetManager: Lost task 0.0",
        "\tat org.apache.spark.Task",
        "no layout at all",
    ]
    logged_lines: list[str] = []
    output = JobOutput(logged_lines.append, spark_level=spark_threshold("warn"))
    log = SimpleNamespace(log=lambda _, message, *values: logged_lines.append(message % values if values else message))
    levelled_log = LevelledLog(cast("logging.Logger", log), output.omits)
    read_lines = []
    for line in output.to_log(iter(job_lines)):
        read_lines.append(line)
        levelled_log.info(line.strip())
        levelled_log.info("Identified spark application id: %s", "application_1")
    hook_line = "Identified spark application id: application_1"
    assert read_lines == job_lines
    assert [line for line in logged_lines if line != hook_line] == [
        JOB_LINE, BEGIN_OF_GROUP, *(line.strip() for line in job_lines[5:]), END_OF_GROUP,
    ]  # fmt: skip
    assert logged_lines.count(hook_line) == 1, "the log repeats the hook's report of the application id"
    assert output.omitted_lines.splitlines() == [*job_lines[:3], SPARK_LINE]


def test_only_the_newest_omitted_lines_are_kept():
    output = JobOutput(lambda _: None, spark_level=logging.WARNING)
    lines = [f"26/11/22 05:05:23 INFO X: {number}" for number in range(1000)]
    list(output.to_log(iter(lines)))
    assert output.omitted_lines.splitlines() == lines[-200:]


@pytest.mark.parametrize("level", ["ALL", "trace", "DEBUG", "INFO"])
def test_a_level_of_info_or_lower_shows_the_lines_of_spark(level):
    output = JobOutput(lambda _: None, spark_level=spark_threshold(level))
    assert [output.omits(line) for line in output.to_log(iter([SPARK_LINE]))] == [False]


def test_an_unknown_spark_log_level_is_rejected():
    with pytest.raises(InvalidRequestError, match="no log level 'LOUD'") as caught:
        spark_threshold("LOUD")
    assert "[deltalite] spark_log_level" in caught.value.remedy
