"""A write that conflicts with a winning commit is replanned, and does not write files again that are still valid."""

from __future__ import annotations

import dataclasses
from functools import partial

import pytest

from deltalite.errors import AppendOnlyError, CommitStateUnknownError, ConcurrentAppendException, StorageError
from deltalite.requests import Source
from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from deltalite.txn.commit import commit as commit_proposal
from deltalite.txn.proposal import BaseState, Operation, Proposal
from tests.support.racing import run_before_commits
from tests.support.tables import commit, data_files, everything, rows, values, write_rows

pytestmark = pytest.mark.spark

NEW = values("id, day", "2, 'a'")
RIVAL = {"query": values("id, day", "5, 'a'")}
REPLACEMENTS = {
    "everything": ({"mode": "overwrite"}, [(2, "a")]),
    "rows in part of a file": (
        {"mode": "overwrite", "replace_where": "id IN (1, 2, 5)"},
        [(2, "a"), (4, "a"), (50, "b")],
    ),
    "the partitions written": ({"mode": "overwrite", "partition_overwrite": "dynamic"}, [(2, "a"), (50, "b")]),
}


@pytest.fixture
def race(spark, tmp_path, monkeypatch):
    """Return `race(ours, *rivals)`, which writes `ours` and runs one rival before each of its commits.

    `race.table` has three rows. `race.staged` has the data files outside the log before each rival.
    """
    table = tmp_path / "t"
    old = values("id, day", "1, 'a'", "4, 'a'", "50, 'b'").replace("SELECT", "SELECT /*+ COALESCE(1) */")
    write_rows(spark, table, old, partition_by=("day",))

    def run_rival(rival):
        run.staged.append(data_files(table) - in_the_log(table))
        rival(table) if callable(rival) else write_rows(spark, table, **rival)

    def run(ours, *rivals, **options):
        with monkeypatch.context() as patch:
            run_before_commits(patch, *(partial(run_rival, rival) for rival in rivals))
            return write_rows(spark, table, **{"query": NEW, "conflict_retries": len(rivals), **ours, **options})

    run.table, run.staged = table, []
    return run


def in_the_log(table):
    versions = range(len(list((table / "_delta_log").glob("*.json"))))
    return {add["path"] for version in versions for add in commit(table, version)["add"]}


def added(table, version):
    return {add["path"] for add in commit(table, version)["add"]}


def with_properties(**properties):
    """A rival that changes the table's properties."""

    def rival(table):
        store = LocalLogStore(str(table))
        base = Snapshot.load(store)
        configuration = {**base.configuration, **{f"delta.{key}": value for key, value in properties.items()}}
        metadata = dataclasses.replace(base.metadata, configuration=configuration)
        commit_proposal(
            store,
            Proposal(
                base=BaseState.of(base),
                operation=Operation(name="SET TBLPROPERTIES"), metadata=metadata,
            ),
        )  # fmt: skip

    return rival


@pytest.mark.parametrize("replacement", REPLACEMENTS)
def test_rows_from_other_sources_are_not_written_again_after_a_conflict(race, replacement):
    options, expected = REPLACEMENTS[replacement]
    done = race(options, RIVAL, RIVAL)
    assert (done.version, rows(race.table)) == (3, expected)
    kept = race.staged[0] & race.staged[1] & added(race.table, 3)
    assert len(kept) == 1, "the file of the new row must stay the same"
    assert data_files(race.table) == in_the_log(race.table)


def test_an_append_keeps_its_files_after_a_change_that_concerns_no_file(race):
    done = race({}, with_properties(appendOnly="true"))
    assert (done.version, done.read_version) == (2, 1)
    assert added(race.table, 2) == race.staged[0]
    assert rows(race.table) == [(1, "a"), (2, "a"), (4, "a"), (50, "b")]


def test_rows_are_written_again_after_a_change_of_the_schema(race):
    wider = {"query": values("id, day, note", "5, 'a', 'x'"), "merge_schema": True}
    done = race({}, wider)
    assert done.version == 2 and not added(race.table, 2) & race.staged[0]
    assert rows(race.table) == [(1, "a", None), (2, "a", None), (4, "a", None), (5, "a", "x"), (50, "b", None)]
    assert data_files(race.table) == in_the_log(race.table)


def test_rows_of_a_self_read_are_written_again_after_a_conflict(race):
    self_read = {"sources": {"t": Source(format="delta", path=str(race.table))}}
    race({"query": "SELECT max(id) + 1 AS id, 'a' AS day FROM t", **self_read}, {"query": values("id, day", "60, 'b'")})
    assert not added(race.table, 2) & race.staged[0]
    assert rows(race.table)[-1] == (61, "a") and data_files(race.table) == in_the_log(race.table)


@pytest.mark.parametrize("replacement", REPLACEMENTS)
def test_no_file_remains_after_the_last_conflict(race, replacement):
    with pytest.raises(ConcurrentAppendException, match="planned 2 times"):
        race(REPLACEMENTS[replacement][0], RIVAL, RIVAL, conflict_retries=1)
    assert all(race.staged) and data_files(race.table) == in_the_log(race.table)
    assert sorted(p.name for p in race.table.iterdir()) == ["_delta_log", "day=a", "day=b"]


def test_files_are_kept_if_it_is_unknown_whether_the_commit_succeeded(race, monkeypatch):
    read, taken = LocalLogStore.read, []

    def unreadable(store, name):
        if taken and name.endswith("2.json"):
            raise StorageError("The disk is gone.", remedy="Mount it.")
        return read(store, name)

    def unanswered(table):
        taken.append(table)
        monkeypatch.setattr(LocalLogStore, "read", unreadable)
        raise CommitStateUnknownError("No answer.", remedy="Look.")

    with pytest.raises(CommitStateUnknownError):
        race(REPLACEMENTS["rows in part of a file"][0], RIVAL, *[unanswered] * 9)
    monkeypatch.setattr(LocalLogStore, "read", read)
    left = data_files(race.table) - in_the_log(race.table)
    assert race.staged[1] == left and len(left) == 2, (
        "the file of the new row and the file of the copied row must remain"
    )


@pytest.mark.parametrize(
    "options",
    [
        {"replace_where": "id BETWEEN 2 AND 3"},
        {"partition_overwrite": "dynamic", "query": values("id, day", "3, 'b'")},
    ],
)
def test_an_append_only_table_refuses_an_overwrite_that_would_replace_no_row(spark, tmp_path, options):
    table = tmp_path / "t"
    write_rows(
        spark, table, values("id, day", "1, 'a'"), partition_by=("day",), properties={"delta.appendOnly": "true"}
    )
    before = everything(table)
    with pytest.raises(AppendOnlyError, match="append-only"):
        write_rows(spark, table, **{"query": NEW, "mode": "overwrite", **options})
    assert everything(table) == before


def test_an_append_only_table_refuses_to_overwrite_its_first_rows(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, f"{NEW} WHERE false", properties={"delta.appendOnly": "true"})
    before = everything(table)
    with pytest.raises(AppendOnlyError, match="append-only"):
        write_rows(spark, table, NEW, mode="overwrite")
    assert everything(table) == before
