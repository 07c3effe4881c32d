"""Old records of loaded files are deleted, except the records that a readable version names."""

from __future__ import annotations

import dataclasses

import pytest

from deltalite.errors import CorruptLogError
from deltalite.loaded_files.manifest import (
    Manifest,
    current_manifest_number,
    manifest_name,
    manifest_number,
    read_manifest,
)
from deltalite.loaded_files.record import add_loaded_files
from deltalite.protocol.actions import NOTHING_LOADED
from deltalite.protocol.file_names import LOADED_FILES_DIR, commit_name
from deltalite.protocol.properties import DAY_MS
from deltalite.txn.loaded_files import loaded_files_transaction
from deltalite.upkeep.checkpoint import write_checkpoint
from deltalite.upkeep.loaded_files import check_record_not_lost, delete_unneeded_records
from tests.unit.builders import NOON_MS, add, create, load, new_store, newest_version, proposal, try_commit
from tests.unit.loaded_files.test_record import files

LATER_MS = NOON_MS + 31 * DAY_MS


def put_record(store, base, *names):
    """Write a manifest with one more segment for each name, and return the last manifest."""
    for name in names:
        base = add_loaded_files(store, base, files((name, 1, NOON_MS)), loaded_ms=NOON_MS)
    return base


def commit_manifest_number(store, number):
    version = newest_version(store)
    offsets = (loaded_files_transaction(number, now_ms=NOON_MS),)
    try_commit(store, dataclasses.replace(proposal(version, add(f"f{version}")), offsets=offsets))


def manifest_numbers(store):
    return {number for name in store.files if (number := manifest_number(name)) is not None}


def segments(store):
    return {name for name in store.files if name.startswith(f"{LOADED_FILES_DIR}/segment-")}


@pytest.fixture
def table():
    """A table whose versions name the manifests 0, 2 and again 0 (a restore). The manifests 1 and 3 are leftovers."""
    store = create(new_store())
    first = put_record(store, Manifest(), "a")
    put_record(store, first, "lost a race")
    second = put_record(store, first, "b")
    for number in (0, 2, 0):
        commit_manifest_number(store, number)
    put_record(store, second, "killed")
    return store


def remove_transactions(store):
    """Write a checkpoint without transactions, as an engine does after they have expired."""
    commits = {name: file for name, file in store.files.items() if name.endswith(".json")}
    for name, (data, modified_ms) in commits.items():
        kept_lines = [line for line in data.splitlines() if not line.startswith(b'{"txn"')]
        store.files[name] = (b"\n".join(kept_lines), modified_ms)
    write_checkpoint(load(store), now_ms=NOON_MS)
    store.files.update(commits)


def test_a_record_that_another_engine_has_removed_is_an_error(table):
    check_record_not_lost(load(table))
    remove_transactions(table)
    try_commit(table, proposal(newest_version(table), add("g")))
    with pytest.raises(
        CorruptLogError, match=r"version 3 has a record of loaded files, and version 4 has none"
    ) as error:
        check_record_not_lost(load(table))
    assert "Restore version 3" in error.value.remedy


def test_a_table_that_never_had_a_record_may_have_leftovers_of_killed_runs():
    store = create(new_store())
    check_record_not_lost(load(store))
    put_record(store, Manifest(), "killed")
    check_record_not_lost(load(store))
    commit_manifest_number(store, NOTHING_LOADED)  # as a restore does
    check_record_not_lost(load(store))


def test_a_removed_record_is_not_detected_if_the_log_no_longer_has_its_versions(table):
    remove_transactions(table)
    for version in range(newest_version(table) + 1):
        table.files.pop(commit_name(version))
    try_commit(table, proposal(3, add("g")))
    check_record_not_lost(load(table))


def test_manifests_of_runs_that_did_not_commit_are_deleted_when_they_are_old(table):
    assert delete_unneeded_records(table, now_ms=NOON_MS + 29 * DAY_MS) == 0
    lost_segments = segments(table) - {
        segment.name for number in (0, 2, 3) for segment in read_manifest(table, number).segments
    }
    assert len(lost_segments) == 1
    assert delete_unneeded_records(table, now_ms=LATER_MS) == 2
    assert manifest_numbers(table) == {0, 2, 3}, "3 stays, because it has the highest number"
    assert not lost_segments & segments(table)
    assert read_manifest(table, current_manifest_number(load(table).transactions)).file_count == 1
    assert read_manifest(table, 2).file_count == 2


def test_manifests_of_versions_that_left_the_log_are_deleted(table):
    write_checkpoint(load(table), now_ms=NOON_MS)
    for version in range(newest_version(table)):
        del table.files[commit_name(version)]
    assert delete_unneeded_records(table, now_ms=LATER_MS) == 3
    assert manifest_numbers(table) == {0, 3}


def test_the_manifest_of_the_oldest_checkpoint_stays(table):
    commit_manifest_number(table, 2)
    write_checkpoint(load(table, 3), now_ms=NOON_MS)
    for version in range(4):
        del table.files[commit_name(version)]
    delete_unneeded_records(table, now_ms=LATER_MS)
    assert manifest_numbers(table) == {0, 2, 3}


def test_a_longer_retention_of_removed_files_protects_manifests_too():
    store = create(new_store(), configuration={"delta.deletedFileRetentionDuration": "interval 60 days"})
    put_record(store, Manifest(), "a", "b")
    assert delete_unneeded_records(store, now_ms=LATER_MS) == 0
    assert delete_unneeded_records(store, now_ms=NOON_MS + 61 * DAY_MS) == 1


def test_an_unreadable_needed_manifest_stops_the_deletion(table):
    table.files[manifest_name(2)] = (b"no", NOON_MS)
    before = dict(table.files)
    with pytest.raises(CorruptLogError, match="malformed"):
        delete_unneeded_records(table, now_ms=LATER_MS)
    assert table.files == before


def test_a_table_without_a_record_reads_only_one_listing():
    store = create(new_store())
    requests = []
    store.before = lambda operation, name: requests.append((operation, name))
    assert delete_unneeded_records(store, now_ms=LATER_MS) == 0
    assert requests == [("list", f"{LOADED_FILES_DIR}/")]
