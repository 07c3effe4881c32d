"""The reader summarizes a commit with very long lines in bounded memory, with the same result as from whole lines."""

from __future__ import annotations

import errno
import io
import json
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltalite.conditions import CommitCondition, LogPosition
from deltalite.errors import CorruptLogError, StorageError, VersionGapError
from deltalite.log import bounded_actions, following
from deltalite.log.bounded_actions import WHOLE_LINE_BYTES, read_bounded_actions
from deltalite.log.following import summarize, summary_at
from deltalite.protocol.actions import iter_raw_actions
from deltalite.protocol.file_names import checkpoint_name, commit_name
from deltalite.watch import Commit, Gap, follow, poll, table_id, with_complete_summaries
from tests.unit.builders import add, commit_info, create, metadata, new_store, put_raw, txn

ANY_COMMIT = CommitCondition(data_change_only=False)
LONG_TEXT = 'x\\"é{}[],:' * 20_000


class RecordingFile:
    """A file that records the size of each read."""

    def __init__(self, data: bytes) -> None:
        self.reads: list[int] = []
        self._file = pa.BufferReader(data)

    def read(self, size: int) -> bytes:
        self.reads.append(size)
        return self._file.read(size)


def store_with_commit(*lines: dict | bytes):
    store = create(new_store())
    put_raw(store, 1, b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines))
    return store


ADD = {"path": "a", "size": 1, "modificationTime": 1, "dataChange": True, "partitionValues": {"day": "1"}}
LONG_LINES = {
    "statistics": {"add": {"stats": LONG_TEXT, **ADD}},
    "a list": {"add": {"junk": [[1, "]"], {"a": "}"}] * 20_000, **ADD}},
    "an object": {"add": {"tags": {f"k{n}": "v" * 20 for n in range(9_000)}, **ADD}},
    "many fields": {"add": {**{f"f{n}": n for n in range(20_000)}, **ADD}},
    "provenance": {
        "commitInfo": {"operationParameters": {"predicate": LONG_TEXT}, "operation": "MERGE", "timestamp": 7}
    },
    "a schema": {"metaData": {"schemaString": LONG_TEXT, "id": "t2", "partitionColumns": []}},
    "an unknown kind": {"later": {"x": LONG_TEXT}},
    "an unknown kind that is a list": {"later": [LONG_TEXT]},
    "nothing": {"remove": None, "later": {"x": LONG_TEXT}},
    "two kinds": {"txn": {"appId": "run", "version": 1}, "commitInfo": {"x": LONG_TEXT, "operation": "WRITE"}},
}


@pytest.mark.parametrize("line", [pytest.param(line, id=name) for name, line in LONG_LINES.items()])
@pytest.mark.parametrize("chunk", [1021, 64 * 1024])
def test_a_long_line_has_the_summary_of_the_whole_line(line, chunk, monkeypatch):
    monkeypatch.setattr(bounded_actions, "_CHUNK_BYTES", chunk)
    store = store_with_commit(line)
    data = store.files[commit_name(1)][0] + b"\n" + json.dumps({"txn": {"appId": "after", "version": 0}}).encode()
    put_raw(store, 2, data)
    assert len(data) > WHOLE_LINE_BYTES
    whole_line_actions = [
        (kind, body)
        for action in map(json.loads, data.splitlines())
        for kind, body in action.items()
        if isinstance(body, dict) and kind != "later"
    ]
    summary = summarize(2, read_bounded_actions(store, commit_name(2)))
    assert summary == summarize(2, whole_line_actions)


def test_a_condition_on_the_dag_run_matches_a_commit_with_a_long_provenance():
    run = {"dag_id": "load", "task_id": "write", "run_id": "r" * 10_000}
    operation = {"operation": "MERGE", "timestamp": 7, "operationParameters": {"predicate": "x" * 60_000}}
    store = store_with_commit({"commitInfo": {**operation, "userMetadata": json.dumps(run)}})
    condition = CommitCondition(data_change_only=False, made_by={"dag_id": "load", "task_id": "write"})
    assert poll(store, LogPosition(version=0), condition).match is not None


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    ),
    st.integers(1, 40),
)
def test_the_scanner_reads_any_json_in_chunks_of_any_size(value, size):
    raw = json.dumps({"add": {"x": value, **ADD}}, ensure_ascii=False).encode()
    chunks = [raw[offset : offset + size] for offset in range(0, len(raw), size)]
    ((kind, body),) = bounded_actions._LongLine(iter(chunks), "line 1").actions()
    assert (kind, body) == ("add", {"x": value, **ADD})


def test_the_reader_reads_one_chunk_at_a_time_and_parses_one_field_at_a_time(monkeypatch):
    store = store_with_commit({"add": {"stats": "x" * 5_000_000, **ADD}})
    recording_file = RecordingFile(store.files[commit_name(1)][0])

    @contextmanager
    def opened(_name):
        yield recording_file

    parsed_lengths = []
    parse_json = json.loads
    monkeypatch.setattr(store, "open", opened)
    monkeypatch.setattr(json, "loads", lambda text: parsed_lengths.append(len(text)) or parse_json(text))
    monkeypatch.setattr(store, "read", None)
    match = poll(store, LogPosition(version=0), ANY_COMMIT).match
    assert (match.data_changed, match.version) == (True, 1)
    assert set(recording_file.reads) == {64 * 1024}
    assert max(parsed_lengths) <= WHOLE_LINE_BYTES


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"add": {"path": "' + b"x" * 300_000 + b'"}}', "`path` of the add in line 1"),
        (b'{"add": {"x": "' + b"x" * 300_000, "the line is incomplete"),
        (b'["' + b"x" * 300_000 + b'"]', "it is not an object"),
        (b'{"' + b"x" * 300_000 + b'": 1}', "a key has more than 1024 bytes"),
        (b'{"add": {"x": "' + b"x" * 300_000 + b'" 1}}', "a comma is missing"),
        (b'{"later": {"x": "' + b"x" * 300_000 + b'"}} 1', "there is text after the object"),
        (b'{"add": [' + b'"x",' * 100_000 + b"1]}", "The add in line 1"),
        (b'{"add": {"path": ' + b"[" * 100_000, "the line is incomplete"),
        (b'{"txn": {"version": 1' + b"1" * 300_000 + b"}}", "`version` of the txn in line 1"),
    ],
)
def test_the_error_names_the_position_of_a_malformed_long_line(line, problem):
    store = store_with_commit(line)
    with pytest.raises(CorruptLogError, match=problem) as caught:
        poll(store, LogPosition(version=0), ANY_COMMIT)
    assert f"{1:020}.json" in str(caught.value) and len(str(caught.value)) < 2_000


def test_lines_before_and_after_a_long_line_are_read():
    lines = [{"txn": {"appId": name, "version": 0}} for name in "ab"]
    store = store_with_commit(lines[0], {"add": {"stats": LONG_TEXT, **ADD}}, lines[1])
    data = store.files[commit_name(1)][0]
    assert next(iter_raw_actions(data, "x")) == ("txn", {"appId": "a", "version": 0})
    (step,) = follow(store, LogPosition(version=0))
    assert step.summary.app_ids == {"a", "b"}


@pytest.fixture
def store_with_crowded_commit(monkeypatch):
    """A table whose commit 1 has more partitions and app ids than a summary holds."""
    monkeypatch.setattr(following, "_MAX_PARTITIONS", 5)
    monkeypatch.setattr(following, "_MAX_APP_IDS", 5)
    store = create(new_store())
    files = [add(f"f{n}", partition_values={"day": str(n)}) for n in range(20)]
    put_raw(store, 1, [commit_info(operation="WRITE"), *files, *(txn(f"run-{n}") for n in range(20))])
    return store


def test_the_summary_of_a_crowded_commit_is_marked_incomplete(store_with_crowded_commit):
    (step,) = follow(store_with_crowded_commit, LogPosition(version=0))
    assert (len(step.summary.partitions), len(step.summary.app_ids), step.summary.is_complete) == (5, 5, False)


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ({"partition": {"DAY": "19"}}, True),
        ({"partition": {"day": "20"}}, False),
        ({"app_id": "run-19"}, True),
        ({"app_id": "run-20"}, False),
        ({"exclude_app_ids": ["run-19"]}, False),
        ({"exclude_app_ids": ["run-2?"]}, True),
        ({"app_id": "run-19", "exclude_app_ids": ["run-*"]}, False),
        ({}, True),
    ],
)
def test_a_condition_on_a_crowded_commit_is_answered_exactly(store_with_crowded_commit, condition, holds):
    condition = CommitCondition(**condition)
    assert (poll(store_with_crowded_commit, LogPosition(version=0), condition).match is not None) is holds
    (step,) = with_complete_summaries(
        store_with_crowded_commit, tuple(follow(store_with_crowded_commit, LogPosition(version=0))), condition
    )
    assert condition.holds_for(step.summary) is holds
    assert condition.holds_for(summary_at(store_with_crowded_commit, 1, condition)) is holds


def test_a_crowded_commit_that_vanishes_before_the_second_read_is_a_gap(store_with_crowded_commit):
    steps = tuple(follow(store_with_crowded_commit, LogPosition(version=0)))
    del store_with_crowded_commit.files[commit_name(1)]
    (step,) = with_complete_summaries(store_with_crowded_commit, steps, CommitCondition(app_id="run-1"))
    assert isinstance(steps[0], Commit) and isinstance(step, Gap) and (step.first, step.last) == (1, 1)


def test_the_id_of_a_table_is_read_from_a_commit_with_a_long_line():
    store = store_with_commit({"metaData": {"id": "other", "schemaString": LONG_TEXT, "partitionColumns": []}})
    assert table_id(store) == "other"


def test_a_checkpoint_hint_of_any_size_does_not_stop_a_reader():
    store = store_with_commit(b"")
    store.files["_delta_log/_last_checkpoint"] = (b'{"version":0,"x":"' + b"x" * 2_000_000 + b'"}', 0)
    requested = []
    read_start = store.read_start
    store.read_start = lambda name, size: requested.append(size) or read_start(name, size)
    assert table_id(store) == metadata().id
    assert max(requested) <= 1024 * 1024 + 1


@pytest.mark.parametrize("part", ["footer", "page", "magic number"])
def test_a_damaged_checkpoint_has_no_readable_table_id(part):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"metaData": pa.array([{"id": "stored"}])}), sink)
    data = sink.getvalue().to_pybytes()
    footer_start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    start, end = {"footer": (footer_start, -8), "page": (4, 30), "magic number": (-4, len(data))}[part]
    store = new_store()
    store.files[checkpoint_name(1)] = (data, 0)
    assert table_id(store) == "stored"
    store.files[checkpoint_name(1)] = (data[:start] + b"\xff" * len(data[start:end]) + data[end:], 0)
    assert table_id(store) is None


@pytest.mark.parametrize(
    ("fault", "error"),
    [(OSError(errno.EIO, "broken disk"), StorageError), (FileNotFoundError("deleted"), VersionGapError)],
    ids=["broken disk", "deleted file"],
)
def test_a_failed_read_of_a_checkpoint_is_an_error(fault, error):
    store = new_store()
    store.files[checkpoint_name(1)] = (b"PAR1" * 4, 0)

    class FailingFile(io.BytesIO):
        def read(self, _size=-1):
            raise fault

    @contextmanager
    def open_failing(_name):
        yield pa.PythonFile(FailingFile(b"PAR1" * 4), mode="r")

    store.open = open_failing
    with pytest.raises(error):
        table_id(store)
