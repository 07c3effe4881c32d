"""A restore rejects files that a running vacuum may delete."""

from __future__ import annotations

import json

import deltalake
import pytest

from deltalite import DeltaTable
from deltalite.commands.common.committing import now_ms
from deltalite.commands.restore import command, restore, running_vacuum
from deltalite.commands.vacuum import vacuum
from deltalite.errors import ConcurrentWriteException
from deltalite.protocol.file_names import commit_name
from deltalite.protocol.properties import HOUR_MS
from deltalite.requests import RestoreRequest, VacuumRequest
from tests.support.table_history import DAYS, TableHistory
from tests.unit.builders import (
    add,
    add_rival,
    commit_info,
    create,
    load,
    new_store,
    newest_version,
    paths,
    put_raw,
    remove,
)

ONE_WEEK_OF_TABLE = {"defaultRetentionMillis": str(168 * HOUR_MS)}
ONE_DAY_REQUESTED = {"specifiedRetentionMillis": str(24 * HOUR_MS)}


@pytest.fixture
def store(monkeypatch):
    """A table in memory: `a` was added in version 0, `b` in version 1."""
    store = create(new_store(), add("a"))
    put_raw(store, 1, [add("b")])
    for name in "abc":
        store.files[name] = (b"0123456789", 0)
    monkeypatch.setattr(command, "writable_store", lambda *_a, **_o: store)
    return store


def restore_version(version, **options):
    return restore(None, RestoreRequest(table="/t", version=version, **options))


def commit_removal_of_a(store, *, hours_ago):
    """Commit version 2, which adds `c` and removes `a`."""
    put_raw(store, 2, [add("c"), remove("a", deletion_timestamp_ms=now_ms() - int(hours_ago * HOUR_MS))])


def commit_operation(store, version, operation="VACUUM START", *, hours_ago=0.1, engine="deltalite/1", **parameters):
    """Commit only a `commitInfo` action with this operation. `hours_ago` is the age of the commit."""
    put_raw(store, version, [commit_info(operation=operation, operationParameters=parameters, engineInfo=engine)])
    store.files[commit_name(version)] = (store.files[commit_name(version)][0], now_ms() - int(hours_ago * HOUR_MS))


def test_a_restore_is_rejected_if_a_running_vacuum_may_delete_its_files(store):
    commit_removal_of_a(store, hours_ago=169)
    commit_operation(store, 3, **ONE_WEEK_OF_TABLE)
    with pytest.raises(ConcurrentWriteException, match="began in version 3 and has not ended"):
        restore_version(1)
    assert newest_version(store) == 3
    assert restore_version(3).version == 3, "a restore that adds no file must not fail"
    commit_operation(store, 4, "VACUUM END")
    assert restore_version(1).version == 5


def test_a_vacuum_that_starts_after_the_plan_blocks_the_restore(store):
    commit_removal_of_a(store, hours_ago=169)
    vacuum_start = commit_info(operation="VACUUM START", operationParameters=ONE_WEEK_OF_TABLE)
    add_rival(store, [vacuum_start])
    with pytest.raises(ConcurrentWriteException, match=r"started in version 3 \(VACUUM START"):
        restore_version(1, conflict_retries=0)


def test_a_vacuum_that_started_25_hours_ago_is_ignored(store):
    commit_removal_of_a(store, hours_ago=169)
    commit_operation(store, 3, hours_ago=25, **ONE_WEEK_OF_TABLE)
    assert restore_version(1).version == 4


def test_a_running_vacuum_is_found_behind_many_later_commits_of_a_stream(store, monkeypatch):
    commit_removal_of_a(store, hours_ago=200)
    commit_operation(store, 3, hours_ago=20, **ONE_WEEK_OF_TABLE)
    for version in range(4, 1_204):
        commit_operation(store, version, "STREAMING UPDATE")
    with pytest.raises(ConcurrentWriteException, match="began in version 3"):
        restore_version(1)
    monkeypatch.setattr(running_vacuum, "_MAX_COMMITS", 1_200)
    assert restore_version(1).version == 1_204, "the search reads a limited number of commits"


@pytest.mark.parametrize("is_start_cleaned_up", [True, False])
def test_the_search_for_running_vacuums_ends_at_a_deleted_commit(store, is_start_cleaned_up):
    commit_removal_of_a(store, hours_ago=169)
    commit_operation(store, 3, **ONE_WEEK_OF_TABLE)
    commit_operation(store, 4, "STREAMING UPDATE")
    base, deleted_commit = load(store), commit_name(3 if is_start_cleaned_up else 2)
    store.before = lambda operation, name: store.files.pop(deleted_commit, None) if operation == "read" else None
    versions = [commit.version for commit in running_vacuum._running_vacuums(base, now_ms())]
    assert versions == ([] if is_start_cleaned_up else [3])


@pytest.mark.parametrize(
    "parameters", [ONE_WEEK_OF_TABLE, ONE_WEEK_OF_TABLE | ONE_DAY_REQUESTED, {"defaultRetentionMillis": 24 * HOUR_MS}]
)
def test_files_that_an_unfinished_vacuum_keeps_are_restored(store, parameters):
    commit_removal_of_a(store, hours_ago=1)
    commit_operation(store, 3, **parameters)
    assert restore_version(1).version == 4
    assert paths(load(store)) == ["a", "b"]


@pytest.mark.parametrize(
    ("hours_ago", "parameters"),
    [
        pytest.param(
            167.5, ONE_WEEK_OF_TABLE, id="younger than the retention by less than the tolerance for clock skew"
        ),
        pytest.param(30, ONE_WEEK_OF_TABLE | ONE_DAY_REQUESTED, id="older than the requested retention"),
        pytest.param(
            200,
            ONE_WEEK_OF_TABLE | {"specifiedRetentionMillis": str(400 * HOUR_MS)},
            id="older than the retention of the table; some vacuums ignore a longer requested retention",
        ),
        pytest.param(1, ONE_DAY_REQUESTED, id="the vacuum does not record the retention of the table"),
        pytest.param(
            1,
            ONE_WEEK_OF_TABLE | {"specifiedRetentionMillis": "interval 1 week"},
            id="the requested retention is not a number",
        ),
        pytest.param(1, {}, id="the vacuum records no retention"),
    ],
)
def test_files_that_a_running_vacuum_may_delete_are_not_restored(store, hours_ago, parameters):
    commit_removal_of_a(store, hours_ago=hours_ago)
    commit_operation(store, 3, **parameters)
    with pytest.raises(ConcurrentWriteException, match=r"It may delete 1 of the files to restore, such as a\."):
        restore_version(1)
    assert newest_version(store) == 3


def test_a_vacuum_end_is_not_matched_to_one_of_several_vacuum_starts(store):
    commit_removal_of_a(store, hours_ago=1)
    commit_operation(store, 3, **ONE_WEEK_OF_TABLE)
    commit_operation(store, 4, **ONE_WEEK_OF_TABLE, specifiedRetentionMillis="0")
    commit_operation(store, 5, "VACUUM END")
    with pytest.raises(ConcurrentWriteException, match="began in version 3"):
        restore_version(1)
    commit_operation(store, 6, "VACUUM END")
    assert restore_version(1).version == 7


def test_a_file_is_restored_only_with_its_last_deletion_vector(store):
    """A vacuum that keeps a file with two vectors may still delete the first vector."""
    first_vector, second_vector = (
        {"storageType": "i", "pathOrInlineDv": name, "sizeInBytes": 9, "cardinality": 1} for name in "xy"
    )
    put_raw(store, 1, [remove("a"), add("a", deletion_vector=first_vector)])
    put_raw(store, 2, [remove("a", deletion_vector=first_vector), add("a", deletion_vector=second_vector)])
    removed_file = remove("a", deletion_timestamp_ms=now_ms() - HOUR_MS, deletion_vector=second_vector)
    put_raw(store, 3, [removed_file])
    commit_operation(store, 4, **ONE_WEEK_OF_TABLE)
    with pytest.raises(ConcurrentWriteException, match="such as a"):
        restore_version(1)
    assert restore_version(2).version == 5


@pytest.mark.parametrize("had_vector_before", [False, True])
def test_a_vacuum_without_deletion_vector_support_may_delete_all_files_that_ever_had_a_vector(store, had_vector_before):
    """The vacuum of delta-rs uses the oldest removal of a data file, and deletes all files of deletion vectors."""
    vector = {"storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 9, "cardinality": 1}
    first_vector, second_vector = (vector, None) if had_vector_before else (None, vector)
    put_raw(store, 1, [remove("a", deletion_vector=first_vector), add("a", deletion_vector=second_vector)])
    put_raw(store, 2, [remove("a", deletion_timestamp_ms=now_ms() - HOUR_MS, deletion_vector=second_vector)])
    commit_operation(store, 3, **ONE_WEEK_OF_TABLE)
    commit_operation(store, 4, engine="delta-rs:py-1.6.6", **ONE_WEEK_OF_TABLE)
    with pytest.raises(ConcurrentWriteException, match=r"It may delete 1 of the files to restore, such as a\."):
        restore_version(1)
    commit_operation(store, 5, "VACUUM END")
    commit_operation(store, 6, "VACUUM END")
    commit_operation(store, 7, **ONE_WEEK_OF_TABLE)
    assert restore_version(1).version == 8


def vacuum_by_deltalite(table):
    vacuum(None, VacuumRequest(table=table))


def vacuum_by_delta_rs(table):
    deltalake.DeltaTable(table).vacuum(dry_run=False)


@pytest.mark.parametrize("run_vacuum", [vacuum_by_deltalite, vacuum_by_delta_rs])
def test_a_restore_reads_the_retention_from_the_vacuum_start_of_each_engine(tmp_path, run_vacuum):
    """The vacuum deletes an old file. The deleted VACUUM END commit simulates a kill before that commit."""
    history = TableHistory(tmp_path / "t", {"delta.deletedFileRetentionDuration": "interval 2 days"})
    history.append(2)
    history.replace(DAYS[0])
    history.now_ms = now_ms() - HOUR_MS
    history.replace(DAYS[1])
    run_vacuum(str(history.folder))
    (history.folder / commit_name(5)).unlink()
    (vacuum_start,) = (
        json.loads(line)["commitInfo"] for line in (history.folder / commit_name(4)).read_text().splitlines()
    )
    assert (vacuum_start["operation"], int(vacuum_start["operationMetrics"]["numFilesToDelete"])) == ("VACUUM START", 1)
    assert restore(None, RestoreRequest(table=str(history.folder), version=2)).version == 5
    assert DeltaTable(str(history.folder)).to_arrow()["id"].to_pylist() == history.rows_of(2)
