"""Deletes and updates that lose a race against a winning commit.

With deletion vectors, they commit if the winning commit changed other rows, and replan if it changed the same rows.
"""

from __future__ import annotations

import shutil
from functools import cache

import pytest

from deltalite import DeltaTable
from deltalite.errors import ConcurrentAppendException, ConcurrentModificationException
from tests.support.properties import VECTORS
from tests.support.racing import run_before_commits
from tests.support.tables import actions_of, data_files, delete_rows, rows, update_rows, values, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory):
    """Return `template(properties)`, a table with these properties. It has one file with the ids 0 to 9."""

    @cache
    def write(properties):
        table = tmp_path_factory.mktemp("template") / "t"
        query = "SELECT /*+ COALESCE(1) */ id, 0 AS x FROM range(10)"
        write_rows(spark, table, query, properties=dict(properties))
        return table

    return lambda properties: write(tuple(properties.items()))


@pytest.fixture
def race(spark, template, tmp_path, monkeypatch):
    """Return `race(change, winning_change)`, which commits `winning_change` between the plan and commit of `change`."""
    table = tmp_path / "t"

    def run(change, winning_change, properties=VECTORS, **options):
        shutil.copytree(template({**properties, "delta.isolationLevel": "Serializable"}), table)
        run_before_commits(monkeypatch, lambda: winning_change(spark, table))
        return change(spark, table, **{"conflict_retries": 0, **options})

    run.table = table
    return run


def delete_of(condition):
    return lambda spark, table, **options: delete_rows(spark, table, condition, **options)


def update_of(condition):
    return lambda spark, table, **options: update_rows(spark, table, {"x": "x + 1"}, condition, **options)


def ids_by_x(table):
    """Return the ids of the rows with `x` = 0, and the ids of the rows with `x` = 1."""
    rows_read = sorted(rows(table))
    return [i for i, x in rows_read if x == 0], [i for i, x in rows_read if x == 1]


@pytest.mark.parametrize(
    ("change", "winning_change", "expected"),
    [
        (delete_of("id = 1"), delete_of("id = 2"), ([0, 3, 4, 5, 6, 7, 8, 9], [])),
        pytest.param(
            update_of("id = 1"), delete_of("id = 2"), ([0, 3, 4, 5, 6, 7, 8, 9], [1]), marks=pytest.mark.campaign
        ),
        pytest.param(
            delete_of("id = 1"), update_of("id = 2"), ([0, 3, 4, 5, 6, 7, 8, 9], [2]), marks=pytest.mark.campaign
        ),
        (update_of("id = 1"), update_of("id = 2"), ([0, 3, 4, 5, 6, 7, 8, 9], [1, 2])),
    ],
    ids=["delete after delete", "update after delete", "delete after update", "update after update"],
)
def test_concurrent_changes_of_different_rows_of_one_file_commit_without_a_replan(
    race, change, winning_change, expected
):
    result = race(change, winning_change)
    assert (result.version, result.read_version) == (2, 0)
    assert ids_by_x(race.table) == expected
    adds_with_vector = [add for add in actions_of(race.table, 2)["add"] if "deletionVector" in add]
    assert len(adds_with_vector) == 1
    files = list(race.table.glob("deletion_vector*"))
    assert len(files) == 2, "the vector of the winning commit and the merged vector remain"


def test_the_second_of_two_concurrent_deletes_of_one_row_commits_nothing(race):
    result = race(delete_of("id = 1"), delete_of("id = 1"), conflict_retries=1)
    assert not result.committed and result.version == 1
    assert ids_by_x(race.table) == ([0, 2, 3, 4, 5, 6, 7, 8, 9], [])
    assert len(list(race.table.glob("deletion_vector*"))) == 1


def test_two_concurrent_updates_of_one_row_are_both_applied(race):
    result = race(update_of("id = 1"), update_of("id = 1"), conflict_retries=1)
    assert result.committed and result.read_version == 1 and dict(rows(race.table))[1] == 2


@pytest.mark.parametrize("change", [delete_of("id = 1"), update_of("id = 1")], ids=["delete", "update"])
def test_without_deletion_vectors_concurrent_changes_of_one_file_conflict(race, change):
    with pytest.raises(ConcurrentModificationException, match="version 1"):
        race(change, delete_of("id = 2"), {})
    assert ids_by_x(race.table) == ([0, 1, 3, 4, 5, 6, 7, 8, 9], [])
    committed_files = {add["path"] for version in (0, 1) for add in actions_of(race.table, version)["add"]}
    assert data_files(race.table) == committed_files, "the failed change removes the data files that it wrote"


@pytest.mark.parametrize(
    ("change", "updated_ids"),
    [
        pytest.param(delete_of("id >= 5 AND id < 100"), [], marks=pytest.mark.campaign),
        (update_of("id >= 5 AND id < 100"), [5, 6, 7, 8, 9, 50]),
    ],
    ids=["delete", "update"],
)
def test_a_replanned_change_includes_rows_that_a_concurrent_append_added(race, change, updated_ids):
    append_row = lambda spark, table: write_rows(spark, table, values("id, x", "50L, 0"))
    race(change, append_row, conflict_retries=1)
    assert ids_by_x(race.table) == ([0, 1, 2, 3, 4], updated_ids)
    assert DeltaTable(str(race.table)).version == 2


def test_a_concurrent_append_of_a_row_that_matches_conflicts(race):
    with pytest.raises(ConcurrentAppendException, match="version 1"):
        race(delete_of("id >= 5"), lambda spark, table: write_rows(spark, table, values("id, x", "50L, 0")))
    assert ids_by_x(race.table)[0] == [*range(10), 50]


def test_a_concurrent_append_of_a_row_that_does_not_match_does_not_conflict(race):
    result = race(delete_of("id = 5"), lambda spark, table: write_rows(spark, table, values("id, x", "50L, 0")))
    assert (result.version, result.read_version) == (2, 0) and 50 in ids_by_x(race.table)[0]
