"""A table that gets row tracking has a row id for each row, even if other writers commit or the task is killed."""

from __future__ import annotations

import pytest

from deltalite import DeltaTable
from deltalite.commands.common import committing
from deltalite.commands.table import define_table
from deltalite.commands.table import row_id_backfill as backfill
from deltalite.errors import InvalidRequestError
from deltalite.inspection.verify import verify
from deltalite.requests import TableRequest
from deltalite.storage.local import LocalLogStore
from tests.support.tables import commit, delete_rows, optimize_table, rows, update_rows, values, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("one_task")]

TRACKED = {"delta.enableRowTracking": "true"}


@pytest.fixture
def table(spark, tmp_path, monkeypatch):
    """A table with three files, one of which has a deletion vector. A commit of the backfill takes two files."""
    path = tmp_path / "t"
    write_rows(spark, path, "SELECT * FROM range(0, 4, 1, 1)", properties={"delta.enableDeletionVectors": "true"})
    write_rows(spark, path, "SELECT * FROM range(4, 8, 1, 1)")
    write_rows(spark, path, "SELECT * FROM range(8, 12, 1, 1)")
    delete_rows(spark, path, "id = 5")
    monkeypatch.setattr(backfill, "FILES_PER_COMMIT", 2)
    return path


def tracked(spark, table):
    return define_table(spark, TableRequest(table=str(table), properties=TRACKED))


def ids(table):
    result = DeltaTable(str(table)).to_arrow(columns=["id", "_row_id"]).to_pylist()
    row_ids = [row["_row_id"] for row in result]
    assert None not in row_ids and len(set(row_ids)) == len(row_ids)
    return {row["id"]: row["_row_id"] for row in result}


def operations(table):
    return [
        commit(table, version)["commitInfo"]["operation"] for version in range(4, DeltaTable(str(table)).version + 1)
    ]


def test_a_backfill_gives_an_id_to_each_row_in_bounded_commits(spark, table):
    before = rows(table)
    result = tracked(spark, table)
    assert result.metrics["numBackfilledFiles"] == 3
    assert operations(table) == ["UPGRADE PROTOCOL", *["ROW TRACKING BACKFILL"] * 2, "ALTER TABLE"]
    assert [len(commit(table, version)["add"]) for version in (5, 6)] == [2, 1]
    assert not any(add["dataChange"] for version in (5, 6) for add in commit(table, version)["add"])
    assert rows(table) == before
    first = ids(table)
    assert first.keys() == {row[0] for row in before}
    update_rows(spark, table, {"id": "id + 100"}, "id = 6")
    assert ids(table)[106] == first[6]
    assert verify(LocalLogStore(str(table))).findings == ()


def test_a_backfill_goes_on_where_a_killed_task_stopped(spark, table, monkeypatch):
    real, commits = backfill.commit_proposal, []

    def die_at_the_third(*arguments):
        commits.append(arguments)
        if len(commits) == 3:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(backfill, "commit_proposal", die_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        tracked(spark, table)
    write_rows(spark, table, "SELECT * FROM range(12, 14, 1, 1)")  # the feature is supported: this file has ids
    result = tracked(spark, table)
    assert result.metrics["numBackfilledFiles"] == 1
    assert len(ids(table)) == 13


def before_the_first_backfill(monkeypatch, change):
    """Let another writer commit between the plan and the commit of the first backfill."""
    real, calls = committing.commit, []

    def commit_after(store, proposal):
        if proposal.operation.name == "ROW TRACKING BACKFILL" and not calls:
            calls.append(proposal)
            change()
        return real(store, proposal)

    monkeypatch.setattr(committing, "commit", commit_after)


def test_a_file_that_another_writer_removes_is_not_added_again(spark, table, monkeypatch):
    before_the_first_backfill(monkeypatch, lambda: delete_rows(spark, table, "id >= 4"))
    tracked(spark, table)
    assert [row[0] for row in rows(table)] == [0, 1, 2, 3]
    assert ids(table).keys() == {0, 1, 2, 3}


def test_a_file_whose_rows_another_writer_moves_is_not_added_again(spark, table, monkeypatch):
    before = rows(table)
    before_the_first_backfill(monkeypatch, lambda: optimize_table(spark, table))
    tracked(spark, table)
    assert rows(table) == before
    assert ids(table).keys() == {row[0] for row in before}


def test_two_tasks_that_enable_row_tracking_at_once_give_one_id_to_each_row(spark, table, monkeypatch):
    before_the_first_backfill(monkeypatch, lambda: tracked(spark, table))
    assert not tracked(spark, table).committed
    assert operations(table).count("ROW TRACKING BACKFILL") == 2
    assert len(ids(table)) == 11


def test_row_tracking_is_not_enabled_if_a_file_lacks_its_number_of_rows(spark, table):
    name = commit(table, 2)["add"][0]["path"]
    path = table / "_delta_log" / f"{2:020}.json"
    path.write_text(path.read_text().replace('\\"numRecords\\":4,', ""))
    for checksum in (table / "_delta_log").glob("*.crc"):
        checksum.unlink()
    with pytest.raises(InvalidRequestError, match=f"{name}.*lack numRecords"):
        tracked(spark, table)
    assert "delta.enableRowTracking" not in DeltaTable(str(table)).metadata.configuration
    assert len(rows(table)) == 11


SUSPENDED = {"delta.feature.rowTracking": "supported", "delta.rowTrackingSuspended": "true"}


@pytest.mark.parametrize(
    "ending",
    [{"unset_properties": ("delta.rowTrackingSuspended",)}, {"properties": {"delta.rowTrackingSuspended": "false"}}],
)
def test_a_suspension_of_row_ids_ends_before_the_backfill(spark, tmp_path, ending):
    table = tmp_path / "t"
    write_rows(spark, table, "SELECT id FROM range(4)", properties=SUSPENDED)
    properties = {**TRACKED, **ending.get("properties", {})}
    define_table(spark, TableRequest(table=str(table), **{**ending, "properties": properties}))
    assert len(ids(table)) == 4


def test_a_suspension_that_another_writer_starts_ends_the_task(spark, table, monkeypatch):
    suspended = TableRequest(table=str(table), properties={"delta.rowTrackingSuspended": "true"})
    before_the_first_backfill(monkeypatch, lambda: define_table(spark, suspended))
    with pytest.raises(InvalidRequestError, match="both true"):
        tracked(spark, table)


def test_a_table_without_rows_gets_row_tracking_in_one_commit(spark, tmp_path):
    table = tmp_path / "t"
    define_table(spark, TableRequest(table=str(table), schema="id BIGINT"))
    assert tracked(spark, table).version == 2
    write_rows(spark, table, values("id", "1", "2"))
    assert len(ids(table)) == 2
