"""Deletes and updates that lose a race: changes of different rows both commit, changes of the same row conflict."""

from __future__ import annotations

import pytest

from deltalite import DeltaTable
from deltalite.errors import ConcurrentAppendException, ConcurrentModificationException
from deltalite.storage.local import LocalLogStore
from tests.support.tables import commit, data_files, delete_rows, rows, update_rows, values, write_rows

pytestmark = pytest.mark.spark

VECTORS = {"delta.enableDeletionVectors": "true"}


@pytest.fixture
def race(spark, tmp_path, monkeypatch):
    """`race(ours, theirs)` lets `theirs` commit right before `ours` does, on one file of the ids 0 to 9."""
    table = tmp_path / "t"

    def run(ours, theirs, properties=VECTORS, **options):
        query = "SELECT /*+ COALESCE(1) */ id, 0 AS x FROM range(10)"
        write_rows(spark, table, query, properties={**properties, "delta.isolationLevel": "Serializable"})
        original = LocalLogStore.write_if_absent

        def rival_first(store, name, data):
            monkeypatch.setattr(LocalLogStore, "write_if_absent", original)
            theirs(spark, table)
            return original(store, name, data)

        monkeypatch.setattr(LocalLogStore, "write_if_absent", rival_first)
        return ours(spark, table, **{"conflict_retries": 0, **options})

    run.table = table
    return run


def delete_of(condition):
    return lambda spark, table, **options: delete_rows(spark, table, condition, **options)


def update_of(condition):
    return lambda spark, table, **options: update_rows(spark, table, {"x": "x + 1"}, condition, **options)


def state(table):
    """The ids whose `x` is 0, and those whose `x` has grown to 1."""
    rows_read = sorted(rows(table))
    return [i for i, x in rows_read if x == 0], [i for i, x in rows_read if x == 1]


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (delete_of("id = 1"), delete_of("id = 2"), ([0, 3, 4, 5, 6, 7, 8, 9], [])),
        (update_of("id = 1"), delete_of("id = 2"), ([0, 3, 4, 5, 6, 7, 8, 9], [1])),
        (delete_of("id = 1"), update_of("id = 2"), ([0, 3, 4, 5, 6, 7, 8, 9], [2])),
        (update_of("id = 1"), update_of("id = 2"), ([0, 3, 4, 5, 6, 7, 8, 9], [1, 2])),
    ],
    ids=["deletes", "update on delete", "delete on update", "updates"],
)
def test_other_rows_of_one_file_are_changed_without_planning_again(race, ours, theirs, expected):
    result = race(ours, theirs)
    assert (result.version, result.read_version) == (2, 0)
    assert state(race.table) == expected
    left = [add for add in commit(race.table, 2)["add"] if "deletionVector" in add]
    assert len(left) == 1
    files = list(race.table.glob("deletion_vector*"))
    assert len(files) == 2, "the winner's and the merged one; ours that was merged is gone"


def test_of_two_deletes_of_one_row_the_second_finds_nothing(race):
    result = race(delete_of("id = 1"), delete_of("id = 1"), conflict_retries=1)
    assert not result.committed and result.version == 1
    assert state(race.table) == ([0, 2, 3, 4, 5, 6, 7, 8, 9], [])
    assert len(list(race.table.glob("deletion_vector*"))) == 1


def test_two_updates_of_one_row_come_one_after_the_other(race):
    result = race(update_of("id = 1"), update_of("id = 1"), conflict_retries=1)
    assert result.committed and result.read_version == 1 and dict(rows(race.table))[1] == 2


@pytest.mark.parametrize("ours", [delete_of("id = 1"), update_of("id = 1")], ids=["delete", "update"])
def test_without_vectors_two_changes_of_one_file_do_not_both_win(race, ours):
    with pytest.raises(ConcurrentModificationException, match="version 1"):
        race(ours, delete_of("id = 2"), {})
    assert state(race.table) == ([0, 1, 3, 4, 5, 6, 7, 8, 9], [])
    known = {add["path"] for version in (0, 1) for add in commit(race.table, version)["add"]}
    assert data_files(race.table) == known, "what was not committed is removed"


@pytest.mark.parametrize("ours", [delete_of("id >= 5 AND id < 100"), update_of("id >= 5 AND id < 100")])
def test_a_row_that_came_meanwhile_is_changed_too(race, ours):
    arrives = lambda spark, table: write_rows(spark, table, values("id, x", "50L, 0"))
    race(ours, arrives, conflict_retries=1)
    zero, grown = state(race.table)
    assert zero == [0, 1, 2, 3, 4] and (50 in grown) is bool(grown)
    assert DeltaTable(str(race.table)).version == 2


def test_a_row_that_came_meanwhile_is_a_contradiction(race):
    with pytest.raises(ConcurrentAppendException, match="version 1"):
        race(delete_of("id >= 5"), lambda spark, table: write_rows(spark, table, values("id, x", "50L, 0")))
    assert state(race.table)[0] == [*range(10), 50]


def test_a_row_that_came_elsewhere_is_no_matter(race):
    result = race(delete_of("id = 5"), lambda spark, table: write_rows(spark, table, values("id, x", "50L, 0")))
    assert (result.version, result.read_version) == (2, 0) and 50 in state(race.table)[0]
