"""Optimistic commit, race by race: a rival is played through the store's hooks between two of our moves."""

from __future__ import annotations

import dataclasses
import json

import pytest

from deltalite.errors import (
    CommitStateUnknownError,
    ConcurrentAppendException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    CorruptLogError,
    MetadataChangedException,
    ProtocolChangedException,
    StorageError,
    StoragePermissionError,
    UnsupportedStorageError,
)
from deltalite.log.file_table import ADD_TYPES, removes_of, table_of
from deltalite.protocol.actions import AddCDCFile, AddFile, Protocol, parse_commit
from deltalite.protocol.file_names import commit_name
from deltalite.txn.commit import ENGINE_INFO, Committed, DoneByAnotherTry, commit
from deltalite.txn.proposal import ReadSet
from deltalite.upkeep.checkpoint import write_checkpoint
from tests.unit.builders import (
    NOON_MS,
    PROTOCOL,
    Clock,
    add,
    appended,
    create,
    info,
    load,
    metadata,
    new_store,
    newest,
    paths,
    proposal,
    put_raw,
    remove,
    txn,
)

FAULT = StorageError("The disk is gone.", remedy="Mount it.")
UNANSWERED = CommitStateUnknownError("No answer.", remedy="Look.")


@pytest.fixture
def store():
    return appended(create(new_store()), 1)


def played(store, ours, **options):
    pauses = []
    return commit(store, ours, clock_ms=Clock(), pause=pauses.append, **options), pauses


def body(store, version):
    lines = store.files[commit_name(version)][0].splitlines()
    return {kind: value for line in lines for kind, value in json.loads(line).items()}


def rival(store, *commits):
    """Each put of ours finds that another writer has just taken the version with the next of `commits`."""
    left = list(commits)

    def before(operation, name):
        if operation == "write_if_absent" and left and name not in store.files:
            put_raw(store, int(name[-25:-5]), left.pop(0))

    store.before = before


def lost(store, when, error=FAULT, *, reads_fail=False, always=False):
    """The next put, or each, fails before or after it lands; the log cannot be read either where `reads_fail`."""
    state = {"put": False}

    def hook(operation, _name):
        if operation == "write_if_absent" and (always or not state["put"]):
            state["put"] = True
            raise error

    def reading(operation, name):
        if when == "before":
            hook(operation, name)
        if operation == "read" and state["put"] and reads_fail:
            raise FAULT

    store.before = reading
    if when == "after":
        store.after = hook


def test_an_undisputed_commit_is_the_next_version(store):
    done, pauses = played(store, proposal(1, add("mine")))
    assert done == Committed(version=2, timestamp_ms=NOON_MS + 1000)
    assert paths(load(store)) == ["f1", "mine"] and not pauses


def test_change_files_and_the_vectors_of_removed_files_are_part_of_the_commit(store):
    marked = {"storageType": "u", "pathOrInlineDv": "x", "offset": None, "sizeInBytes": 30, "cardinality": 1}
    files = table_of([{"path": "f1", "size": 10, "deletionVector": marked}], ADD_TYPES, AddFile)
    (gone,) = removes_of(files, deletion_timestamp_ms=NOON_MS, data_change=True)
    change = AddCDCFile(path="_change_data/c", partition_values={"day": None}, size_bytes=5, data_change=False)
    played(store, dataclasses.replace(proposal(1, add("mine"), gone), changes=(change,)))
    found = body(store, 2)
    assert found["cdc"] == {"path": "_change_data/c", "partitionValues": {"day": None}, "size": 5, "dataChange": False}
    assert found["remove"]["deletionVector"] == {k: v for k, v in marked.items() if v is not None}


def test_the_provenance_has_spark_s_names_and_comes_first(store):
    ours = proposal(
        1,
        add("mine"),
        remove("f1"),
        txn("run"),
        name="WRITE",
        parameters={"mode": "Overwrite", "partitionBy": "[]"},
        metrics={"numFiles": 1, "numOutputRows": 12, "numOutputBytes": 0},
        user_metadata="who",
    )
    played(store, ours)
    first, *others = parse_commit(store.files[commit_name(2)][0], "x")
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
    assert [a.action for a in others] == ["txn", "remove", "add"]


def test_the_first_commit_of_a_table_read_no_version(store):
    store.files.clear()
    played(store, proposal(-1, PROTOCOL, metadata(), add("a")))
    assert "readVersion" not in body(store, 0)["commitInfo"] and "userMetadata" not in body(store, 0)["commitInfo"]
    kinds = [a.action for a in parse_commit(store.files[commit_name(0)][0], "x")]
    assert kinds == ["commitInfo", "protocol", "metaData", "add"]


@pytest.mark.parametrize(
    ("actions", "reads", "blind"),
    [
        ([add("a")], None, True),
        ([add("a"), txn("x")], None, True),
        ([add("a")], ReadSet(whole_table=True), False),
        ([add("a")], ReadSet(keys=frozenset({"f1"})), False),
        ([add("a"), remove("f1")], None, False),
        ([remove("f1")], None, False),
    ],
)
def test_a_blind_append_adds_only_and_read_nothing(store, actions, reads, blind):
    played(store, proposal(1, *actions, reads=reads))
    assert body(store, 2)["commitInfo"]["isBlindAppend"] is blind


APPEND = [info(operation="WRITE", isBlindAppend=True), add("theirs")]
OVERWRITE = [info(operation="WRITE", engineInfo="Spark/4"), remove("f1"), add("theirs")]
OPTIMIZE = [info(operation="OPTIMIZE"), remove("f1", data_change=False), add("theirs", data_change=False)]
OTHER_RUN = [info(operation="WRITE"), add("theirs"), txn("another run")]


@pytest.mark.parametrize("winner", [APPEND, OVERWRITE, OPTIMIZE, OTHER_RUN, [add("theirs")]])
def test_a_blind_append_goes_on_top_of_any_winner_that_changed_only_files(store, winner):
    rival(store, winner)
    done, pauses = played(store, proposal(1, add("mine"), txn("run")))
    assert done.version == 3 and len(pauses) == 1
    assert {"theirs", "mine"} <= set(paths(load(store)))
    assert body(store, 3)["commitInfo"]["readVersion"] == 1


def test_a_blind_append_goes_on_top_of_many_winners_at_once_and_one_by_one(store):
    put_raw(store, 2, APPEND)
    put_raw(store, 3, OPTIMIZE)
    rival(store, [add("x4")], [add("x5")])
    done, pauses = played(store, proposal(1, add("mine")))
    assert done.version == 6 and len(pauses) == 3
    assert done.timestamp_ms == body(store, 6)["commitInfo"]["timestamp"]


NEW_PROTOCOL = Protocol(min_reader_version=1, min_writer_version=4)
NEW_RULES = [
    ([info(operation="SET TBLPROPERTIES"), metadata({"k": "v"})], MetadataChangedException, "metadata"),
    ([info(operation="UPGRADE PROTOCOL"), NEW_PROTOCOL], ProtocolChangedException, "protocol"),
    ([info(operation="REPLACE TABLE"), metadata(), NEW_PROTOCOL], ProtocolChangedException, "protocol"),
]


@pytest.mark.parametrize(("winner", "error", "says"), NEW_RULES)
@pytest.mark.parametrize("ours", [[add("mine")], [remove("f1"), add("mine")], [txn("run")]])
def test_a_winner_that_changed_the_rules_ends_every_attempt(store, winner, error, says, ours):
    rival(store, winner)
    with pytest.raises(error, match=f"{says} was changed by version 2") as caught:
        played(store, proposal(1, *ours))
    assert caught.value.retryable and newest(store) == 2


@pytest.mark.parametrize(
    ("winner", "who"),
    [
        ([info(operation="MERGE", userMetadata="dag nightly"), add("x")], "version 2 (MERGE, by dag nightly)"),
        ([info(operation="WRITE", engineInfo="Spark/4.0"), add("x")], "version 2 (WRITE, by Spark/4.0)"),
        ([add("x")], "version 2 (unknown operation, by an unnamed writer)"),
    ],
)
def test_a_commit_that_loses_says_to_whom(store, winner, who):
    rival(store, winner)
    with pytest.raises(ConcurrentAppendException) as caught:
        played(store, proposal(1, remove("f1"), add("mine"), reads=ReadSet(whole_table=True), name="DELETE"))
    assert "DELETE read the table at version 1" in str(caught.value) and who in str(caught.value)
    assert caught.value.retryable and newest(store) == 2


def test_a_commit_that_removes_goes_on_top_of_winners_that_did_not_touch_its_files(store):
    put_raw(store, 2, APPEND)
    rival(store, [info(operation="DELETE"), remove("theirs")], [metadata({"delta.checkpointInterval": "5"})])
    rules = (PROTOCOL, metadata())
    done, pauses = played(store, proposal(1, remove("f1"), add("mine"), rules=rules))
    assert done.version == 5 and len(pauses) == 3
    assert paths(load(store)) == ["mine"]


def test_what_was_read_is_followed_from_winner_to_winner(store):
    rival(store, OPTIMIZE, [info(operation="DELETE"), remove("theirs")])
    with pytest.raises(ConcurrentDeleteReadException, match="the file theirs"):
        played(store, proposal(1, add("mine"), reads=ReadSet(keys=frozenset({"f1"}))))


def test_another_try_of_the_same_run_is_the_result_and_nothing_is_written(store):
    rival(store, APPEND, [add("theirs"), txn("run", 0)])
    done, _ = played(store, proposal(1, add("mine"), txn("run", 0)))
    assert done == DoneByAnotherTry(version=3, app_id="run")
    assert "mine" not in paths(load(store))


def test_the_same_run_wins_over_a_change_of_the_rules_in_the_same_commit(store):
    rival(store, [metadata({"k": "v"}), add("theirs"), txn("run", 1)])
    assert played(store, proposal(1, remove("f1"), txn("run", 0)))[0] == DoneByAnotherTry(version=2, app_id="run")


def test_an_older_generation_of_the_same_run_is_a_conflict(store):
    rival(store, [add("theirs"), txn("run", 0)])
    with pytest.raises(ConcurrentTransactionException, match="earlier try of this run committed version 2"):
        played(store, proposal(1, add("mine"), txn("run", 1)))


@pytest.mark.parametrize("ours", [[add("mine")], [remove("f1"), add("mine")]])
@pytest.mark.parametrize("error", [FAULT, UNANSWERED])
def test_a_put_that_landed_and_was_not_answered_is_a_commit(store, ours, error):
    lost(store, "after", error)
    done, _ = played(store, proposal(1, *ours))
    assert done.version == 2 and newest(store) == 2
    assert "mine" in paths(load(store))


def test_a_put_that_landed_and_was_answered_with_a_refusal_is_a_commit(store):
    """A client below us tried twice: the second of its requests found the name taken, by the first."""
    ours, taken = proposal(1, remove("f1"), add("mine")), store.write_if_absent

    def twice(name, data):
        taken(name, data)
        return taken(name, data)

    store.write_if_absent = twice
    assert played(store, ours)[0].version == 2 and newest(store) == 2


def test_a_put_that_failed_while_another_writer_won_is_a_lost_race(store):
    def before(operation, name):
        if operation == "write_if_absent" and name == commit_name(2):
            put_raw(store, 2, APPEND)
            raise FAULT

    store.before = before
    assert played(store, proposal(1, add("mine")))[0].version == 3


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_put_that_failed_with_an_unreadable_log_leaves_the_state_unknown(store, when):
    lost(store, when, reads_fail=True, always=True)
    with pytest.raises(CommitStateUnknownError, match=r"version 2 .*The disk is gone.*cannot be read") as caught:
        played(store, proposal(1, add("mine")))
    assert not caught.value.retryable and caught.value.remedy


@pytest.mark.parametrize("error", [FAULT, StoragePermissionError("No.", remedy="Ask.")])
def test_a_put_that_failed_and_is_not_there_keeps_its_own_error(store, error):
    lost(store, "before", error, always=True)
    with pytest.raises(type(error)) as caught:
        played(store, proposal(1, add("mine")))
    assert caught.value is error and newest(store) == 1


@pytest.mark.parametrize("error", [FAULT, UNANSWERED])
def test_a_put_that_failed_once_is_put_again(store, error):
    lost(store, "before", error)
    done, pauses = played(store, proposal(1, add("mine")))
    assert (done.version, newest(store), pauses) == (2, 2, [0.1])


def test_a_put_that_was_never_answered_and_is_not_there_may_still_land(store):
    lost(store, "before", UNANSWERED, always=True)
    with pytest.raises(CommitStateUnknownError, match=r"version 2 .*No answer.*not shown"):
        played(store, proposal(1, add("mine")))


def test_a_put_that_lands_while_it_is_put_again_is_one_commit(store):
    late = []

    def before(operation, name):
        if operation == "write_if_absent" and not late:
            late.append(name)
            raise UNANSWERED

    store.before, put_again = before, store.write_if_absent

    def landing(name, data):
        if late:  # the first request reaches the storage right ahead of the second
            store.files[name] = (data, NOON_MS)
        return put_again(name, data)

    store.write_if_absent = landing
    assert played(store, proposal(1, remove("f1"), add("mine")))[0].version == 2 and newest(store) == 2


def shown_late(store, looks):
    """A commit that lands is not shown to the next so many looks."""
    left = {}
    put_now, read_now = store.write_if_absent, store.read

    def putting(name, data):
        left.setdefault(name, looks)
        return put_now(name, data)

    def reading(name):
        left[name] = left.get(name, 0) - 1
        return None if left[name] >= 0 else read_now(name)

    store.write_if_absent, store.read = putting, reading


@pytest.mark.parametrize("looks", [1, 4])
def test_a_commit_that_storage_shows_late_is_found(store, looks):
    lost(store, "after")
    shown_late(store, looks)
    done, pauses = played(store, proposal(1, add("mine")))
    assert done.version == 2 and 0 < sum(pauses) <= 2


@pytest.mark.parametrize("looks", [1, 4])
def test_a_winner_that_storage_shows_late_is_judged(store, looks):
    rival(store, [add("theirs")])
    shown_late(store, looks)
    assert played(store, proposal(1, add("mine")))[0].version == 3


def test_a_name_that_is_taken_and_never_shown_may_be_our_own(store):
    rival(store, [add("theirs")])
    shown_late(store, 1000)
    with pytest.raises(CommitStateUnknownError, match=r"Version 2 .* was taken .* not shown"):
        played(store, proposal(1, add("mine")))


def test_storage_that_fails_once_the_winner_is_known_is_no_ambiguity(store):
    """Ours is not in the log: the name it was put to is another's."""
    rival(store, [add("theirs")])

    def failing(operation, name):
        if operation == "read" and name == commit_name(3):
            raise FAULT

    first = store.before
    store.before = lambda *access: (first(*access), failing(*access))
    with pytest.raises(StorageError) as caught:
        played(store, proposal(1, add("mine")))
    assert caught.value is FAULT


def test_a_table_is_not_begun_where_the_log_has_lost_its_beginning(store):
    """A listing had shown an empty log to whom was to make the table; a version 0 would be part of no version."""
    write_checkpoint(load(store), now_ms=NOON_MS)
    for version in range(2):
        del store.files[commit_name(version)]
    with pytest.raises(ConcurrentWriteException, match="has some, though not version 0"):
        played(store, proposal(-1, PROTOCOL, metadata(), add("mine")))
    assert commit_name(0) not in store.files


@pytest.mark.parametrize("ours", [[add("mine")], [remove("f1"), add("mine")]])
def test_a_name_that_is_taken_and_cannot_be_read_may_be_our_own(store, ours):
    taken = store.write_if_absent

    def twice(name, data):
        taken(name, data)
        store.before = unreadable
        return taken(name, data)

    def unreadable(operation, _name):
        if operation == "read":
            raise FAULT

    store.write_if_absent = twice
    with pytest.raises(CommitStateUnknownError, match=r"Version 2 .* was taken .*The disk is gone") as caught:
        played(store, proposal(1, *ours))
    assert not caught.value.retryable and "mine" in paths(load_again(store))


def load_again(store):
    store.before = lambda *_: None
    return load(store)


@pytest.mark.parametrize("left", [[], [4], [2, 3, 4]])
def test_a_version_that_was_read_and_is_gone_ends_it_before_anything_is_put(store, left):
    """A cleanup has passed it, or the table was removed."""
    appended(store, 3)
    content = dict(store.files)
    for version in range(5):
        if version not in left:
            del store.files[commit_name(version)]
    kept = set(store.files)
    with pytest.raises(ConcurrentWriteException, match="no longer has version 1") as caught:
        played(store, proposal(1, add("mine")))
    assert caught.value.retryable and set(store.files) == kept < set(content)


def test_storage_that_cannot_give_the_guarantee_is_not_asked_again(store):
    lost(store, "before", UnsupportedStorageError("No links.", remedy="Move."), reads_fail=True)
    with pytest.raises(UnsupportedStorageError):
        played(store, proposal(1, add("mine")))


def test_attempts_run_out(store):
    rival(store, *([add(f"x{n}")] for n in range(9)))
    with pytest.raises(ConcurrentWriteException, match=r"3 attempts .* all lost, the last for version 5") as caught:
        played(store, proposal(1, add("mine")), max_attempts=3)
    assert caught.value.retryable and newest(store) == 4


def test_pauses_grow_and_stay_short(store):
    rival(store, *([add(f"x{n}")] for n in range(30)))
    _, pauses = played(store, proposal(1, add("mine")))
    assert len(pauses) == 30
    assert all(0 <= pause <= min(0.01 * 2**n, 0.05) for n, pause in enumerate(pauses))


def test_a_name_that_log_cleanup_has_set_free_is_no_version():
    """Winners are read upwards while a cleanup, which deletes upwards, overtakes."""
    store = appended(create(new_store()), 12)
    late = proposal(3, add("late"), rules=(load(store).protocol, load(store).metadata))
    write_checkpoint(load(store, 10), now_ms=NOON_MS)

    def before(operation, name):
        if operation == "read" and name == commit_name(6):
            for version in range(10):
                store.files.pop(commit_name(version), None)

    store.before = before
    with pytest.raises(ConcurrentWriteException, match="cleanup overtook"):
        commit(store, late, clock_ms=Clock(), pause=lambda _s: None)
    assert commit_name(6) not in store.files
    store.before = lambda _operation, _name: None
    assert (load(store).version, "late" in paths(load(store))) == (12, False)


def test_a_commit_that_adds_a_file_twice_is_not_made():
    with pytest.raises(CorruptLogError, match="twice"):
        proposal(0, add("a"), add("b"), add("a"))
