"""Row ids and row commit versions of added files, and the high water mark that a commit records."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from deltalite.errors import (
    ConcurrentDeleteReadException,
    ConcurrentModificationException,
    ConstraintViolationError,
    CorruptLogError,
    InvalidRequestError,
)
from deltalite.protocol.actions import DomainMetadata, Protocol
from deltalite.protocol.row_tracking import HIGHEST_ROW_ID, high_water_mark, mark_domain
from deltalite.txn.commit import commit
from deltalite.txn.proposal import BaseState
from tests.unit.builders import Clock, add, add_rival, load, metadata, new_store, proposal, put_raw, remove, vector

TRACKING_PROTOCOL = Protocol(
    min_reader_version=1, min_writer_version=7, writer_features=("domainMetadata", "rowTracking")
)


def file(path, records, **changes):
    return add(path, stats=json.dumps({"numRecords": records}), **changes)


def store_with_row_tracking(configuration=None):
    """A store with an empty table that supports row tracking."""
    store = new_store()
    put_raw(store, 0, [TRACKING_PROTOCOL, metadata(configuration)])
    return store


def row_ids_by_path(snapshot):
    """The base row id and the row commit version of each file."""
    files = snapshot.files_with(["path", "baseRowId", "defaultRowCommitVersion"])
    return {row["path"]: (row["baseRowId"], row["defaultRowCommitVersion"]) for row in files.to_pylist()}


def commit_on_snapshot(store, *actions, read_version=None):
    """Commit actions on a snapshot, by default the newest one."""
    base = BaseState.of(load(store, read_version))
    return commit(
        store, replace(proposal(base.version, *actions), base=base), clock_ms=Clock(), pause=lambda _seconds: None
    )


def test_files_get_ids_above_the_high_water_mark_and_the_version_of_their_commit():
    store = store_with_row_tracking()
    commit_on_snapshot(store, file("a", 3), file("b", 5))
    commit_on_snapshot(store, file("c", 2))
    assert row_ids_by_path(load(store)) == {"a": (0, 1), "b": (3, 1), "c": (8, 2)}
    assert high_water_mark(load(store).domains) == 9


def test_a_file_without_rows_takes_no_id():
    store = store_with_row_tracking()
    commit_on_snapshot(store, file("a", 0), file("b", 1))
    assert row_ids_by_path(load(store)) == {"a": (0, 1), "b": (0, 1)}
    assert high_water_mark(load(store).domains) == 0


def test_a_lost_race_assigns_ids_above_those_of_the_winning_commit():
    store = store_with_row_tracking()
    commit_on_snapshot(store, file("a", 3))
    winner = file("w", 10, base_row_id=3, default_row_commit_version=2)
    add_rival(store, [mark_domain(12), winner])
    commit_on_snapshot(store, file("b", 4), read_version=1)
    assert row_ids_by_path(load(store)) == {"a": (0, 1), "w": (3, 2), "b": (13, 3)}
    assert high_water_mark(load(store).domains) == 16


def test_a_file_of_the_table_keeps_its_id_with_another_deletion_vector():
    store = store_with_row_tracking()
    commit_on_snapshot(store, file("a", 3))
    same_file = file("a", 3, deletion_vector=vector("x"), base_row_id=0, default_row_commit_version=1)
    commit_on_snapshot(store, remove("a", base_row_id=0, default_row_commit_version=1), same_file)
    assert row_ids_by_path(load(store)) == {"a": (0, 1)}
    assert high_water_mark(load(store).domains) == 2


def test_a_file_from_before_row_tracking_gets_an_id_when_it_is_committed_again():
    store = store_with_row_tracking()
    put_raw(store, 1, [file("old", 4)])
    commit_on_snapshot(store, remove("old"), file("old", 4, deletion_vector=vector("x")))
    assert row_ids_by_path(load(store)) == {"old": (0, 2)}


def test_no_row_ids_are_assigned_while_row_tracking_is_suspended():
    store = store_with_row_tracking({"delta.rowTrackingSuspended": "true"})
    commit_on_snapshot(store, file("a", 3))
    assert row_ids_by_path(load(store)) == {"a": (None, None)}
    assert load(store).domains == {}


def test_a_commit_without_files_leaves_the_high_water_mark():
    store = store_with_row_tracking()
    commit_on_snapshot(store, file("a", 3))
    commit_on_snapshot(store, remove("a"))
    assert high_water_mark(load(store).domains) == 2
    assert "domainMetadata" not in store.files["_delta_log/00000000000000000002.json"][0].decode()


@pytest.mark.parametrize("stats", [None, "{}", '{"numRecords":-1}', '{"numRecords":"x"}', "no JSON"])
def test_a_file_without_a_number_of_records_is_rejected_and_nothing_is_committed(stats):
    store = store_with_row_tracking()
    with pytest.raises(InvalidRequestError, match="row ids to the file a: its statistics lack numRecords"):
        commit_on_snapshot(store, add("a", stats=stats))
    assert load(store).version == 0


def test_a_commit_that_needs_more_row_ids_than_remain_is_rejected():
    store = store_with_row_tracking()
    put_raw(store, 1, [mark_domain(HIGHEST_ROW_ID - 2)])
    commit_on_snapshot(store, file("fits", 2))
    with pytest.raises(ConstraintViolationError, match="used up its row ids"):
        commit_on_snapshot(store, file("a", 1))
    assert row_ids_by_path(load(store)) == {"fits": (HIGHEST_ROW_ID - 1, 2)}


@pytest.mark.parametrize("mark", ["[]", "{}", '"5"', "true", "-2", "9223372036854775808"])
def test_a_malformed_high_water_mark_is_an_error(mark):
    configuration = f'{{"rowIdHighWaterMark":{mark}}}'
    domain = DomainMetadata(domain="delta.rowTracking", configuration=configuration, removed=False)
    with pytest.raises(CorruptLogError, match="holds no highest row id"):
        high_water_mark({"delta.rowTracking": domain})


def test_the_removal_of_a_file_that_got_row_ids_from_the_winning_commit_is_a_conflict():
    store = store_with_row_tracking()
    put_raw(store, 1, [file("a", 3), file("b", 3)])
    backfill = file("a", 3, data_change=False, base_row_id=0, default_row_commit_version=2)
    put_raw(store, 2, [backfill, mark_domain(2)])
    commit_on_snapshot(store, remove("b"), read_version=1)
    with pytest.raises(ConcurrentDeleteReadException, match=r"removes the file a, .*re-added it .*such as row ids"):
        commit_on_snapshot(store, remove("a"), read_version=1)


@pytest.mark.parametrize(
    ("winner", "problem"),
    [
        ([remove("a", data_change=True)], "re-adds the file a, but .*removed it first"),
        ([remove("a", data_change=False)], "re-adds the file a, but .*removed it first"),
        (
            [file("a", 3, data_change=False, base_row_id=0, default_row_commit_version=2)],
            "re-adds the file a, and .*re-added it",
        ),
    ],
)
def test_a_backfill_conflicts_with_a_winning_commit_that_removed_or_re_added_its_file(winner, problem):
    store = store_with_row_tracking()
    put_raw(store, 1, [file("a", 3)])
    put_raw(store, 2, winner)
    with pytest.raises(ConcurrentModificationException, match=problem):
        commit_on_snapshot(store, file("a", 3, data_change=False), read_version=1)


def test_a_file_with_ids_above_the_high_water_mark_raises_the_mark():
    """A restore adds such a file if another engine dropped row tracking and its mark, and enabled it again."""
    store = store_with_row_tracking()
    commit_on_snapshot(store, file("old", 4, base_row_id=100, default_row_commit_version=1), file("new", 2))
    assert row_ids_by_path(load(store)) == {"old": (100, 1), "new": (104, 1)}
    assert high_water_mark(load(store).domains) == 105


@pytest.mark.parametrize("keeps_row_ids", [True, False])
def test_a_commit_to_a_tracked_table_says_whether_rows_keep_their_ids(keeps_row_ids):
    store = new_store()
    put_raw(store, 0, [TRACKING_PROTOCOL, metadata({"delta.enableRowTracking": "true"})])
    base = BaseState.of(load(store))
    commit(store, replace(proposal(0, file("a", 1)), base=base, keeps_row_ids=keeps_row_ids), clock_ms=Clock())
    assert load(store).commit_info["tags"] == {"delta.rowTracking.preserved": str(keeps_row_ids).lower()}
    store_without_property = store_with_row_tracking()
    commit_on_snapshot(store_without_property, file("a", 1))
    assert "tags" not in load(store_without_property).commit_info
