"""The row changes of a commit come from its change files, or from its adds, removes and deletion vectors."""

from __future__ import annotations

import tracemalloc

import pytest

from deltalite.errors import CorruptLogError
from deltalite.log.changes import ChangeType, CommitChanges
from deltalite.protocol.actions import AddCDCFile, to_json
from tests.unit.builders import add, commit_info, metadata, remove, txn, vector

OLD_VECTOR, NEW_VECTOR = vector("old"), vector("new", 1)
DELETE, INSERT = ChangeType.DELETE, ChangeType.INSERT
COUNTS = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


def cdc(path, **changes):
    return AddCDCFile(path=path, **{"partition_values": {}, "size_bytes": 7, "data_change": False, **changes})


def changed_files(*actions):
    commit = CommitChanges("x.json")
    for action in actions:
        commit.take(action.action, to_json(action))
    return list(commit.files(version=3, timestamp_ms=5))


def row_changes(*actions):
    """The change type, the path, the vector of excluded rows and the vector of selected rows of each changed file."""
    files = changed_files(*actions)
    assert {(f.version, f.timestamp_ms) for f in files} <= {(3, 5)}
    return [(f.change_type, f.path, f.deletion_vector, f.only_rows_vector) for f in files]


def test_recorded_changes_replace_all_other_changes():
    assert row_changes(remove("a"), add("b"), cdc("_change_data/c"), cdc("_change_data/d")) == [
        (None, "_change_data/c", None, None),
        (None, "_change_data/d", None, None),
    ]


def test_without_recorded_changes_a_remove_deletes_rows_and_an_add_inserts_rows():
    assert row_changes(txn("x"), metadata(), add("a"), remove("b"), add("c", deletion_vector=NEW_VECTOR)) == [
        (DELETE, "b", None, None),
        (INSERT, "a", None, None),
        (INSERT, "c", NEW_VECTOR, None),
    ]
    assert row_changes(commit_info(operation="WRITE"), txn("x")) == []


def test_a_remove_does_not_delete_soft_deleted_rows_again():
    assert row_changes(remove("a", deletion_vector=OLD_VECTOR)) == [(DELETE, "a", OLD_VECTOR, None)]


def test_actions_without_a_data_change_are_no_changes():
    rewritten = (remove("a", data_change=False), add("b", data_change=False))
    assert row_changes(*rewritten) == []
    assert row_changes(*rewritten, add("c")) == [(INSERT, "c", None, None)]


def test_a_file_that_is_removed_and_added_changes_by_the_difference_of_its_deletion_vectors():
    deletion, insertion = (DELETE, "a", None, NEW_VECTOR), (INSERT, "a", None, OLD_VECTOR)
    assert row_changes(remove("a"), add("a", deletion_vector=NEW_VECTOR)) == [deletion]
    assert row_changes(remove("a", deletion_vector=OLD_VECTOR), add("a")) == [insertion]
    assert row_changes(add("a", deletion_vector=NEW_VECTOR), remove("a", deletion_vector=OLD_VECTOR)) == [
        (DELETE, "a", OLD_VECTOR, NEW_VECTOR),
        (INSERT, "a", NEW_VECTOR, OLD_VECTOR),
    ]


def test_two_spellings_of_a_path_name_one_file():
    assert row_changes(remove("a%2Fb"), add("a/b", deletion_vector=NEW_VECTOR)) == [(DELETE, "a/b", None, NEW_VECTOR)]
    assert row_changes(remove("file:/t/a"), add("file:///t/a", deletion_vector=NEW_VECTOR)) == [
        (DELETE, "file:///t/a", None, NEW_VECTOR),
    ]
    assert row_changes(remove("d//./x"), add("d/x", deletion_vector=NEW_VECTOR)) == [(DELETE, "d/x", None, NEW_VECTOR)]


def test_a_remove_without_a_data_change_is_ignored_although_its_file_is_added():
    assert row_changes(remove("a", data_change=False), add("a", deletion_vector=NEW_VECTOR)) == [
        (INSERT, "a", NEW_VECTOR, None)
    ]


@pytest.mark.parametrize("deletion_vector", [None, OLD_VECTOR])
def test_a_file_that_is_removed_and_added_unchanged_is_rejected(deletion_vector):
    with pytest.raises(CorruptLogError, match="Version 3 removes and adds the file 'a' without a change"):
        row_changes(remove("a", deletion_vector=deletion_vector), add("a", deletion_vector=deletion_vector))


@pytest.mark.parametrize(
    ("operation", "metrics", "has_changes"),
    [
        ("MERGE", dict.fromkeys(COUNTS, "0"), False),
        ("MERGE", dict.fromkeys(COUNTS, 0), False),
        ("UPDATE", dict.fromkeys(COUNTS, "0"), True),
        ("MERGE", dict.fromkeys(COUNTS, "0") | {COUNTS[1]: "1"}, True),
        ("MERGE", dict.fromkeys(COUNTS[:2], "0"), True),
        ("MERGE", None, True),
        ("MERGE", "0", True),
    ],
)
def test_a_merge_that_only_rewrote_files_has_no_changes(operation, metrics, has_changes):
    actions = (commit_info(operation=operation, operationMetrics=metrics), remove("a"), add("b"))
    assert bool(row_changes(*actions)) is bool(row_changes(*reversed(actions))) is has_changes
    assert len(row_changes(*actions, cdc("c"))) == 1


def test_changed_files_have_the_partition_values_and_sizes_of_their_actions():
    actions = (remove("a", partition_values={"day": "1"}, size_bytes=5), remove("b"), add("c", size_bytes=9))
    files = changed_files(*actions)
    assert [(f.path, f.partition_values, f.size_bytes) for f in files] == [
        ("a", {"day": "1"}, 5),
        ("b", None, None),
        ("c", {}, 9),
    ]


def test_malformed_adds_and_removes_are_ignored_after_recorded_changes():
    commit = CommitChanges("x.json")
    for kind, body in (("add", to_json(add("a"))), ("cdc", to_json(cdc("c"))), ("add", {}), ("remove", {"path": 1})):
        commit.take(kind, body)
    assert [f.path for f in commit.files(version=0, timestamp_ms=0)] == ["c"]


@pytest.mark.parametrize(
    ("kind", "changes", "problem"),
    [
        ("add", {"path": None}, "add action: `path` is missing"),
        ("add", {"size": "x"}, "add action: `size` is "),
        ("add", {"size": True}, "add action: `size` is "),
        ("add", {"partitionValues": None}, "add action: `partitionValues` is missing"),
        ("add", {"partitionValues": {"day": 1}}, "add action: `partitionValues` is "),
        ("add", {"partitionValues": []}, "add action: `partitionValues` is "),
        ("add", {"deletionVector": "x"}, "add action: `deletionVector` is "),
        ("add", {"dataChange": None}, "add action: `dataChange` is missing"),
        ("remove", {"dataChange": "no"}, "remove action: `dataChange` is "),
        ("remove", {"partitionValues": []}, "remove action: `partitionValues` is "),
        ("cdc", {"path": []}, "cdc action: `path` is "),
        ("protocol", {}, "protocol action: `minReaderVersion` is missing"),
        ("metaData", {}, "metaData action: `id` is missing"),
    ],
)
def test_the_error_names_the_file_of_a_malformed_action(kind, changes, problem):
    valid_bodies = {action.action: to_json(action) for action in (add("a"), remove("a"), cdc("c"))}
    with pytest.raises(CorruptLogError, match=rf"x\.json contains an invalid {problem}"):
        CommitChanges("x.json").take(kind, valid_bodies.get(kind, {}) | changes)


def test_a_changed_file_keeps_only_the_fields_that_identify_its_rows():
    count, stats = 5_000, "s" * 2_000
    commit = CommitChanges("x.json")
    tracemalloc.start()
    for number in range(count):
        body = {"path": f"part-{number}", "partitionValues": {"day": "1"}, "size": number, "dataChange": True}
        commit.take("add", body | {"stats": stats + str(number), "modificationTime": 0, "tags": {"k": "v"}})
    kept_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept_bytes < 500 * count
    assert len(list(commit.files(version=0, timestamp_ms=0))) == count
