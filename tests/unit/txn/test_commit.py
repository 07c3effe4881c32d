"""Optimistic commits lose races to other writers (`add_rival`). `test_put` tests storage that does not answer."""

from __future__ import annotations

import dataclasses
import gc
import json
import random

import pytest

from deltalite.errors import (
    ConcurrentAppendException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    CorruptLogError,
    MetadataChangedException,
    ProtocolChangedException,
)
from deltalite.log.file_table import ADD_TYPES, removes_of, table_of
from deltalite.protocol.actions import AddCDCFile, AddFile, Protocol, RemoveFile, commit_to_bytes
from deltalite.protocol.file_names import commit_name
from deltalite.txn.commit import ENGINE_INFO, Committed, CommittedByAnotherAttempt, _may_have_txn_id, commit
from deltalite.txn.proposal import ReadSet
from deltalite.upkeep.checkpoint import write_checkpoint
from tests.support.commits import parse_commit
from tests.unit.builders import (
    NOON_MS,
    PROTOCOL,
    Clock,
    add,
    add_rival,
    append_files,
    commit_info,
    create,
    load,
    metadata,
    new_store,
    newest_version,
    paths,
    proposal,
    put_raw,
    remove,
    try_commit,
    txn,
)


@pytest.fixture
def store():
    return append_files(create(new_store()), 1)


def actions_by_kind(store, version):
    lines = store.files[commit_name(version)][0].splitlines()
    return {kind: value for line in lines for kind, value in json.loads(line).items()}


@pytest.mark.parametrize(
    "start",
    [
        b"", b"not JSON\n", b"[]\n", b'{"add":{}}\n', b'{"commitInfo":null}\n', b'{"commitInfo":{"txnId":"other"}}',
        b'{"commitInfo":{"txnId":"mine"}}\n',
    ],
)  # fmt: skip
def test_a_commit_may_have_an_id_unless_its_first_line_shows_another_id(start):
    assert _may_have_txn_id(start, "mine")


@pytest.mark.parametrize("start", [b'{"commitInfo":{"txnId":"other"}}\n', b'{"commitInfo":{}}\n{"add":{}}'])
def test_a_commit_whose_first_line_has_another_provenance_is_another_commit(start):
    assert not _may_have_txn_id(start, "mine")


def test_a_commit_without_a_rival_is_the_next_version(store):
    outcome, pauses = try_commit(store, proposal(1, add("mine")))
    assert outcome == Committed(version=2, timestamp_ms=NOON_MS + 1000)
    assert paths(load(store)) == ["f1", "mine"] and not pauses


def test_a_commit_has_change_data_files_and_the_vectors_of_removed_files(store):
    vector = {"storageType": "u", "pathOrInlineDv": "x", "offset": None, "sizeInBytes": 30, "cardinality": 1}
    files = table_of([{"path": "f1", "size": 10, "deletionVector": vector}], ADD_TYPES, AddFile)
    (removed_files,) = removes_of(files, deletion_timestamp_ms=NOON_MS, data_change=True)
    change = AddCDCFile(path="_change_data/c", partition_values={"day": None}, size_bytes=5, data_change=False)
    try_commit(store, dataclasses.replace(proposal(1, add("mine"), removed_files), changes=(change,)))
    bodies = actions_by_kind(store, 2)
    assert bodies["cdc"] == {
        "path": "_change_data/c",
        "partitionValues": {"day": None},
        "size": 5,
        "dataChange": False,
    }
    assert bodies["remove"]["deletionVector"] == {k: v for k, v in vector.items() if v is not None}


def test_the_provenance_is_the_first_action_and_has_the_names_of_spark(store):
    current = proposal(
        1,
        add("mine"),
        remove("f1"),
        txn("run"),
        name="WRITE",
        parameters={"mode": "Overwrite", "partitionBy": "[]"},
        metrics={"numFiles": 1, "numOutputRows": 12, "numOutputBytes": 0},
        user_metadata="who",
    )
    try_commit(store, current)
    first, *other_actions = parse_commit(store.files[commit_name(2)][0], "x")
    txn_id = first.values["txnId"]
    assert len(txn_id) == 36
    assert first.values == {
        "timestamp": NOON_MS + 1000,
        "operation": "WRITE",
        "operationParameters": {"mode": "Overwrite", "partitionBy": "[]"},
        "readVersion": 1,
        "isolationLevel": "Serializable",
        "isBlindAppend": False,
        "operationMetrics": {"numFiles": "1", "numOutputRows": "12", "numOutputBytes": "0"},
        "userMetadata": "who",
        "engineInfo": ENGINE_INFO,
        "txnId": txn_id,
    }
    assert [a.action for a in other_actions] == ["txn", "remove", "add"]


def test_the_first_commit_of_a_table_has_no_read_version(store):
    store.files.clear()
    try_commit(store, proposal(-1, PROTOCOL, metadata(), add("a")))
    assert (
        "readVersion" not in actions_by_kind(store, 0)["commitInfo"]
        and "userMetadata" not in actions_by_kind(store, 0)["commitInfo"]
    )
    kinds = [a.action for a in parse_commit(store.files[commit_name(0)][0], "x")]
    assert kinds == ["commitInfo", "protocol", "metaData", "add"]


@pytest.mark.parametrize(
    ("actions", "reads", "is_blind"),
    [
        ([add("a")], None, True),
        ([add("a"), txn("x")], None, True),
        ([add("a")], ReadSet(whole_table=True), False),
        ([add("a")], ReadSet(keys=frozenset({"f1"})), False),
        ([add("a"), remove("f1")], None, False),
        ([remove("f1")], None, False),
    ],
)
def test_a_commit_that_adds_files_and_reads_nothing_is_a_blind_append(store, actions, reads, is_blind):
    try_commit(store, proposal(1, *actions, reads=reads))
    assert actions_by_kind(store, 2)["commitInfo"]["isBlindAppend"] is is_blind


APPEND = [commit_info(operation="WRITE", isBlindAppend=True), add("theirs")]
OVERWRITE = [commit_info(operation="WRITE", engineInfo="Spark/4"), remove("f1"), add("theirs")]
OPTIMIZE = [commit_info(operation="OPTIMIZE"), remove("f1", data_change=False), add("theirs", data_change=False)]
OTHER_RUN = [commit_info(operation="WRITE"), add("theirs"), txn("another run")]


@pytest.mark.parametrize("winner", [APPEND, OVERWRITE, OPTIMIZE, OTHER_RUN, [add("theirs")]])
def test_a_blind_append_follows_a_winning_commit_that_changed_only_files(store, winner):
    add_rival(store, winner)
    outcome, pauses = try_commit(store, proposal(1, add("mine"), txn("run")))
    assert outcome.version == 3 and len(pauses) == 1
    assert {"theirs", "mine"} <= set(paths(load(store)))
    assert actions_by_kind(store, 3)["commitInfo"]["readVersion"] == 1


def test_a_blind_append_follows_several_winning_commits(store):
    put_raw(store, 2, APPEND)
    put_raw(store, 3, OPTIMIZE)
    add_rival(store, [add("x4")], [add("x5")])
    outcome, pauses = try_commit(store, proposal(1, add("mine")))
    assert outcome.version == 6 and len(pauses) == 3
    assert outcome.timestamp_ms == actions_by_kind(store, 6)["commitInfo"]["timestamp"]


NEW_PROTOCOL = Protocol(min_reader_version=1, min_writer_version=4)
WINNERS_WITH_NEW_RULES = [
    ([commit_info(operation="SET TBLPROPERTIES"), metadata({"k": "v"})], MetadataChangedException, "metadata"),
    ([commit_info(operation="UPGRADE PROTOCOL"), NEW_PROTOCOL], ProtocolChangedException, "protocol"),
    ([commit_info(operation="REPLACE TABLE"), metadata(), NEW_PROTOCOL], ProtocolChangedException, "protocol"),
]


@pytest.mark.parametrize(("winner", "error", "changed_part"), WINNERS_WITH_NEW_RULES)
@pytest.mark.parametrize("actions", [[add("mine")], [remove("f1"), add("mine")], [txn("run")]])
def test_a_winning_commit_that_changed_protocol_or_metadata_is_a_conflict(store, winner, error, changed_part, actions):
    add_rival(store, winner)
    with pytest.raises(error, match=f"The winning commit, version 2 .* changed .*{changed_part}") as caught:
        try_commit(store, proposal(1, *actions))
    assert caught.value.retryable and newest_version(store) == 2


@pytest.mark.parametrize(
    ("winner", "description"),
    [
        ([commit_info(operation="MERGE", userMetadata="dag nightly"), add("x")], "version 2 (MERGE, by dag nightly)"),
        ([commit_info(operation="WRITE", engineInfo="Spark/4.0"), add("x")], "version 2 (WRITE, by Spark/4.0)"),
        ([add("x")], "version 2 (unknown operation, by an unnamed writer)"),
    ],
)
def test_the_conflict_error_names_the_winning_commit(store, winner, description):
    add_rival(store, winner)
    with pytest.raises(ConcurrentAppendException) as caught:
        try_commit(store, proposal(1, remove("f1"), add("mine"), reads=ReadSet(whole_table=True), name="DELETE"))
    assert "DELETE read the table at version 1" in str(caught.value) and description in str(caught.value)
    assert caught.value.retryable and newest_version(store) == 2


def test_a_commit_that_removes_files_follows_winning_commits_that_did_not_touch_them(store):
    put_raw(store, 2, APPEND)
    add_rival(store, [commit_info(operation="DELETE"), remove("theirs")], [metadata({"delta.checkpointInterval": "5"})])
    current = proposal(1, remove("f1"), add("mine"), base=(PROTOCOL, metadata()))
    outcome, pauses = try_commit(store, current)
    assert outcome.version == 5 and len(pauses) == 3
    assert paths(load(store)) == ["mine"]


def test_the_read_set_follows_moved_rows_through_several_winning_commits(store):
    add_rival(store, OPTIMIZE, [commit_info(operation="DELETE"), remove("theirs")])
    with pytest.raises(ConcurrentDeleteReadException, match="the file theirs"):
        try_commit(store, proposal(1, add("mine"), reads=ReadSet(keys=frozenset({"f1"}))))


class MemoryCountingRowTest:
    """A row test that no file matches. At every 2500th call, it counts the file actions in memory."""

    def __init__(self):
        self.calls = self.max_actions = self.max_bodies = 0

    def may_match(self, _partition_values, _stats):
        self.calls += 1
        if self.calls % 2_500 == 0:
            objects = gc.get_objects()
            self.max_actions = max(self.max_actions, sum(type(o) in (AddFile, RemoveFile) for o in objects))
            self.max_bodies = max(self.max_bodies, sum(type(o) is dict and "dataChange" in o for o in objects))
        return False


@pytest.mark.sample(True)
@pytest.mark.parametrize("has_removes", [False, True])
@pytest.mark.slow
def test_the_files_of_a_large_winning_commit_are_read_in_blocks(store, has_removes):
    count, row_test = 10_000, MemoryCountingRowTest()
    files = [add(f"w{n}", stats="x" * 200) for n in range(count)]
    if has_removes:
        files += [remove(f"old{n}", tags={"of": "x" * 200}) for n in range(count)]
    add_rival(store, commit_to_bytes([commit_info(operation="MERGE"), *files]))
    del files
    current = proposal(1, add("mine"), remove("f1"), reads=ReadSet(keys=frozenset({"f1"}), row_tests=(row_test,)))
    assert try_commit(store, current)[0].version == 3
    assert row_test.calls == count
    assert row_test.max_actions < count / 10 and row_test.max_bodies < count / 2


def test_a_commit_by_another_attempt_of_the_run_is_the_result_and_nothing_is_written(store):
    add_rival(store, APPEND, [add("theirs"), txn("run", 0)])
    outcome, _ = try_commit(store, proposal(1, add("mine"), txn("run", 0)))
    assert outcome == CommittedByAnotherAttempt(version=3, app_id="run")
    assert "mine" not in paths(load(store))


def test_a_commit_by_the_same_run_counts_even_if_it_changed_the_metadata(store):
    add_rival(store, [metadata({"k": "v"}), add("theirs"), txn("run", 1)])
    assert try_commit(store, proposal(1, remove("f1"), txn("run", 0)))[0] == CommittedByAnotherAttempt(
        version=2, app_id="run"
    )


def test_an_older_generation_of_the_same_run_is_a_conflict(store):
    add_rival(store, [add("theirs"), txn("run", 0)])
    with pytest.raises(ConcurrentTransactionException, match="earlier attempt of this run committed version 2"):
        try_commit(store, proposal(1, add("mine"), txn("run", 1)))


def test_a_table_is_not_created_in_a_log_without_its_first_commits(store):
    """The writer listed an empty log. Another writer has created the table, and a cleanup has deleted version 0."""
    write_checkpoint(load(store), now_ms=NOON_MS)
    for version in range(2):
        del store.files[commit_name(version)]
    with pytest.raises(ConcurrentWriteException, match="has versions but not version 0"):
        try_commit(store, proposal(-1, PROTOCOL, metadata(), add("mine")))
    assert commit_name(0) not in store.files


@pytest.mark.parametrize("remaining_versions", [[], [4], [2, 3, 4]])
def test_a_missing_read_version_ends_the_commit_before_a_put(store, remaining_versions):
    """A cleanup deleted the version, or a user deleted the table."""
    append_files(store, 3)
    all_files = set(store.files)
    for version in range(5):
        if version not in remaining_versions:
            del store.files[commit_name(version)]
    remaining_files = set(store.files)
    with pytest.raises(ConcurrentWriteException, match="no longer has version 1") as caught:
        try_commit(store, proposal(1, add("mine")))
    assert caught.value.retryable and set(store.files) == remaining_files < all_files


def test_the_number_of_attempts_is_limited(store):
    add_rival(store, *([add(f"x{n}")] for n in range(9)))
    with pytest.raises(ConcurrentWriteException, match=r"all 3 attempts, the last one for version 5") as caught:
        try_commit(store, proposal(1, add("mine")), max_attempts=3)
    assert caught.value.retryable and newest_version(store) == 4


def test_the_longest_pause_doubles_up_to_fifty_milliseconds(store, monkeypatch):
    monkeypatch.setattr(random, "uniform", lambda _shortest, longest: longest)
    add_rival(store, *([add(f"x{n}")] for n in range(9)))
    _, pauses = try_commit(store, proposal(1, add("mine")))
    assert pauses == pytest.approx([0.01, 0.02, 0.04, *[0.05] * 6])


def test_each_pause_is_random_between_zero_and_the_longest(store):
    add_rival(store, *([add(f"x{n}")] for n in range(30)))
    _, pauses = try_commit(store, proposal(1, add("mine")))
    assert len(pauses) == len(set(pauses)) == 30
    assert all(0 <= pause <= min(0.01 * 2**n, 0.05) for n, pause in enumerate(pauses))


def test_a_version_that_log_cleanup_deleted_is_not_committed_again():
    """A cleanup deletes winning commits faster than the writer reads them."""
    store = append_files(create(new_store()), 12)
    late_proposal = proposal(3, add("late"), base=(load(store).protocol, load(store).metadata))
    write_checkpoint(load(store, 10), now_ms=NOON_MS)

    def delete_commits(operation, name):
        if operation == "read" and name == commit_name(6):
            for version in range(10):
                store.files.pop(commit_name(version), None)

    store.before = delete_commits
    with pytest.raises(ConcurrentWriteException, match="log cleanup had deleted that version"):
        commit(store, late_proposal, clock_ms=Clock(), pause=lambda _s: None)
    assert commit_name(6) not in store.files
    store.before = lambda _operation, _name: None
    assert (load(store).version, "late" in paths(load(store))) == (12, False)


def test_a_commit_that_adds_a_file_twice_is_rejected():
    with pytest.raises(CorruptLogError, match="twice"):
        proposal(0, add("a"), add("b"), add("a"))
