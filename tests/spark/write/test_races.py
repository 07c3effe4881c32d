"""A write either commits after a winning commit, or fails.

If it fails, the error names the winning commit, and no file of the write remains.
"""

from __future__ import annotations

import os
import shutil
from functools import cache

import pytest

from deltalite.commands.common import existing_table as existing_table_module
from deltalite.commands.flows import loads as loads_module
from deltalite.errors import ConcurrentAppendException
from deltalite.requests import Source
from tests.support.racing import run_before_commits
from tests.support.tables import actions_of, data_files, rows, values, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

# Options of writes that replace a part of the table.
REPLACEMENTS = {
    "a partition": {"mode": "overwrite", "replace_where": "day = 'a'"},
    "a partition and more": {"mode": "overwrite", "replace_where": "day = 'a' AND id < 100"},
    "rows by statistics": {"mode": "overwrite", "replace_where": "id BETWEEN 1 AND 9"},
    "the partitions written": {"mode": "overwrite", "partition_overwrite": "dynamic"},
}


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory):
    """Return `template(level)`, a table with this isolation level, with the id 1 in the partition `a` and 50 in `b`."""

    @cache
    def write(level):
        table = tmp_path_factory.mktemp("template") / "t"
        write_rows(spark, table, values("id, day", "1, 'a'", "50, 'b'"), partition_by=("day",),
            properties={"delta.isolationLevel": level})  # fmt: skip
        return table

    return write


@pytest.fixture
def race(spark, template, tmp_path, monkeypatch):
    """Return `race(write, rival, level)`, which runs `rival` between the plan and the commit of `write`.

    `write` and `rival` are options of writes.
    """
    table = tmp_path / "t"

    def run(write, rival, level="Serializable"):
        shutil.copytree(template(level), table)
        run_before_commits(monkeypatch, lambda: write_rows(spark, table, **rival))
        result = write_rows(spark, table, **{"conflict_retries": 0, **write})
        return result, actions_of(table, result.version)["commitInfo"]

    run.table = table
    return run


@pytest.mark.sample("rows by statistics", "the partitions written")
@pytest.mark.parametrize("replacement", REPLACEMENTS)
def test_a_replacement_commits_if_a_rival_added_rows_that_it_does_not_replace(race, replacement):
    write = {"query": values("id, day", "2, 'a'"), **REPLACEMENTS[replacement]}
    result, info = race(write, {"query": values("id, day", "77, 'b'")})
    assert (result.version, result.read_version, info["isolationLevel"]) == (2, 0, "Serializable")
    assert rows(race.table) == [(2, "a"), (50, "b"), (77, "b")]


@pytest.mark.sample("rows by statistics", "the partitions written")
@pytest.mark.parametrize("replacement", REPLACEMENTS)
def test_a_replacement_conflicts_if_a_rival_added_rows_that_it_replaces(race, replacement):
    write = {"query": values("id, day", "2, 'a'"), **REPLACEMENTS[replacement]}
    with pytest.raises(ConcurrentAppendException, match=r"version 1 .* day=a"):
        race(write, {"query": values("id, day", "5, 'a'")})
    assert rows(race.table) == [(1, "a"), (5, "a"), (50, "b")]
    assert data_files(race.table) == {
        add["path"] for version in (0, 1) for add in actions_of(race.table, version)["add"]
    }


def test_a_blind_append_does_not_conflict_with_a_replacement_under_write_serializable(race):
    write = {"query": values("id, day", "2, 'a'"), **REPLACEMENTS["a partition"]}
    _, info = race(write, {"query": values("id, day", "5, 'a'")}, "WriteSerializable")
    assert info["isolationLevel"] == "WriteSerializable"
    assert rows(race.table) == [(2, "a"), (5, "a"), (50, "b")]


@pytest.mark.parametrize("level", ["Serializable", "WriteSerializable"])
def test_two_replacements_of_one_partition_conflict(race, level):
    write = {"query": values("id, day", "2, 'a'"), **REPLACEMENTS["a partition"]}
    with pytest.raises(ConcurrentAppendException, match="version 1"):
        race(write, {"query": values("id, day", "3, 'a'"), **REPLACEMENTS["a partition"]}, level)
    assert rows(race.table) == [(3, "a"), (50, "b")]


@pytest.mark.sample("Serializable")
@pytest.mark.parametrize("data_change", [True, False])
@pytest.mark.parametrize("level", ["Serializable", "WriteSerializable"])
def test_a_self_read_reads_the_version_that_the_write_is_based_on(race, spark, monkeypatch, level, data_change):
    """The rival commits after the write has read the table, and before it reads the sources."""
    table = race.table
    write_rows(
        spark, table, values("id, day", "1, 'a'"), partition_by=("day",), properties={"delta.isolationLevel": level}
    )
    query_rows = loads_module.query_rows

    def query_rows_after_rival(*arguments, **options):
        monkeypatch.setattr(loads_module, "query_rows", query_rows)
        write_rows(spark, table, values("id, day", "5, 'a'"))
        return query_rows(*arguments, **options)

    monkeypatch.setattr(loads_module, "query_rows", query_rows_after_rival)
    self_read = {"sources": {"t": Source(format="delta", path=str(table))}, "query": "SELECT * FROM t"}
    write_rows(spark, table, mode="overwrite", data_change=data_change, **self_read)
    assert rows(table) == [(1, "a"), (5, "a")]


def test_a_table_that_another_writer_creates_concurrently_is_appended_to(spark, tmp_path, monkeypatch):
    table, foreign_entry = tmp_path / "t", existing_table_module.foreign_entry

    def foreign_entry_after_rival(root):
        monkeypatch.setattr(existing_table_module, "foreign_entry", foreign_entry)
        write_rows(spark, table, values("id, day", "5, 'a'"), partition_by=("day",))
        return foreign_entry(root)

    monkeypatch.setattr(existing_table_module, "foreign_entry", foreign_entry_after_rival)
    assert write_rows(spark, table, values("id, day", "1, 'a'"), partition_by=("day",)).version == 1
    assert rows(table) == [(1, "a"), (5, "a")]


def test_the_first_of_two_concurrent_writers_determines_the_column_order(spark, tmp_path, monkeypatch):
    table = tmp_path / "t"
    run_before_commits(monkeypatch, lambda: write_rows(spark, table, values("id, day", "1, 'a'")))
    write_rows(spark, table, values("day, id", "'b', 2"))
    assert rows(table) == [(1, "a"), (2, "b")]


@pytest.mark.parametrize(
    ("write_options", "rival_options", "expected"),
    [
        ({"mode": "overwrite"}, {}, [(2, "a")]),
        (REPLACEMENTS["a partition"], {}, [(2, "a"), (50, "b")]),
        (REPLACEMENTS["rows by statistics"], {}, [(2, "a"), (50, "b")]),
        (REPLACEMENTS["the partitions written"], {"mode": "overwrite"}, [(2, "a")]),
        ({}, {"properties": {}, "mode": "overwrite", "overwrite_schema": True}, [(2, "a"), (5, "a")]),
    ],
    ids=str,
)  # fmt: skip
def test_a_write_that_replans_after_a_conflict_leaves_only_committed_files(
    race, write_options, rival_options, expected
):
    result, _ = race(
        {"query": values("id, day", "2, 'a'"), "conflict_retries": 1, **write_options},
        {"query": values("id, day", "5, 'a'"), **rival_options},
    )
    assert (result.version, result.committed) == (2, True)
    assert rows(race.table) == expected
    committed_files = {add["path"] for version in range(3) for add in actions_of(race.table, version)["add"]}
    assert data_files(race.table) == committed_files


def test_a_self_read_is_computed_again_after_a_conflict(race):
    self_read = {"sources": {"t": Source(format="delta", path=str(race.table))}, "conflict_retries": 1}
    race({"query": "SELECT max(id) + 1 AS id, 'a' AS day FROM t", **self_read}, {"query": values("id, day", "60, 'b'")})
    assert rows(race.table) == [(1, "a"), (50, "b"), (60, "b"), (61, "a")]


def test_a_partition_folder_that_another_writer_removes_is_created_again(spark, tmp_path, monkeypatch):
    rename = os.rename

    def rename_after_folder_removal(source, target):
        monkeypatch.setattr(os, "rename", rename)
        os.rmdir(os.path.dirname(target))
        rename(source, target)

    monkeypatch.setattr(os, "rename", rename_after_folder_removal)
    write_rows(spark, tmp_path / "t", values("id, day", "1, 'a'"), partition_by=("day",))
    assert rows(tmp_path / "t") == [(1, "a")]
