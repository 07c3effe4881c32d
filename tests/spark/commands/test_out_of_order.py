"""A run does not undo the changes of a run of a later data interval, unless its policy `out_of_order` allows it."""

from __future__ import annotations

import pytest

from deltalite import DeltaTable
from deltalite.commands.delete import delete
from deltalite.commands.update import update
from deltalite.errors import OutOfOrderError
from deltalite.requests import DeleteRequest, OnRerun, RunIdentity, UpdateRequest
from deltalite.storage.opening import open_store
from deltalite.txn.find_run import find_run
from tests.support.merging import merge_into
from tests.support.tables import folder_content, values, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]


def run_of_day(day, generation=0):
    """The identity of the run for a day of January 2026."""
    interval = {
        f"data_interval_{end}": f"2026-01-{day + n:02}T00:00:00+00:00" for n, end in enumerate(("start", "end"))
    }
    details = {"dag_id": "d", "task_id": "t", "run_id": f"day {day}", "map_index": -1, **interval}
    return RunIdentity(
        app_id=f"ns/d/t/-1/day {day}", details=details, txn_version=generation, generation=generation,
        on_rerun=OnRerun.WRITE, request_digest="1:same",
    )  # fmt: skip


def rows(table):
    return sorted((row["id"], row["day"]) for row in DeltaTable(str(table)).to_arrow().to_pylist())


@pytest.fixture
def table(spark, tmp_path):
    write_rows(spark, tmp_path / "t", values("id, day", "1, 1", "2, 2", "3, 3"), partition_by=("day",))
    return tmp_path / "t"


def upsert(spark, table, identity, **options):
    """Merge the rows of the run's day; a negative id deletes the row with the positive id."""
    day = identity.details["run_id"].split()[1]
    source = {"1": values("id", "10", "11"), "2": values("id", "-10")}[day]
    return merge_into(
        spark,
        table,
        f"SELECT abs(id) AS id, 9 AS day, id < 0 AS is_deleted FROM ({source})",
        "target.id = source.id",
        matched=[{"delete": True, "condition": "source.is_deleted"}, {"update": "*"}],
        inserts=[{"insert": {"id": "source.id", "day": "source.day"}, "condition": "NOT source.is_deleted"}],
        identity=identity,
        **options,
    )


@pytest.mark.campaign
def test_a_cleared_merge_does_not_bring_back_rows_that_a_later_day_deleted(spark, table):
    upsert(spark, table, run_of_day(1))
    upsert(spark, table, run_of_day(2))
    content_before = folder_content(table)
    assert (10, 9) not in rows(table) and (11, 9) in rows(table)
    with pytest.raises(OutOfOrderError) as error_info:
        upsert(spark, table, run_of_day(1, generation=1))
    assert folder_content(table) == content_before
    assert "version 2 (run day 2, of data interval 2026-01-02T00:00:00+00:00 to" in error_info.value.problem
    for option in ("on_rerun='skip'", "out_of_order='allow'", "clear the later runs too"):
        assert option in error_info.value.remedy
    late_result = upsert(spark, table, run_of_day(1, generation=1), out_of_order="warn")
    assert late_result.as_dict()["out_of_order"] is True
    assert find_run(open_store(str(table)), run_of_day(1, generation=1)).out_of_order is True
    assert (10, 9) in rows(table)
    result_of_day_2 = upsert(spark, table, run_of_day(2, generation=1))
    assert "out_of_order" not in result_of_day_2.as_dict() and (10, 9) not in rows(table)
    allowed_result = upsert(spark, table, run_of_day(1, generation=2), out_of_order="allow")
    assert allowed_result.committed and "out_of_order" not in allowed_result.as_dict()


def test_a_late_first_run_logs_a_warning_or_fails_on_request(spark, table, caplog):
    write_rows(
        spark, table, values("id, day", "10, 9"), mode="overwrite", replace_where="day = 9", identity=run_of_day(2)
    )
    with pytest.raises(OutOfOrderError):
        upsert(spark, table, run_of_day(1), out_of_order="fail")
    result = upsert(spark, table, run_of_day(1))
    assert result.committed and result.out_of_order
    assert "This run is older" in caplog.text


OPERATIONS = {
    "replace_where": lambda spark, table, identity, day: write_rows(
        spark, table, values("id, day", f"{identity.generation}, {day}"),
        mode="overwrite", replace_where=f"day = {day}", identity=identity,
    ),
    "dynamic": lambda spark, table, identity, day: write_rows(
        spark, table, values("id, day", f"{identity.generation}, {day}"),
        mode="overwrite", partition_overwrite="dynamic", identity=identity,
    ),
    "delete": lambda spark, table, identity, day: delete(
        spark, DeleteRequest(table=str(table), condition=f"day = {day}", identity=identity)
    ),
    "update": lambda spark, table, identity, day: update(
        spark, UpdateRequest(table=str(table), condition=f"day = {day}", set={"id": "id + 1"}, identity=identity)
    ),
}  # fmt: skip


@pytest.mark.sample("update")
@pytest.mark.parametrize("name", ["replace_where", "dynamic", "update"])
def test_a_cleared_day_that_no_later_run_changed_is_written_again(spark, table, name):
    for day in (1, 2, 3):
        OPERATIONS[name](spark, table, run_of_day(day), day)
    rerun = OPERATIONS[name](spark, table, run_of_day(2, generation=1), 2)
    assert rerun.committed and not rerun.out_of_order
    OPERATIONS[name](spark, table, run_of_day(3, generation=1), 2)  # The run of day 3 changes day 2.
    with pytest.raises(OutOfOrderError, match=r"version 5 \(run day 3"):
        OPERATIONS[name](spark, table, run_of_day(2, generation=2), 2)


def test_a_cleared_delete_of_rows_of_a_later_day_is_rejected(spark, table):
    OPERATIONS["delete"](spark, table, run_of_day(1), 1)
    write_rows(spark, table, values("id, day", "7, 1"), identity=run_of_day(2))
    with pytest.raises(OutOfOrderError):
        OPERATIONS["delete"](spark, table, run_of_day(1, generation=1), 1)
    assert (7, 1) in rows(table)


def test_a_cleared_overwrite_of_the_whole_table_is_rejected_before_a_row_is_written(spark, table, monkeypatch):
    write_rows(spark, table, values("id, day", "1, 1"), mode="overwrite", identity=run_of_day(1))
    write_rows(spark, table, values("id, day", "2, 2"), mode="overwrite", identity=run_of_day(2))
    monkeypatch.setattr("deltalite.spark.write.staging.StagedWrite.write", None)
    with pytest.raises(OutOfOrderError):
        write_rows(spark, table, values("id, day", "1, 1"), mode="overwrite", identity=run_of_day(1, generation=1))
    assert rows(table) == [(2, 2)]
