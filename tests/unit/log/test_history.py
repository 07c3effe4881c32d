"""The history of a table shows the times that time travel uses."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime

import pytest

from deltalite import DeltaTable
from deltalite.errors import CorruptLogError
from deltalite.log import action_files
from deltalite.log.commit_times import InCommitSettings, in_commit_settings
from deltalite.log.history import read_history
from deltalite.protocol.file_names import commit_name
from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from tests.unit.builders import NOON_MS, RequestLog, add, append_files, commit_info, create, new_store, put_raw


def times(store, in_commit):
    """The version and the timestamp of each entry, newest first."""
    return [
        (entry["version"], entry["timestamp"]) for entry in read_history(store, up_to_version=9, in_commit=in_commit)
    ]


class CountingFile(io.BytesIO):
    """An open file that counts the bytes that were read."""

    def __init__(self, data, read_bytes):
        super().__init__(data)
        self._read_bytes = read_bytes

    def read(self, size=-1):
        data = super().read(size)
        self._read_bytes.append(len(data))
        return data


def moment(milliseconds):
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC)


def test_the_history_has_in_commit_timestamps_and_otherwise_file_times():
    store = append_files(create(new_store()), 1)
    put_raw(store, 2, [commit_info(inCommitTimestamp=NOON_MS + 7, timestamp=1, operation="WRITE")])
    file_times = times(store, None)
    assert times(store, InCommitSettings(first_version=2, enabled_at_ms=NOON_MS + 7)) == [
        (2, moment(NOON_MS + 7)),
        *file_times[1:],
    ]
    assert file_times[0] == (2, moment(store.files[max(store.files)][1]))


def test_the_history_fails_at_a_commit_without_its_timestamp():
    store = create(new_store())
    put_raw(store, 1, [commit_info(timestamp=1)])
    put_raw(store, 2, [commit_info(inCommitTimestamp=NOON_MS)])
    entries = read_history(store, up_to_version=2, in_commit=InCommitSettings())
    assert next(entries)["version"] == 2
    with pytest.raises(CorruptLogError, match=f"{1:020}.json"):
        next(entries)


def test_the_history_reads_only_the_provenance_of_a_large_commit(monkeypatch):
    monkeypatch.setattr(action_files, "_BLOCK_BYTES", 500)
    store = create(new_store())
    put_raw(store, 1, [commit_info(operation="WRITE"), *(add(f"f{n}") for n in range(100))])
    read_bytes = []
    monkeypatch.setattr(store, "open", lambda name: CountingFile(store.files[name][0], read_bytes))
    requests = RequestLog(store)
    assert next(read_history(store, up_to_version=1))["operation"] == "WRITE"
    assert sum(read_bytes) == 500
    assert [operation for operation, _ in requests.accesses] == ["list"]


def test_the_history_ignores_malformed_actions_after_the_provenance():
    store = create(new_store())
    put_raw(store, 1, b'{"commitInfo":{"operation":"X"}}\n{"add"')
    assert next(read_history(store, up_to_version=1))["operation"] == "X"


def test_the_history_ends_at_a_commit_that_vanishes():
    store = append_files(create(new_store()), 3)
    entries = read_history(store, up_to_version=3)
    assert next(entries)["version"] == 3
    for version in range(3):
        store.delete(commit_name(version))
    assert list(entries) == []


@pytest.mark.parametrize("name", ["uniform_hudi", "in_commit_timestamp_history_read"])
def test_the_history_of_tables_of_other_engines_has_their_times(golden, name):
    expected = json.loads((golden / "expected" / "trino" / "deltalake" / name / "meta.json").read_text())
    store = LocalLogStore(str(golden / "tables" / "trino" / "deltalake" / name))
    latest = Snapshot.load(store)
    times_by_version = dict(times(store, in_commit_settings(latest.protocol, latest.metadata)))
    table = DeltaTable(store.root)
    assert times_by_version == {entry["version"]: entry["timestamp"] for entry in table.history()}
    assert table.detail()["lastModified"] == times_by_version[latest.version]
    assert len(times_by_version) == latest.version + 1
    for version, time_ms in expected["in_commit_timestamps"].items():
        assert times_by_version[int(version)] == moment(time_ms)
