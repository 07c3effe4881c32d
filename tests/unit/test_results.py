"""What a job says over stdout is taken whole or not at all."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltalite.results import (
    MARKER_BYTES,
    JobError,
    JobStarted,
    OperationResult,
    error_marker,
    parse_marker,
    parse_started,
    result_marker,
    started_marker,
)

RESULT = OperationResult(
    table="/lake/ü orders", operation="WRITE", version=3, read_version=2, committed=True, skipped=False,
    app_id='a/"b"', txn_version=0, timestamp=1_700_000_000_000, metrics={"numFiles": 1, "numOutputRows": 12},
)  # fmt: skip


def test_a_result_survives_the_line_and_json():
    line = result_marker(RESULT)
    assert "\n" not in line and parse_marker(line) == RESULT
    assert OperationResult.from_dict(json.loads(json.dumps(RESULT.as_dict()))) == RESULT


@pytest.mark.parametrize(
    "around", ["{}\n", "26/01/01 12:00:00 INFO SparkSubmitHook: {}", "{}  \r\n", "DELTALITE-RESULT {}"]
)
def test_what_stands_around_the_marker_does_not_matter(around):
    assert parse_marker(around.format(result_marker(RESULT))) == RESULT


@given(cut=st.data())
def test_a_torn_line_is_no_marker(cut):
    line = result_marker(RESULT)
    end = cut.draw(st.integers(0, len(line) - 1))
    assert parse_marker(line[:end]) is None
    noise = cut.draw(st.text(min_size=1, max_size=20).filter(str.strip))
    assert parse_marker(line[:end] + noise + line[end:]) in (None, RESULT)
    assert parse_marker(line + noise) is None


@pytest.mark.parametrize(
    "line",
    ["", "hello", "DELTALITE-RESULT", "DELTALITE-RESULT 00000000 {}", "DELTALITE-ERROR zz {}", "DELTALITE-RESULT  "],
)
def test_a_line_of_anything_else_is_no_marker(line):
    assert parse_marker(line) is None


MERGE_METRICS = """
numSourceRows numTargetRowsInserted numTargetRowsUpdated numTargetRowsDeleted numTargetRowsCopied numOutputRows
numTargetRowsMatchedUpdated numTargetRowsMatchedDeleted numTargetRowsNotMatchedBySourceUpdated
numTargetRowsNotMatchedBySourceDeleted numTargetFilesAdded numTargetFilesRemoved numTargetBytesAdded
numTargetBytesRemoved numTargetChangeFilesAdded numTargetDeletionVectorsAdded numTargetDeletionVectorsRemoved
numTargetDeletionVectorsUpdated executionTimeMs materializeSourceTimeMs scanTimeMs rewriteTimeMs
""".split()  # noqa: SIM905  a list of names reads best as text


def test_a_merge_of_a_large_table_still_says_all_its_metrics():
    app_id = "airflow-production/customers_upsert/merge_the_changes/117/scheduled__2026-01-01T00:00:00+00:00"
    merged = replace(
        RESULT,
        table="abfss://lake@account.dfs.core.windows.net/gold/customers",
        operation="MERGE",
        app_id=app_id,
        metrics={name: 123_456_789_012 + 7_919 * at for at, name in enumerate(MERGE_METRICS)},
    )
    line = result_marker(merged)
    assert len(line.encode()) <= MARKER_BYTES < len(json.dumps(merged.as_dict()))
    assert parse_marker(line) == parse_marker(f"26/01/01 INFO Hook: {line}\r\n") == merged
    assert parse_marker(line[:-1]) is None


def test_a_result_that_is_too_long_for_a_line_is_left_to_the_log():
    long = replace(RESULT, table="/lake/" + "".join(chr(0x4E00 + 37 * n % 20_000) for n in range(MARKER_BYTES)))
    assert result_marker(long) is None
    fitting = OperationResult(**{**RESULT.as_dict(), "table": "/" + "x" * 500})
    assert len(result_marker(fitting).encode()) <= MARKER_BYTES


@given(message=st.text(max_size=2000), repeat=st.integers(1, 3))
def test_an_error_always_fits_its_line_and_begins_with_its_message(message, repeat):
    line = error_marker("SourceError", message * repeat)
    assert len(line.encode()) <= MARKER_BYTES and "\n" not in line
    error = parse_marker(line)
    assert error.kind == "SourceError"
    assert error.message == message * repeat or (message * repeat).startswith(error.message.removesuffix(" ..."))


def test_a_message_of_megabytes_is_cut_at_once():
    assert len(parse_marker(error_marker("SourceError", "ü" * 5_000_000)).message) > 50


def test_an_error_that_quotes_a_marker_is_still_one_error():
    quoted = f"The job said {result_marker(RESULT)[:200]}"
    assert parse_marker(error_marker("SourceError", quoted)) == JobError(kind="SourceError", message=quoted)
    assert parse_marker(error_marker("DELTALITE-RESULT", "DELTALITE-ERROR")).message == "DELTALITE-ERROR"


def test_a_job_tells_its_application_in_a_line_that_is_no_result():
    started = JobStarted(application_id="application_1_2", ui_url=None)
    line = started_marker(started)
    assert parse_started(f"noise {line}\n") == started
    assert parse_marker(line) is None
    assert parse_started(line.replace("_1_2", "_1_3")) is None, "a torn line is none"
    assert parse_started("DELTALITE-STARTED") is None
