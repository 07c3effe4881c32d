"""A JSON file of the log is read in blocks of whole lines, for any size of the file and of a line."""

from __future__ import annotations

import json
import subprocess
import sys

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltalite.errors import CorruptLogError, StorageError, StoragePermissionError, VersionGapError
from deltalite.log import action_files
from deltalite.log.action_files import FileTableBuilder, actions_in, read_actions, read_blocks
from deltalite.log.file_table import ADD_TYPES, REMOVE_TYPES
from deltalite.protocol.actions import AddFile, RemoveFile, iter_raw_actions
from tests.unit.builders import RequestLog, new_store


def store_with(data):
    """A store with one log file, `x.json`."""
    store = new_store()
    store.files["_delta_log/x.json"] = (data, 0)
    return store


@given(data=st.binary(max_size=200), newlines=st.lists(st.integers(0, 200), max_size=8), size=st.integers(1, 64))
def test_blocks_have_whole_lines_and_concatenate_to_the_file(data, newlines, size):
    for position in newlines:
        data = data[:position] + b"\n" + data[position:]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(action_files, "_BLOCK_BYTES", size)
        blocks = list(read_blocks(store_with(data), "_delta_log/x.json"))
    assert b"".join(blocks) == data
    assert all(block.endswith(b"\n") for block in blocks[:-1])


def content_with_adds(count):
    """The content of a commit that has `count` adds."""
    return b"\n".join(json.dumps({"add": {"path": f"p{n}", "size": n}}).encode() for n in range(count))


@pytest.mark.parametrize("block", [10, 100, 1_000_000])
def test_actions_and_the_numbers_of_bad_lines_do_not_depend_on_the_blocks(monkeypatch, block):
    monkeypatch.setattr(action_files, "_BLOCK_BYTES", block)
    data = content_with_adds(50)
    assert list(read_actions(store_with(data), "_delta_log/x.json")) == list(iter_raw_actions(data, "x"))
    broken_data = data.replace(b'"p37"', b"p37")
    with pytest.raises(CorruptLogError, match=r"Line 38 of _delta_log/x\.json"):
        list(read_actions(store_with(broken_data), "_delta_log/x.json"))


def test_a_large_file_is_streamed_and_a_small_file_is_read_whole(monkeypatch):
    monkeypatch.setattr(action_files, "_BLOCK_BYTES", 100)
    data = content_with_adds(50)
    store = store_with(data)
    requests = RequestLog(store)
    list(read_blocks(store, "_delta_log/x.json", len(data)))
    list(read_blocks(store, "_delta_log/x.json"))
    assert [operation for operation, _ in requests.accesses] == ["open", "open"]
    requests.accesses.clear()
    list(read_blocks(store_with(data[:100]), "_delta_log/x.json", 100))
    assert "open" not in {operation for operation, _ in requests.accesses}


def test_a_line_without_an_end_is_refused_before_it_fills_the_memory(monkeypatch):
    monkeypatch.setattr(action_files, "_BLOCK_BYTES", 100)
    monkeypatch.setattr(action_files, "_LONGEST_LINE_BYTES", 1000)
    assert list(read_actions(store_with(b'{"x":{"y":"' + b"z" * 900 + b'"}}'), "_delta_log/x.json"))
    with pytest.raises(CorruptLogError, match="a line of more than 1000 bytes"):
        list(read_blocks(store_with(b"z" * 1200), "_delta_log/x.json"))


@pytest.mark.parametrize("size", [None, 5])
def test_a_missing_file_raises_a_version_gap_error(size):
    with pytest.raises(VersionGapError, match=r"x\.json of memory://table was deleted while"):
        list(read_blocks(new_store(), "_delta_log/x.json", size))


@pytest.mark.parametrize(
    ("error", "raised"),
    [(PermissionError, StoragePermissionError), (NotADirectoryError, VersionGapError), (OSError, StorageError)],
)
def test_a_permission_error_a_missing_folder_and_a_storage_failure_raise_different_errors(error, raised):
    store = new_store()

    def fail(operation, name):
        raise error(name)

    store.before = fail
    with pytest.raises(raised, match=r"x\.json of memory://table"):
        list(read_blocks(store, "_delta_log/x.json"))


def test_the_actions_before_a_malformed_line_are_yielded_first():
    actions = read_actions(store_with(b'{"a":{}}\n{"b"'), "_delta_log/x.json")
    assert next(actions) == ("a", {})
    with pytest.raises(CorruptLogError, match="Line 2"):
        next(actions)


@pytest.mark.parametrize(("cls", "types"), [(AddFile, ADD_TYPES), (RemoveFile, REMOVE_TYPES)])
@pytest.mark.parametrize(("max_bodies", "block_bytes"), [(3, 10**6), (10**6, 100)])
def test_the_builder_converts_a_few_bodies_at_a_time_to_a_table(monkeypatch, cls, types, max_bodies, block_bytes):
    monkeypatch.setattr(action_files, "_MAX_BODIES", max_bodies)
    monkeypatch.setattr(action_files, "_BLOCK_BYTES", block_bytes)
    builder = FileTableBuilder(cls)
    assert builder.table().schema == pa.schema(list(types.items()))
    for number in range(10):
        builder.append({"path": f"p{number}", "size": number, "novelty": {}})
        builder.end_block("x", 60)
        assert len(builder._bodies) < 3
    assert builder.table()["path"].to_pylist() == [f"p{number}" for number in range(10)]
    assert builder.table().num_rows == 10


@pytest.mark.parametrize("first", [{"path": "a"}, {"path": "a", "partitionValues": {"a": None}}])
def test_the_error_names_the_file_of_a_malformed_body(first):
    builder = FileTableBuilder(AddFile)
    for body, name in ((first, "first.json"), ({"path": "a", "size": "x"}, "second.json"), (first, "third.json")):
        builder.append(body)
        builder.end_block(name, 1)
    with pytest.raises(CorruptLogError, match=r"second\.json contains an invalid add action: `size` is 'x'"):
        builder.table()


# Malformed and unusual contents. The fast parser leaves most of them to the slow parser.
UNUSUAL_CONTENTS = [
    b"", b"\n", b"\n\n", b" ", b'{"a":{}}\n\n{"b":{}}', b' {"a":{}}', b'{"a":{}} ', b'{"a":{}}\r\n{"b":{}}\r\n',
    b'{"a":{},"b":{}}', b'{"a":null}', b'{"a":null,"b":{}}', b"{}", b'\xef\xbb\xbf{"a":{}}',
    b'{"a":{"x":"\xed\xa0\x80"}}', b'{"a":\n{}}', b'{"a":{}}{"b":{}}', b'{"a":{}},{"b":{}}', b'[{"a":{}}]', b'{"a":[]}',
    b'{"a":1}', b"1", b"x", b"{", b'{"a":{}}\n{', b"\xff", b'{"a":' + b"[" * 100_000, b'{"a":{}}\x00',
    b'{"add":1}', b'{"txn":[]}\n{"a":{}}', b'{"a":1}\n{"add":{}}',
]  # fmt: skip


def actions_or_problem(read):
    try:
        return list(read())
    except CorruptLogError as error:
        return error.problem


@pytest.mark.parametrize("data", UNUSUAL_CONTENTS, ids=lambda data: repr(data[:30]))
def test_the_fast_and_the_slow_parser_accept_and_reject_the_same_lines(data):
    expected = actions_or_problem(lambda: iter_raw_actions(data, "_delta_log/x.json"))
    assert actions_or_problem(lambda: read_actions(store_with(data), "_delta_log/x.json")) == expected
    assert actions_or_problem(lambda: actions_in(data, "_delta_log/x.json")) == expected


@pytest.mark.parametrize(
    "vector", [{"storageType": "\ud800"}, {"storageType": 1}, {"offset": "x"}, {"offset": 2**31}, {"cardinality": []}]
)
def test_the_error_names_a_fault_that_only_arrow_finds(vector):
    builder = FileTableBuilder(AddFile)
    builder.append({"path": "a", "deletionVector": vector})
    builder.end_block("x.json", 1)
    with pytest.raises(CorruptLogError, match=r"x\.json contains an invalid add action"):
        builder.table()


_REPLAY = """
import sys
from deltalite.log.state import LogState
from deltalite.storage.local import LocalLogStore
def peak_kib():  # VmHWM counts this process only; ru_maxrss begins with the peak of the parent
    status = open("/proc/self/status").read()
    return int(status.split("VmHWM:")[1].split()[0])
before = peak_kib()
files = LogState.open(LocalLogStore(sys.argv[1])).files(["path", "size", "stats"])
print(files.num_rows, peak_kib() - before)
"""


@pytest.mark.slow
def test_the_replay_of_a_large_commit_needs_less_than_six_times_its_size_in_memory(tmp_path):
    """If the replay kept all actions as Python objects, its memory would exceed this limit."""
    log = tmp_path / "_delta_log"
    log.mkdir()
    table_metadata = {"id": "x", "format": {}, "partitionColumns": [], "configuration": {}}
    table_metadata["schemaString"] = json.dumps({"type": "struct", "fields": []})
    stats = json.dumps({"numRecords": 1, "minValues": {f"c{n}": n for n in range(10)}})
    with (log / f"{0:020d}.json").open("w") as file:
        file.write(json.dumps({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}) + "\n")
        file.write(json.dumps({"metaData": table_metadata}) + "\n")
        for number in range(100_000):
            body = {"path": f"part-{number:06d}.parquet", "partitionValues": {"day": "d", "hour": str(number)}}
            file.write(json.dumps({"add": {**body, "size": 1, "stats": stats}}) + "\n")
        size_bytes = file.tell()
    process = subprocess.run([sys.executable, "-c", _REPLAY, str(tmp_path)], capture_output=True, text=True, check=True)
    count, extra_kib = map(int, process.stdout.split())
    assert count == 100_000
    assert extra_kib * 1024 < 6 * size_bytes
