"""A task that enables row tracking gives a row id to each row, even if other writers commit or the task is killed."""

from __future__ import annotations

import shutil

import pytest

from deltalite import DeltaTable
from deltalite.commands.common import committing
from deltalite.commands.table import define_table
from deltalite.commands.table import row_id_backfill as backfill
from deltalite.errors import InvalidRequestError
from deltalite.inspection.verify import verify
from deltalite.requests import TableRequest
from deltalite.storage.local import LocalLogStore
from tests.support.tables import actions_of, delete_rows, optimize_table, rows, update_rows, values, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("one_task")]

TRACKED = {"delta.enableRowTracking": "true"}


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory):
    """A table with three files, one of which has a deletion vector."""
    path = tmp_path_factory.mktemp("template") / "t"
    write_rows(spark, path, "SELECT * FROM range(0, 4, 1, 1)", properties={"delta.enableDeletionVectors": "true"})
    write_rows(spark, path, "SELECT * FROM range(4, 8, 1, 1)")
    write_rows(spark, path, "SELECT * FROM range(8, 12, 1, 1)")
    delete_rows(spark, path, "id = 5")
    return path


@pytest.fixture
def table(template, tmp_path, monkeypatch):
    """A copy of the template. Each commit of a backfill contains two files."""
    monkeypatch.setattr(backfill, "FILES_PER_COMMIT", 2)
    return shutil.copytree(template, tmp_path / "t")


def enable_row_tracking(spark, table):
    return define_table(spark, TableRequest(table=str(table), properties=TRACKED))


def row_ids_by_id(table):
    """The row id of each row, by the table's `id`."""
    result = DeltaTable(str(table)).to_arrow(columns=["id", "_row_id"]).to_pylist()
    row_ids = [row["_row_id"] for row in result]
    assert None not in row_ids and len(set(row_ids)) == len(row_ids)
    return {row["id"]: row["_row_id"] for row in result}


def operations(table):
    """The operations of the commits after the fixture."""
    return [
        actions_of(table, version)["commitInfo"]["operation"]
        for version in range(4, DeltaTable(str(table)).version + 1)
    ]


def test_a_backfill_gives_an_id_to_each_row_in_bounded_commits(spark, table):
    rows_before = rows(table)
    result = enable_row_tracking(spark, table)
    assert result.metrics["numBackfilledFiles"] == 3
    assert operations(table) == ["UPGRADE PROTOCOL", *["ROW TRACKING BACKFILL"] * 2, "ALTER TABLE"]
    assert [len(actions_of(table, version)["add"]) for version in (5, 6)] == [2, 1]
    assert not any(add["dataChange"] for version in (5, 6) for add in actions_of(table, version)["add"])
    assert rows(table) == rows_before
    ids_before = row_ids_by_id(table)
    assert ids_before.keys() == {row[0] for row in rows_before}
    update_rows(spark, table, {"id": "id + 100"}, "id = 6")
    assert row_ids_by_id(table)[106] == ids_before[6]
    assert verify(LocalLogStore(str(table))).findings == ()


def test_a_backfill_continues_after_the_last_commit_of_a_killed_task(spark, table, monkeypatch):
    commit_proposal, calls = backfill.commit_proposal, []

    def die_at_the_third_commit(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return commit_proposal(*arguments)

    monkeypatch.setattr(backfill, "commit_proposal", die_at_the_third_commit)
    with pytest.raises(KeyboardInterrupt):
        enable_row_tracking(spark, table)
    # The killed task has added the feature to the protocol, so the new file gets row ids.
    write_rows(spark, table, "SELECT * FROM range(12, 14, 1, 1)")
    result = enable_row_tracking(spark, table)
    assert result.metrics["numBackfilledFiles"] == 1
    assert len(row_ids_by_id(table)) == 13


def run_before_first_backfill_commit(monkeypatch, change):
    """Run `change`, which commits, between the plan and the commit of the first backfill."""
    commit, calls = committing.commit, []

    def commit_after_change(store, proposal):
        if proposal.operation.name == "ROW TRACKING BACKFILL" and not calls:
            calls.append(proposal)
            change()
        return commit(store, proposal)

    monkeypatch.setattr(committing, "commit", commit_after_change)


def test_a_file_that_another_writer_removes_is_not_added_again(spark, table, monkeypatch):
    run_before_first_backfill_commit(monkeypatch, lambda: delete_rows(spark, table, "id >= 4"))
    enable_row_tracking(spark, table)
    assert [row[0] for row in rows(table)] == [0, 1, 2, 3]
    assert row_ids_by_id(table).keys() == {0, 1, 2, 3}


@pytest.mark.campaign
def test_a_file_whose_rows_another_writer_moves_is_not_added_again(spark, table, monkeypatch):
    rows_before = rows(table)
    run_before_first_backfill_commit(monkeypatch, lambda: optimize_table(spark, table))
    enable_row_tracking(spark, table)
    assert rows(table) == rows_before
    assert row_ids_by_id(table).keys() == {row[0] for row in rows_before}


def test_two_tasks_that_enable_row_tracking_concurrently_give_one_id_to_each_row(spark, table, monkeypatch):
    run_before_first_backfill_commit(monkeypatch, lambda: enable_row_tracking(spark, table))
    assert not enable_row_tracking(spark, table).committed
    assert operations(table).count("ROW TRACKING BACKFILL") == 2
    assert len(row_ids_by_id(table)) == 11


def test_row_tracking_is_not_enabled_if_a_file_lacks_its_number_of_rows(spark, table):
    name = actions_of(table, 2)["add"][0]["path"]
    path = table / "_delta_log" / f"{2:020}.json"
    path.write_text(path.read_text().replace('\\"numRecords\\":4,', ""))
    for checksum in (table / "_delta_log").glob("*.crc"):
        checksum.unlink()
    with pytest.raises(InvalidRequestError, match=f"{name}.*lack numRecords"):
        enable_row_tracking(spark, table)
    assert "delta.enableRowTracking" not in DeltaTable(str(table)).metadata.configuration
    assert len(rows(table)) == 11


SUSPENDED = {"delta.feature.rowTracking": "supported", "delta.rowTrackingSuspended": "true"}


@pytest.mark.parametrize(
    "ending",
    [{"unset_properties": ("delta.rowTrackingSuspended",)}, {"properties": {"delta.rowTrackingSuspended": "false"}}],
)
def test_a_task_can_end_the_suspension_of_row_ids_and_enable_row_tracking(spark, tmp_path, ending):
    table = tmp_path / "t"
    write_rows(spark, table, "SELECT id FROM range(4)", properties=SUSPENDED)
    properties = {**TRACKED, **ending.get("properties", {})}
    define_table(spark, TableRequest(table=str(table), **{**ending, "properties": properties}))
    assert len(row_ids_by_id(table)) == 4


def test_a_suspension_by_another_writer_makes_the_task_fail(spark, table, monkeypatch):
    suspended = TableRequest(table=str(table), properties={"delta.rowTrackingSuspended": "true"})
    run_before_first_backfill_commit(monkeypatch, lambda: define_table(spark, suspended))
    with pytest.raises(InvalidRequestError, match="both true"):
        enable_row_tracking(spark, table)


def test_a_table_without_rows_gets_row_tracking_in_one_commit(spark, tmp_path):
    table = tmp_path / "t"
    define_table(spark, TableRequest(table=str(table), schema="id BIGINT"))
    assert enable_row_tracking(spark, table).version == 2
    write_rows(spark, table, values("id", "1", "2"))
    assert len(row_ids_by_id(table)) == 2
