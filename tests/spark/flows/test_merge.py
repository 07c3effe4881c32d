"""A merge with an incremental source applies each change of the source once."""

from __future__ import annotations

import pytest

from deltalite import DeltaTable
from deltalite.commands.table import define_table
from deltalite.requests import TableRequest
from tests.support.flows import merge_changes, offsets, version_range
from tests.support.properties import FEED
from tests.support.racing import run_before_commits
from tests.support.tables import delete_rows, rows, update_rows, values, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]


@pytest.fixture
def source(spark, tmp_path):
    """A source table with a change feed and two rows in version 0."""
    path = tmp_path / "source"
    write_rows(spark, path, values("id, name", "1, 'a'", "2, 'b'"), properties=FEED)
    return path


@pytest.fixture
def target(tmp_path):
    return tmp_path / "target"


def test_the_first_merge_creates_the_table_and_later_merges_apply_the_changes(spark, source, target):
    first = merge_changes(spark, target, source, run="run 1")
    assert (first.operation, first.version, version_range(first)) == ("MERGE", 0, (None, 0))
    assert rows(target) == rows(source)
    update_rows(spark, source, {"name": "'B'"}, "id = 2")
    delete_rows(spark, source, "id = 1")
    write_rows(spark, source, values("id, name", "3, 'c'"))
    second = merge_changes(spark, target, source, run="run 2")
    assert (second.version, version_range(second), second.source_versions) == (1, (0, 3), {"source": 3})
    assert rows(target) == rows(source) == [(2, "B"), (3, "c")]
    assert offsets(target) == {"flow": 3}


def test_a_retry_finds_its_commit_and_a_run_without_a_new_version_commits_nothing(spark, source, target):
    merge_changes(spark, target, source, run="run 1")
    update_rows(spark, source, {"name": "'B'"}, "id = 2")
    second = merge_changes(spark, target, source, run="run 2")
    retry = merge_changes(spark, target, source, run="run 2")
    assert (retry.skipped, retry.version, retry.flows, retry.skip_reason) == (True, 1, second.flows, None)
    third = merge_changes(spark, target, source, run="run 3")
    assert (third.skipped, third.operation, version_range(third)) == (True, "MERGE", (1, 1))
    assert third.skip_reason and DeltaTable(str(target)).version == 1


def test_clauses_for_rows_without_a_source_row_apply_only_to_a_complete_source(spark, source, target):
    by_source = {"by_source": [{"delete": True}], "options": {"on_gap": "reload"}}
    merge_changes(spark, target, source, **by_source)
    write_rows(spark, source, values("id, name", "3, 'c'"))
    increment = merge_changes(spark, target, source, **by_source)
    assert increment.metrics["numTargetRowsNotMatchedBySourceDeleted"] == 0
    clauses = "notMatchedBySourcePredicates"
    assert DeltaTable(str(target)).history(limit=1)[0]["operationParameters"][clauses] == "[]"
    assert rows(target) == [(1, "a"), (2, "b"), (3, "c")]
    define_table(spark, TableRequest(table=str(source), properties={"delta.enableChangeDataFeed": "false"}))
    delete_rows(spark, source, "id = 2")
    define_table(spark, TableRequest(table=str(source), properties=FEED))
    reloaded = merge_changes(spark, target, source, **by_source)
    assert version_range(reloaded) == (None, 4)
    assert rows(target) == rows(source) == [(1, "a"), (3, "c")]
    assert "DELETE" in DeltaTable(str(target)).history(limit=1)[0]["operationParameters"][clauses].upper()


def test_a_merge_that_changes_no_row_still_moves_the_offset(spark, source, target):
    merge_changes(spark, target, source)
    write_rows(spark, source, values("id, name", "3, 'c'") + " WHERE id < 0")
    result = merge_changes(spark, target, source)
    assert (result.committed, version_range(result), offsets(target)) == (True, (0, 1), {"flow": 1})
    assert merge_changes(spark, target, source).skip_reason


@pytest.mark.campaign
def test_the_merge_that_loses_a_race_applies_the_remaining_changes(spark, source, target, monkeypatch):
    merge_changes(spark, target, source)
    write_rows(spark, source, values("id, name", "3, 'c'"))

    def merge_then_change_the_source():
        merge_changes(spark, target, source, run="rival")
        update_rows(spark, source, {"name": "'C'"}, "id = 3")

    run_before_commits(monkeypatch, merge_then_change_the_source)
    result = merge_changes(spark, target, source, run="run")
    assert (version_range(result), rows(target)) == ((1, 2), [(1, "a"), (2, "b"), (3, "C")])


def test_a_race_for_the_first_merge_creates_one_table(spark, source, target, monkeypatch):
    run_before_commits(monkeypatch, lambda: merge_changes(spark, target, source, run="rival"))
    result = merge_changes(spark, target, source, run="run")
    assert result.skip_reason and rows(target) == rows(source)
