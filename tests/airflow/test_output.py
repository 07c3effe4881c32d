"""How the output of a job becomes the log of a task."""

from __future__ import annotations

import logging

import pytest

from airflow_provider_deltalite.output import END_OF_GROUP, GROUP, JobOutput, level_of
from deltalite.results import JobError, OperationResult, error_marker, result_marker

SPARK = "26/11/22 05:05:23 INFO SparkContext: Running Spark version 4.3.0"
OURS = "INFO deltalite.txn: planned again"
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


def logged(*lines) -> tuple[JobOutput, list[str]]:
    shown: list[str] = []
    output = JobOutput(shown.append)
    for line in output.to_log(iter([f"{line}\n" for line in lines])):
        shown.append(line)  # noqa: PERF402  groups come in between
    return output, shown


def test_markers_are_remembered_and_not_shown():
    output, shown = logged(SPARK, "", result_marker(RESULT))
    assert output.result == RESULT
    assert shown == [GROUP, SPARK, END_OF_GROUP]


def test_lines_of_spark_stand_in_groups_between_those_of_the_job():
    _, shown = logged(SPARK, "WARNING: Using incubator modules", OURS, OURS, SPARK)
    spark = [SPARK, "WARNING: Using incubator modules"]
    assert shown == [GROUP, *spark, END_OF_GROUP, OURS, OURS, GROUP, SPARK, END_OF_GROUP]


def test_the_traceback_of_the_error_is_kept_whole_with_its_indentation_though_spark_logs_into_it():
    torn = [*TRACEBACK[:2], SPARK, *TRACEBACK[2:]]
    output, shown = logged(SPARK, *torn, error_marker("SchemaMismatchError", "The column 'a' is new."), SPARK)
    assert output.error == JobError(kind="SchemaMismatchError", message="The column 'a' is new.")
    assert output.traceback == "\n".join(TRACEBACK)
    assert shown == [GROUP, SPARK, SPARK, SPARK, END_OF_GROUP]


def test_a_chained_traceback_is_one():
    chained = [*TRACEBACK, "", "The above exception was the direct cause of the following exception:", "", *TRACEBACK]
    assert logged(*chained, error_marker("E", "m"))[0].traceback == "\n".join(chained)


@pytest.mark.parametrize("end", [[result_marker(RESULT)], []], ids=["a result", "nothing"])
def test_a_traceback_that_was_not_the_end_of_the_job_is_shown_like_any_line(end):
    output, shown = logged("WARNING deltalite: Spark did not stop cleanly", *TRACEBACK, *end, SPARK)
    assert output.traceback is None
    assert [line for line in shown if line in TRACEBACK] == TRACEBACK


def test_of_two_tracebacks_the_last_is_the_error_and_the_first_is_shown():
    output, shown = logged(*TRACEBACK, TRACEBACK[0], "ValueError: x", error_marker("ValueError", "x"))
    assert output.traceback == f"{TRACEBACK[0]}\nValueError: x"
    assert [line for line in shown if line in TRACEBACK] == TRACEBACK


def test_no_line_is_lost_behind_a_traceback_without_end():
    many = [f"line {number}" for number in range(2000)]
    _, shown = logged(*TRACEBACK, *many)
    assert [line for line in shown if line not in (GROUP, END_OF_GROUP)] == [*TRACEBACK, *many]


@pytest.mark.parametrize(
    ("line", "level"),
    [
        (SPARK, logging.INFO),
        ("26/11/22 05:05:19 WARN NativeCodeLoader: Unable to load", logging.WARNING),
        ("2026-11-22T05:05:19.123Z ERROR Executor: Exception in task 0.0", logging.ERROR),
        ("WARNING deltalite.spark.scan: slow", logging.WARNING),
        ("ERRORS are counted", logging.INFO),
        ("java.lang.RuntimeException: 100% full", logging.INFO),
    ],
)
def test_a_line_has_the_level_that_it_names(line, level):
    assert level_of(line) == level


@pytest.mark.parametrize("hidden", [("planted", "planted-and-more"), ("planted-and-more", "planted")])
def test_of_a_secret_that_begins_like_another_one_nothing_is_left(hidden):
    output = JobOutput(lambda _: None, hidden=hidden)
    assert list(output.to_log(iter(["key planted-and-more\n"]))) == ["key ***"]
