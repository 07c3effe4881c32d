"""A worker accepts complete markers in the output of a job and ignores incomplete ones."""

from __future__ import annotations

import hashlib
import json
import tracemalloc
import zlib
from base64 import b64encode
from bisect import bisect_left
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltalite.markers import MAX_MARKER_BYTES, error_marker, nonce_of, parse_marker, result_marker, started_marker
from deltalite.results import AuditResult, JobError, JobStarted, OperationResult

RESULT = OperationResult(
    table="/lake/ü orders", operation="WRITE", version=3, read_version=2, committed=True, skipped=False,
    app_id='a/"b"', txn_version=0, timestamp=1_700_000_000_000, metrics={"numFiles": 1, "numOutputRows": 12},
)  # fmt: skip


def test_a_result_survives_its_marker_line_and_json():
    line = result_marker(RESULT)
    assert "\n" not in line and parse_marker(line) == RESULT
    assert OperationResult.from_dict(json.loads(json.dumps(RESULT.as_dict()))) == RESULT


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_any_line_ending_is_accepted(end):
    assert parse_marker(result_marker(RESULT) + end) == RESULT


@pytest.mark.parametrize("begin", [" ", "26/01/01 12:00:00 INFO SparkSubmitHook: ", "DELTALITE-RESULT ", "id,"])
def test_a_marker_counts_only_at_the_beginning_of_a_line(begin):
    assert parse_marker(begin + result_marker(RESULT)) is None


STARTED = JobStarted(application_id="application_1_2", ui_url="http://w:4040")


@pytest.mark.parametrize(
    "make_marker",
    [
        lambda nonce: result_marker(RESULT, nonce),
        lambda nonce: error_marker("SourceError", "m", nonce=nonce),
        lambda nonce: started_marker(STARTED, nonce),
    ],
    ids=["result", "error", "started"],
)
def test_a_marker_counts_only_with_the_nonce_of_the_request(make_marker):
    assert parse_marker(make_marker("a1b2"), "a1b2") is not None
    for wrong_nonce in ("-", "a1b", "a1b22", "ü"):
        assert parse_marker(make_marker("a1b2"), wrong_nonce) is None
        assert parse_marker(make_marker(wrong_nonce), "a1b2") is None


@pytest.mark.parametrize(
    "text", ["", "no JSON", "[]", "{}", '{"nonce": 1}', '{"nonce": ""}', '{"nonce": "a b"}', "[" * 9999]
)
def test_a_request_without_a_valid_nonce_has_a_dash_as_its_nonce(text):
    assert nonce_of(text) == "-"


def test_the_nonce_of_a_request_is_read_from_its_json():
    assert nonce_of('{"table": "/t", "nonce": "a1b2"}') == "a1b2"


def forged_marker(prefix: str, text: str) -> str:
    """A marker in the correct format, as an attacker can write it. `text` is its content."""
    return f"{prefix} - {zlib.crc32(text.encode()):08x} {text}"


def compress(text: bytes) -> str:
    return b64encode(zlib.compress(text, 9)).decode()


@pytest.mark.parametrize(
    "line",
    [
        forged_marker("DELTALITE-RESULT", compress(b" " * 600_000)),
        forged_marker(
            "DELTALITE-RESULT", compress(json.dumps(RESULT.as_dict() | {"metrics": {"n" * 70_000: 1}}).encode())
        ),
        forged_marker("DELTALITE-RESULT", b64encode(b"not zlib").decode()),
        forged_marker("DELTALITE-RESULT", compress(b"x")[:-8] + "===="),
        forged_marker("DELTALITE-RESULT", compress(b"[" * 60_000)),
        forged_marker("DELTALITE-RESULT", "{" + '"a":[' * 100),
        forged_marker("DELTALITE-RESULT", compress(b"[1]")),
        forged_marker("DELTALITE-RESULT", "{}"),
        forged_marker("DELTALITE-RESULT", '{"table": "/t"}'),
        forged_marker("DELTALITE-RESULT", json.dumps(RESULT.as_dict() | {"version": "4"})),
        forged_marker("DELTALITE-RESULT", json.dumps(RESULT.as_dict() | {"committed": 1})),
        forged_marker("DELTALITE-RESULT", json.dumps(RESULT.as_dict() | {"metrics": {"numFiles": "1"}})),
        forged_marker("DELTALITE-RESULT", json.dumps(RESULT.as_dict() | {"metrics": [1]})),
        forged_marker("DELTALITE-RESULT", json.dumps(RESULT.as_dict() | {"table": None})),
        forged_marker("DELTALITE-ERROR", '{"kind": "E"}'),
        forged_marker("DELTALITE-ERROR", '{"kind": ["E"], "message": "m"}'),
        forged_marker("DELTALITE-ERROR", '{"kind": "E", "message": "m", "more": 1}'),
        forged_marker("DELTALITE-STARTED", '{"application_id": "a"}'),
        forged_marker("DELTALITE-STARTED", '{"application_id": "../../logout", "ui_url": null}'),
        forged_marker("DELTALITE-STARTED", '{"application_id": "app-1", "ui_url": 4}'),
        forged_marker("DELTALITE-STARTED", '"app-1"'),
        forged_marker("DELTALITE-STARTED", "null"),
        "DELTALITE-RESULT \ud800 00000000 {}",
        result_marker(RESULT) + " " * MAX_MARKER_BYTES,
    ],
)
def test_a_malformed_marker_is_an_ordinary_line(line):
    assert parse_marker(line) is None


def test_a_line_that_expands_to_megabytes_is_not_decompressed():
    bomb = compress(b" " * 50_000_000)
    tracemalloc.start()
    try:
        for line in (
            forged_marker("DELTALITE-RESULT", bomb),
            forged_marker("DELTALITE-RESULT", compress(b" " * 600_000)),
        ):
            assert parse_marker(line) is None
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


@given(
    st.text(max_size=MAX_MARKER_BYTES), st.sampled_from(["DELTALITE-RESULT", "DELTALITE-ERROR", "DELTALITE-STARTED"])
)
def test_no_line_raises_an_error(text, prefix):
    for line in (text, forged_marker(prefix, text.encode("utf-8", "replace").decode())):
        assert parse_marker(line) is None


@given(data=st.data())
def test_a_truncated_line_is_not_a_marker(data):
    line = result_marker(RESULT)
    end = data.draw(st.integers(0, len(line) - 1))
    assert parse_marker(line[:end]) is None
    noise = data.draw(st.text(min_size=1, max_size=20).filter(str.strip))
    assert parse_marker(line[:end] + noise + line[end:]) in (None, RESULT)
    assert parse_marker(line + noise) is None


@pytest.mark.parametrize(
    "line",
    ["", "hello", "DELTALITE-RESULT", "DELTALITE-RESULT 00000000 {}", "DELTALITE-ERROR zz {}", "DELTALITE-RESULT  "],
)
def test_any_other_line_is_not_a_marker(line):
    assert parse_marker(line) is None


MERGE_METRICS = """
numSourceRows numTargetRowsInserted numTargetRowsUpdated numTargetRowsDeleted numTargetRowsCopied numOutputRows
numTargetRowsMatchedUpdated numTargetRowsMatchedDeleted numTargetRowsNotMatchedBySourceUpdated
numTargetRowsNotMatchedBySourceDeleted numTargetFilesAdded numTargetFilesRemoved numTargetBytesAdded
numTargetBytesRemoved numTargetChangeFilesAdded numTargetDeletionVectorsAdded numTargetDeletionVectorsRemoved
numTargetDeletionVectorsUpdated executionTimeMs materializeSourceTimeMs scanTimeMs rewriteTimeMs
""".split()  # noqa: SIM905  a list of names reads best as text


def test_the_marker_of_a_large_merge_has_all_metrics():
    app_id = "airflow-production/customers_upsert/merge_the_changes/117/scheduled__2026-01-01T00:00:00+00:00"
    merge_result = replace(
        RESULT,
        table="abfss://lake@account.dfs.core.windows.net/gold/customers",
        operation="MERGE",
        app_id=app_id,
        metrics={name: 123_456_789_012 + 7_919 * index for index, name in enumerate(MERGE_METRICS)},
    )
    line = result_marker(merge_result)
    assert len(line.encode()) <= MAX_MARKER_BYTES < len(json.dumps(merge_result.as_dict()))
    assert parse_marker(line) == parse_marker(f"{line}\r\n") == merge_result
    assert parse_marker(line[:-1]) is None


def test_a_result_that_is_too_long_for_a_line_is_not_printed():
    long_result = replace(
        RESULT, table="/lake/" + "".join(chr(0x4E00 + 37 * n % 20_000) for n in range(MAX_MARKER_BYTES))
    )
    assert result_marker(long_result) is None
    short_result = OperationResult(**{**RESULT.as_dict(), "table": "/" + "x" * 500})
    assert len(result_marker(short_result).encode()) <= MAX_MARKER_BYTES


@given(message=st.text(max_size=2000), repeat=st.integers(1, 3))
def test_an_error_marker_fits_a_line_and_begins_with_its_message(message, repeat):
    line = error_marker("SourceError", message * repeat)
    assert len(line.encode()) <= MAX_MARKER_BYTES and "\n" not in line
    error = parse_marker(line)
    assert error.kind == "SourceError"
    assert error.message == message * repeat or (message * repeat).startswith(error.message.removesuffix(" ..."))


def test_a_message_of_megabytes_is_truncated_quickly():
    assert len(parse_marker(error_marker("SourceError", "ü" * 5_000_000)).message) > 50


def test_the_message_is_truncated_before_the_remedy():
    error = parse_marker(error_marker("SourceError", "x" * 2000 + " Do this.", remedy="Do this."))
    assert error.remedy == "Do this." and error.message.endswith(" ...")
    assert parse_marker(error_marker("SourceError", "m", remedy="y" * 2000)) == JobError(
        kind="SourceError", message="m"
    )


def test_an_error_with_a_marker_in_its_message_is_one_error():
    quoted = f"The job printed {result_marker(RESULT)[:200]}"
    assert parse_marker(error_marker("SourceError", quoted)) == JobError(kind="SourceError", message=quoted)
    assert parse_marker(error_marker("DELTALITE-RESULT", "DELTALITE-ERROR")).message == "DELTALITE-ERROR"


def test_a_job_prints_its_spark_application_in_a_line():
    started = JobStarted(application_id="application_1_2", ui_url=None)
    line = started_marker(started)
    assert parse_marker(f"{line}\n") == started
    assert parse_marker(line.replace("_1_2", "_1_3")) is None, "a damaged line is not a marker"
    assert parse_marker("DELTALITE-STARTED") is None


def test_a_result_has_the_names_of_partitions():
    result = replace(RESULT, partitions=("day=2026-05-01", "day=2026-05-02"))
    assert result.as_dict()["partitions"] == ["day=2026-05-01", "day=2026-05-02"]
    assert parse_marker(result_marker(result)) == result
    assert parse_marker(result_marker(replace(RESULT, partitions=None))).partitions is None
    assert "partitions" not in RESULT.as_dict()


PHASES = {"start": 8.125, "plan": 0.0, "write": 61.5, "commit": 3}


def test_a_result_has_the_seconds_of_its_phases():
    result = replace(RESULT, phases=PHASES)
    assert result.as_dict()["phases"] == PHASES
    assert parse_marker(result_marker(result)) == OperationResult.from_dict(result.as_dict()) == result
    assert "phases" not in RESULT.as_dict()


@pytest.mark.parametrize(
    "phases",
    [{"write": "1"}, {"write": True}, {"write": None}, {"write": -1}, {"write": float("nan")}, {"write": 1e999}, [1.0]],
)
def test_phases_without_valid_seconds_make_the_marker_invalid(phases):
    assert parse_marker(forged_marker("DELTALITE-RESULT", json.dumps(RESULT.as_dict() | {"phases": phases}))) is None


def test_a_marker_that_is_too_long_omits_the_phases_before_the_partitions():
    noise = "".join(hashlib.sha256(str(number).encode()).hexdigest() for number in range(30))
    partitioned = replace(RESULT, partitions=("country=DE",))

    def is_full(length):
        marker = result_marker(replace(partitioned, table=noise[:length])) or ""
        return len(marker) >= MAX_MARKER_BYTES - 20 or "country=DE" not in str(parse_marker(marker))

    result = replace(partitioned, table=noise[: bisect_left(range(len(noise)), True, key=is_full)])
    assert parse_marker(result_marker(result)) == result
    assert parse_marker(result_marker(replace(result, phases=PHASES))) == result


def test_a_marker_without_the_partitions_has_room_for_the_phases():
    names = tuple(f"country={hashlib.sha256(str(number).encode()).hexdigest()}" for number in range(100))
    result = replace(RESULT, partitions=names, phases=PHASES)
    assert parse_marker(result_marker(result)) == replace(result, partitions=None)


def test_a_marker_that_is_too_long_omits_the_partitions():
    names = tuple(f"country={hashlib.sha256(str(number).encode()).hexdigest()}" for number in range(100))
    marker = result_marker(replace(RESULT, partitions=names))
    assert len(marker) <= MAX_MARKER_BYTES
    assert parse_marker(marker) == replace(RESULT, partitions=None)


def audit_results(count):
    values = {"kind": "rows", "on": "new_rows", "level": "warn", "threshold": "max_rows=0"}
    return tuple(
        AuditResult(name=f"audit {number}", passed=number > 0, measured=number, rows=count, **values)
        for number in range(count)
    )


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"kind": "rows", "measured": 3, "rows": 9}, "measured 3 of 9 rows"),
        ({"kind": "unique", "measured": 3}, "measured 3"),
        ({"kind": "row_count", "measured": 129, "before": 100}, "measured 129 rows (100 rows before)"),
        ({"kind": "row_count", "measured": 129}, "measured 129 rows"),
        ({"kind": "aggregate", "measured": 0.5, "rows": 9}, "measured 0.5"),
        ({"kind": "aggregate", "measured": None}, "no value (no rows, or only NULL)"),
        ({"kind": "freshness", "measured": 3.5, "rows": 9}, "measured 3.5 hours"),
        ({"kind": "rows", "measured": None, "error": "[X] y"}, "no value, because the SQL fails for a row ([X] y)"),
    ],
    ids=str,
)
def test_the_text_of_an_audit_has_the_unit_of_its_value(values, text):
    audit = AuditResult(name="a", on="table", level="fail", passed=False, threshold="max=1", **values)
    assert str(audit) == f"'a' ({audit.kind} on table): {text}, allowed max=1"
    assert AuditResult.from_dict(audit.as_dict()) == audit


def test_a_result_has_the_results_of_audits():
    result = replace(RESULT, audits=audit_results(8))
    assert result.as_dict()["audits"][0] == {
        "name": "audit 0", "kind": "rows", "on": "new_rows", "level": "warn", "passed": False, "measured": 0,
        "threshold": "max_rows=0", "rows": 8,
    }  # fmt: skip
    assert parse_marker(result_marker(result)) == result
    assert "audits" not in RESULT.as_dict()


@pytest.mark.parametrize("partition_count", [0, 1, 100])
def test_a_marker_that_is_too_long_omits_the_audits(partition_count):
    partitions = tuple(f"a={hashlib.sha256(bytes(number)).hexdigest()}" for number in range(partition_count))
    result = replace(RESULT, audits=audit_results(100), partitions=partitions)
    parsed = parse_marker(result_marker(result))
    assert (parsed.version, parsed.metrics, parsed.audits) == (3, RESULT.metrics, None)
    assert parsed.partitions == (None if partition_count == 100 else partitions)
