"""A write replans after a conflict with a winning commit, and reuses its files that are still valid."""

from __future__ import annotations

import dataclasses
import shutil
from functools import partial

import pytest

from deltalite.errors import AppendOnlyError, CommitStateUnknownError, ConcurrentAppendException, StorageError
from deltalite.requests import Source
from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from deltalite.txn.commit import commit as commit_proposal
from deltalite.txn.proposal import BaseState, Operation, Proposal
from tests.support.racing import run_before_commits
from tests.support.tables import actions_of, data_files, folder_content, rows, values, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

NEW_ROW = values("id, day", "2, 'a'")
RIVAL = {"query": values("id, day", "5, 'a'")}
# For each kind of replacement: the options of the write, and the rows after the write and its rivals.
REPLACEMENTS = {
    "everything": ({"mode": "overwrite"}, [(2, "a")]),
    "rows in part of a file": (
        {"mode": "overwrite", "replace_where": "id IN (1, 2, 5)"},
        [(2, "a"), (4, "a"), (50, "b")],
    ),
    "the partitions written": ({"mode": "overwrite", "partition_overwrite": "dynamic"}, [(2, "a"), (50, "b")]),
}


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory):
    """A table with three rows in two partitions."""
    table = tmp_path_factory.mktemp("template") / "t"
    old_rows = values("id, day", "1, 'a'", "4, 'a'", "50, 'b'").replace("SELECT", "SELECT /*+ COALESCE(1) */")
    write_rows(spark, table, old_rows, partition_by=("day",))
    return table


@pytest.fixture
def race(spark, template, tmp_path, monkeypatch):
    """Return `race(write_options, *rivals)`, which writes, and runs one rival before each of its attempts to commit.

    `race.table` has three rows. `race.uncommitted_files` has a set for each rival: the data files that no commit had
    added when the rival started.
    """
    table = shutil.copytree(template, tmp_path / "t")

    def run_rival(rival):
        run.uncommitted_files.append(data_files(table) - committed_files(table))
        rival(table) if callable(rival) else write_rows(spark, table, **rival)

    def run(write_options, *rivals):
        with monkeypatch.context() as patch:
            run_before_commits(patch, *(partial(run_rival, rival) for rival in rivals))
            return write_rows(spark, table, **{"query": NEW_ROW, "conflict_retries": len(rivals), **write_options})

    run.table, run.uncommitted_files = table, []
    return run


def committed_files(table):
    """The files that the commits of a table have added."""
    versions = range(len(list((table / "_delta_log").glob("*.json"))))
    return {path for version in versions for path in added_files(table, version)}


def added_files(table, version):
    return {add["path"] for add in actions_of(table, version)["add"]}


def rival_with_properties(**properties):
    """A rival that sets properties of the table."""

    def set_properties(table):
        store = LocalLogStore(str(table))
        snapshot = Snapshot.load(store)
        configuration = {**snapshot.configuration, **{f"delta.{key}": value for key, value in properties.items()}}
        metadata = dataclasses.replace(snapshot.metadata, configuration=configuration)
        operation = Operation(name="SET TBLPROPERTIES")
        commit_proposal(store, Proposal(base=BaseState.of(snapshot), operation=operation, metadata=metadata))

    return set_properties


@pytest.mark.sample("rows in part of a file")
@pytest.mark.parametrize("replacement", REPLACEMENTS)
def test_a_replacement_does_not_write_its_new_rows_again_after_a_conflict(race, replacement):
    options, expected = REPLACEMENTS[replacement]
    result = race(options, RIVAL, RIVAL)
    assert (result.version, result.metrics["numReplans"], rows(race.table)) == (3, 2, expected)
    reused_files = race.uncommitted_files[0] & race.uncommitted_files[1] & added_files(race.table, 3)
    assert len(reused_files) == 1, "the file of the new row must stay the same"
    assert data_files(race.table) == committed_files(race.table)


def test_an_append_keeps_its_files_after_a_change_of_a_property(race):
    result = race({}, rival_with_properties(appendOnly="true"))
    assert (result.version, result.read_version) == (2, 1)
    assert added_files(race.table, 2) == race.uncommitted_files[0]
    assert rows(race.table) == [(1, "a"), (2, "a"), (4, "a"), (50, "b")]


def test_rows_are_written_again_after_a_change_of_the_schema(race):
    rival_with_new_column = {"query": values("id, day, note", "5, 'a', 'x'"), "merge_schema": True}
    result = race({}, rival_with_new_column)
    assert result.version == 2 and not added_files(race.table, 2) & race.uncommitted_files[0]
    assert rows(race.table) == [(1, "a", None), (2, "a", None), (4, "a", None), (5, "a", "x"), (50, "b", None)]
    assert data_files(race.table) == committed_files(race.table)


def test_rows_of_a_self_read_are_written_again_after_a_conflict(race):
    self_read = {"sources": {"t": Source(format="delta", path=str(race.table))}}
    race({"query": "SELECT max(id) + 1 AS id, 'a' AS day FROM t", **self_read}, {"query": values("id, day", "60, 'b'")})
    assert not added_files(race.table, 2) & race.uncommitted_files[0]
    assert rows(race.table)[-1] == (61, "a") and data_files(race.table) == committed_files(race.table)


@pytest.mark.sample("rows in part of a file")
@pytest.mark.parametrize("replacement", REPLACEMENTS)
def test_no_file_remains_after_the_last_conflict(race, replacement):
    with pytest.raises(ConcurrentAppendException, match="planned 2 times"):
        race({**REPLACEMENTS[replacement][0], "conflict_retries": 1}, RIVAL, RIVAL)
    assert all(race.uncommitted_files) and data_files(race.table) == committed_files(race.table)
    assert sorted(p.name for p in race.table.iterdir()) == ["_delta_log", "day=a", "day=b"]


def test_files_are_kept_if_it_is_unknown_whether_the_commit_succeeded(race, monkeypatch):
    read = LocalLogStore.read

    def fail_for_version_2(store, name):
        if name.endswith("2.json"):
            raise StorageError("The disk is gone.", remedy="Mount it.")
        return read(store, name)

    def lose_the_answer(_table):
        monkeypatch.setattr(LocalLogStore, "read", fail_for_version_2)
        raise CommitStateUnknownError("No answer.", remedy="Look.")

    with pytest.raises(CommitStateUnknownError):
        race(REPLACEMENTS["rows in part of a file"][0], RIVAL, *[lose_the_answer] * 9)
    monkeypatch.setattr(LocalLogStore, "read", read)
    remaining_files = data_files(race.table) - committed_files(race.table)
    assert race.uncommitted_files[1] == remaining_files and len(remaining_files) == 2, (
        "the file of the new row and the file of the copied row must remain"
    )


@pytest.mark.parametrize(
    "options",
    [
        {"replace_where": "id BETWEEN 2 AND 3"},
        {"partition_overwrite": "dynamic", "query": values("id, day", "3, 'b'")},
    ],
)
def test_an_append_only_table_rejects_an_overwrite_that_would_replace_no_row(spark, tmp_path, options):
    table = tmp_path / "t"
    write_rows(
        spark, table, values("id, day", "1, 'a'"), partition_by=("day",), properties={"delta.appendOnly": "true"}
    )
    content_before = folder_content(table)
    with pytest.raises(AppendOnlyError, match="append-only"):
        write_rows(spark, table, **{"query": NEW_ROW, "mode": "overwrite", **options})
    assert folder_content(table) == content_before


def test_an_empty_append_only_table_rejects_an_overwrite(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, f"{NEW_ROW} WHERE false", properties={"delta.appendOnly": "true"})
    content_before = folder_content(table)
    with pytest.raises(AppendOnlyError, match="append-only"):
        write_rows(spark, table, NEW_ROW, mode="overwrite")
    assert folder_content(table) == content_before
