"""The counts of a checksum that is derived from an earlier checksum equal a count of all files."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltalite.errors import StorageError
from deltalite.log.replay import ReplayedLog
from deltalite.protocol.actions import Protocol
from deltalite.protocol.file_names import checkpoint_name, checksum_name, commit_name
from deltalite.upkeep.checkpoint import write_checkpoint
from deltalite.upkeep.checksum import write_checksum
from deltalite.upkeep.file_counts import FileCounts, counts_after_commit
from deltalite.upkeep.post_commit import after_commit
from tests.support.fuzzing import examples
from tests.unit.builders import (
    NOON_MS,
    PROTOCOL,
    Clock,
    add,
    append_files,
    commit_actions,
    commit_info,
    create,
    load,
    metadata,
    new_store,
    put_raw,
    remove,
    vector,
)

VECTOR_PROTOCOL = Protocol(
    min_reader_version=3,
    min_writer_version=7,
    reader_features=("deletionVectors",),
    writer_features=("deletionVectors",),
)


def checksum_of(store, version):
    return json.loads(store.files[checksum_name(version)][0])


def test_the_checksum_repeats_the_protocol_and_the_metadata_and_counts_the_files():
    store = create(new_store(), add("a", size_bytes=3), add("b", size_bytes=4), configuration={"k": "v"})
    commit_actions(store, remove("a", size_bytes=3))
    assert write_checksum(load(store, 1))
    body = checksum_of(store, 1)
    assert (body["numFiles"], body["tableSizeBytes"], body["numMetadata"], body["numProtocol"]) == (1, 4, 1, 1)
    assert body["protocol"] == {"minReaderVersion": 1, "minWriterVersion": 2}
    assert body["metadata"]["configuration"] == {"k": "v"}
    assert body["txnId"] == load(store, 1).commit_info["txnId"]
    assert not {"inCommitTimestampOpt", "setTransactions", "numDeletedRecordsOpt"} & set(body)


def test_the_checksum_has_the_in_commit_timestamp_if_the_table_has_it():
    protocol = Protocol(min_reader_version=1, min_writer_version=7, writer_features=("inCommitTimestamp",))
    enabled = metadata({"delta.enableInCommitTimestamps": "true"})
    store = new_store()
    put_raw(store, 0, [commit_info(inCommitTimestamp=NOON_MS), protocol, enabled])
    write_checksum(load(store))
    assert checksum_of(store, 0)["inCommitTimestampOpt"] == NOON_MS


KEYS = [
    ("a", None),
    ("b", None),
    ("c", "v"),
    ("d", "w"),
    ("e", None),
]  # each path occurs once, because a commit adds a path at most once
steps = st.lists(st.sets(st.integers(0, len(KEYS) - 1), max_size=3), min_size=1, max_size=8)


@given(steps=steps, data=st.data())
@examples(80)
def test_incremental_and_full_counts_are_equal(steps, data):
    """Each step adds absent files and removes present ones, like commits of this library."""
    store = new_store()
    commit_actions(store, VECTOR_PROTOCOL, metadata(), read_version=-1)
    present_numbers = set()
    for numbers in steps:
        actions = []
        for number in numbers:
            path, encoded_uuid = KEYS[number]
            fields = {
                "size_bytes": number + 1,
                "deletion_vector": vector(encoded_uuid, number) if encoded_uuid else None,
            }
            actions.append(remove(path, **fields) if number in present_numbers else add(path, **fields))
        version = commit_actions(store, *actions) if actions else commit_actions(store)
        present_numbers ^= numbers
        if data.draw(st.booleans(), label="checksum"):
            write_checksum(load(store, version))
    last_version = load(store).version
    store.files.pop(checksum_name(last_version), None)
    write_checksum(load(store))
    body = checksum_of(store, last_version)
    numbers_with_vector = [number for number in present_numbers if KEYS[number][1]]
    assert body["numFiles"] == len(present_numbers)
    assert body["tableSizeBytes"] == sum(number + 1 for number in present_numbers)
    assert body["numDeletionVectorsOpt"] == body["numDeletedRecordsOpt"] == len(numbers_with_vector)


@pytest.fixture
def full_counts(monkeypatch):
    """The versions whose files were counted from the whole log."""
    replayed_versions = []
    all_files = ReplayedLog.files

    def files(self, columns):
        replayed_versions.append(self.segment.version)
        return all_files(self, columns)

    monkeypatch.setattr(ReplayedLog, "files", files)
    return replayed_versions


def test_an_earlier_checksum_avoids_a_full_count(full_counts):
    store = create(new_store(), add("a"))
    write_checksum(load(store, 0))
    append_files(store, 3)
    full_counts.clear()
    write_checksum(load(store, 3))
    assert not full_counts and checksum_of(store, 3)["numFiles"] == 4


@pytest.mark.parametrize(
    "actions",
    [
        [
            commit_info(engineInfo="Apache-Spark/4.0"),
            add("a", data_change=False),
        ],  # the commit adds the same file again
        [add("a")],
        [commit_info(engineInfo="deltalite/0.1"), add("a", data_change=False)],
        [commit_info(engineInfo="deltalite/0.1"), remove("a")],  # the size of the removed file is unknown
    ],
)
def test_unreliable_commits_cause_a_full_count(actions, full_counts):
    store = create(new_store(), add("a"))
    write_checksum(load(store, 0))
    put_raw(store, 1, actions)
    full_counts.clear()
    write_checksum(load(store, 1))
    assert full_counts == [1]
    assert checksum_of(store, 1)["numFiles"] == load(store).files.num_rows


def test_a_vector_without_a_number_of_rows_makes_the_counts_unknown():
    counts = FileCounts(files=1, size_bytes=1, vectors=0, deleted_records=0)
    info = ("commitInfo", {"engineInfo": "deltalite/0.1"})
    for deletion_vector in ({}, {"cardinality": "1"}, "not an object"):
        added = ("add", {"size": 1, "dataChange": True, "deletionVector": deletion_vector})
        assert counts_after_commit(counts, [info, added]) is None


@pytest.mark.parametrize("field", ["files", "size_bytes", "vectors", "deleted_records"])
def test_a_negative_count_makes_the_counts_unknown(field):
    counts = {"files": 1, "size_bytes": 1, "vectors": 1, "deleted_records": 1}
    info = ("commitInfo", {"engineInfo": "deltalite/0.1"})
    removed = ("remove", {"size": 1, "dataChange": True, "deletionVector": {"cardinality": 1}})
    zero_counts = FileCounts(files=0, size_bytes=0, vectors=0, deleted_records=0)
    assert counts_after_commit(FileCounts(**counts), [info, removed]) == zero_counts
    assert counts_after_commit(FileCounts(**counts | {field: 0}), [info, removed]) is None


def test_the_upkeep_goes_on_if_an_earlier_commit_cannot_be_read(caplog):
    store = create(new_store(), add("a"), configuration={"delta.checkpointInterval": "2"})
    after_commit(store, 0, clock_ms=lambda: NOON_MS)
    append_files(store, 2)
    is_first_read = True

    def fail_once(operation, name):
        nonlocal is_first_read
        if operation == "read" and is_first_read:
            is_first_read = False
            raise StorageError("The storage is busy.", remedy="Wait.")

    store.before = fail_once
    after_commit(store, 2, clock_ms=lambda: NOON_MS)
    assert checkpoint_name(2) in store.files and checksum_of(store, 2)["numFiles"] == 3
    assert "Deriving the checksum" in caplog.text


def test_a_derived_checksum_has_the_protocol_the_metadata_and_the_times_of_later_commits():
    store = create(new_store(), add("a"))
    after_commit(store, 0, clock_ms=lambda: NOON_MS)
    changed_metadata = metadata({"delta.enableInCommitTimestamps": "true", "k": "v"})
    protocol = Protocol(min_reader_version=1, min_writer_version=7, writer_features=("inCommitTimestamp",))
    put_raw(
        store,
        1,
        [commit_info(engineInfo="deltalite/0.1", txnId="t", inCommitTimestamp=NOON_MS), protocol, changed_metadata],
    )
    expected_state = load(store, 1)  # by a replay, because the version has no checksum yet
    after_commit(store, 1, clock_ms=lambda: NOON_MS)
    snapshot = load(store, 1)
    assert snapshot.segment.checksum is not None
    assert (snapshot.protocol, snapshot.metadata) == (expected_state.protocol, expected_state.metadata)
    assert checksum_of(store, 1)["txnId"] == "t" and checksum_of(store, 1)["inCommitTimestampOpt"] == NOON_MS


def test_the_upkeep_after_a_small_commit_takes_five_requests_and_reads_each_file_once():
    store = append_files(create(new_store(), add("a")), 8)
    after_commit(store, 8, clock_ms=lambda: NOON_MS)
    append_files(store, 1)
    requests = []
    store.before = lambda operation, name: requests.append((operation, name))
    after_commit(store, 9, clock_ms=lambda: NOON_MS)
    assert len(requests) == len(set(requests)) == 5
    assert checksum_name(9) in store.files


def test_a_checkpoint_corrects_a_wrong_earlier_checksum(caplog):
    store = create(new_store(), add("a"), configuration={"delta.checkpointInterval": "2"})
    write_checksum(load(store, 0))
    wrong_checksum = checksum_of(store, 0) | {"numFiles": 5}
    store.files[checksum_name(0)] = (json.dumps(wrong_checksum).encode(), 0)
    for version in (1, 2):
        append_files(store, 1)
        after_commit(store, version, clock_ms=lambda: NOON_MS)
    assert checksum_of(store, 2)["numFiles"] == load(store, 2).files.num_rows == 3


@pytest.mark.parametrize(
    "change",
    [{"txnId": None}, {"txnId": "of another commit"}, {"engineInfo": "Apache-Spark/4.0"}],
    ids=["no commit", "another commit", "another writer"],
)
def test_a_checksum_of_another_writer_causes_a_full_count(change, full_counts):
    store = create(new_store(), add("a"))
    write_checksum(load(store, 0))
    wrong_checksum = {
        key: value for key, value in (checksum_of(store, 0) | {"numFiles": 5} | change).items() if value is not None
    }
    if "engineInfo" in change:
        put_raw(store, 0, [commit_info(txnId=wrong_checksum["txnId"], **change), PROTOCOL, metadata(), add("a")])
    store.files[checksum_name(0)] = (json.dumps(wrong_checksum).encode(), 0)
    append_files(store, 2)
    for version in (1, 2):
        full_counts.clear()
        write_checksum(load(store, version))
        assert checksum_of(store, version)["numFiles"] == version + 1
    assert not full_counts  # version 2 is derived from the new checksum of version 1


def test_an_existing_checksum_is_not_changed():
    store = create(new_store(), add("a"))
    store.files[checksum_name(0)] = (b"theirs", 0)
    assert not write_checksum(load(store))
    assert store.files[checksum_name(0)] == (b"theirs", 0)


@pytest.mark.slow
def test_a_reader_starts_at_the_checksum_and_compares_it_with_the_files():
    store = create(new_store(), add("a"))
    after_commit(store, 0, clock_ms=Clock())
    snapshot = load(store)
    assert snapshot.segment.checksum is not None and snapshot.protocol == PROTOCOL
    write_checkpoint(load(store), now_ms=NOON_MS)
    del store.files[commit_name(0)]
    assert load(store).files.num_rows == 1
