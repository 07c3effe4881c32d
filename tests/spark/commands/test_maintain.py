"""One job maintains many tables at once: each due step runs once per run, and one broken table stops no other."""

from __future__ import annotations

import logging
import time

import deltalake
import pyarrow as pa
import pytest

from deltalite import DeltaTable
from deltalite.commands.maintain import command, maintain, one_table
from deltalite.commands.table import define_table
from deltalite.errors import MaintenanceError, MaintenanceIncompleteError, StorageError, TableNotFoundError
from deltalite.requests import MaintainRequest, RunIdentity, TableRequest, VacuumMode
from deltalite.spark.runtime.errors import SPARK_ERRORS
from deltalite.spark.runtime.session import isolated_session
from tests.support.tables import delta_rs_rows, rows, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

FILE_COUNT = 12
IDENTITY = RunIdentity(app_id="ns/dag/maintain/-1/run", details={"dag_id": "dag", "task_id": "maintain"})


def add_files(path, count=FILE_COUNT):
    """Append `count` small files with delta-rs, which writes no checkpoint for so few commits."""
    for number in range(count):
        day = ["a", "b"][number % 2]
        table = pa.table({"id": [number], "day": [day]})
        deltalake.write_deltalake(
            str(path), table, mode="append", partition_by=["day"] if "by_day" in path.name else None
        )


def maintain_lake(spark, lake, **parameters):
    """Maintain the tables of a lake; the parameters are those of `MaintainRequest`."""
    defaults = {"pattern": f"{lake}/*", "identity": IDENTITY}
    request = MaintainRequest(**{"table": f"{lake}/*", **defaults, **parameters})
    return maintain(spark, request)


def outcomes(result):
    """The outcome of each step, by the name of the table."""
    return {
        row["table"].rpartition("/")[2]: tuple(step["outcome"] for step in row.get("steps", {}).values())
        for row in result.tables
    }


def operations(path):
    return [commit["operation"] for commit in DeltaTable(str(path)).history()]


@pytest.fixture
def lake(spark, tmp_path):
    """Tables that need maintenance in different ways, a healthy table, a broken table, and a folder without a table."""
    lake = tmp_path / "lake"
    for name in ("plain", "by_day"):
        add_files(lake / name)
    add_files(lake / "few", 2)
    define_table(spark, TableRequest(table=str(lake / "clustered"), schema="id BIGINT, day STRING", cluster_by=["id"]))
    write_rows(spark, lake / "clustered", f"SELECT id, 'a' AS day FROM range(0, 100, 1, {FILE_COUNT})")
    (lake / "broken" / "_delta_log").mkdir(parents=True)
    (lake / "broken" / "_delta_log" / f"{0:020}.json").write_text("no action\n")
    (lake / "landing").mkdir()
    return lake


def test_due_steps_run_once_in_each_table_and_a_retry_reports_them(spark, lake, monkeypatch):
    names = ("plain", "by_day", "few", "clustered")
    rows_before = {name: rows(lake / name) for name in names}
    versions_before = {name: DeltaTable(str(lake / name)).version for name in names}
    dry_run = maintain_lake(spark, lake, dry_run=True)
    assert (dry_run.operation, dry_run.committed) == ("MAINTAIN DRY RUN", False)
    assert outcomes(dry_run) == {
        "broken": (), "plain": ("due", "due", "not needed"), "by_day": ("due", "due", "not needed"),
        "clustered": ("due", "not needed", "not needed"), "few": ("not needed",) * 3,
    }  # fmt: skip
    assert {name: DeltaTable(str(lake / name)).version for name in names} == versions_before

    sessions = []
    optimize = one_table.optimize
    monkeypatch.setattr(one_table, "optimize", lambda session, r: sessions.append(session) or optimize(session, r))
    with pytest.raises(
        MaintenanceError, match=r"The maintenance of 1 of 5 tables failed: .*broken \(CorruptLog"
    ) as error:
        maintain_lake(spark, lake, vacuum_after_days=0, vacuum_mode=VacuumMode.LITE)
    assert not error.value.retryable
    result = error.value.result
    assert outcomes(result) == {
        "broken": (), "plain": ("done",) * 3, "by_day": ("done",) * 3,
        "clustered": ("done", "not needed", "done"), "few": ("not needed", "not needed", "done"),
    }  # fmt: skip
    assert {name: result.metrics[name] for name in ("numTables", "numFailedTables", "numChangedTables")} == {
        "numTables": 5, "numFailedTables": 1, "numChangedTables": 4,
    }  # fmt: skip
    assert len({id(session) for session in sessions}) == 3, "each table has its session"
    assert {name: rows(lake / name) for name in names} == rows_before
    assert {name: delta_rs_rows(lake / name) for name in names} == rows_before
    assert operations(lake / "plain")[:3] == ["VACUUM END", "VACUUM START", "OPTIMIZE"]
    plain = next(row for row in result.tables if row["table"].endswith("plain"))
    assert (plain["before"]["numFiles"], plain["after"]["numFiles"]) == (FILE_COUNT, 1)
    assert "12 files became 1" in plain["steps"]["optimize"]["reason"]
    assert plain["after"]["daysSinceVacuum"] == 0.0

    versions = {name: DeltaTable(str(lake / name)).version for name in names}
    add_files(lake / "plain")
    with pytest.raises(MaintenanceError) as error:
        maintain_lake(spark, lake, vacuum_after_days=0, min_small_files=5)
    assert outcomes(error.value.result)["plain"] == ("done earlier", "done", "done earlier")
    assert outcomes(error.value.result)["clustered"] == ("done earlier", "not needed", "done earlier")
    assert DeltaTable(str(lake / "plain")).version == versions["plain"] + FILE_COUNT, "no second optimize or vacuum"
    assert DeltaTable(str(lake / "by_day")).version == versions["by_day"]


def test_a_failed_step_ends_its_table_and_a_retryable_error_makes_the_task_retryable(
    spark, tmp_path, monkeypatch, caplog
):
    lake = tmp_path / "lake"
    for name in ("bad", "good"):
        add_files(lake / name)
    optimize = one_table.optimize

    def fail_for_bad(session, request):
        if request.table.endswith("bad"):
            raise StorageError("The storage does not answer.", remedy="Retry.")
        return optimize(session, request)

    monkeypatch.setattr(one_table, "optimize", fail_for_bad)
    tables = [str(lake / "bad"), str(lake / "good"), f"file://{lake}/good"]
    caplog.set_level(logging.INFO, "deltalite")
    with pytest.raises(MaintenanceIncompleteError, match=r"bad \(StorageError\)") as error:
        maintain_lake(spark, lake, pattern=None, tables=tables)
    assert error.value.retryable
    assert outcomes(error.value.result) == {
        "bad": ("failed", "not reached", "not needed"), "good": ("done", "done", "not needed"),
    }  # fmt: skip
    bad = error.value.result.tables[0]
    assert (bad["status"], bad["error"]["kind"]) == ("failed", "StorageError")
    assert [record.levelname for record in caplog.records if str(lake / "bad") in record.getMessage()][-1] == "WARNING"


def test_a_used_up_budget_leaves_the_tables_with_the_smallest_gain_unchanged(spark, tmp_path):
    lake = tmp_path / "lake"
    add_files(lake / "a_few_files", 12)
    add_files(lake / "many_files", 14)
    size = sum(DeltaTable(str(lake / "many_files")).files()["size_bytes"].to_pylist())
    result = maintain_lake(spark, lake, max_bytes=size, checkpoint=False)
    assert outcomes(result) == {
        "many_files": ("done",) + ("not needed",) * 2,
        "a_few_files": ("not reached",) + ("not needed",) * 2,
    }
    reason = result.tables[1]["steps"]["optimize"]["reason"]
    assert "KiB to rewrite exceed the rest of max_bytes, 0 B; 12 files" in reason
    assert outcomes(maintain_lake(spark, lake, max_seconds=0))["a_few_files"] == (
        "not reached",
        "not reached",
        "not needed",
    )
    with pytest.raises(TableNotFoundError, match="No Delta table matches the pattern"):
        maintain_lake(spark, lake, pattern=f"{lake}/x*")


def test_an_isolated_session_has_separate_settings_and_the_same_time_zone(spark):
    session = isolated_session(spark)
    assert session.conf.get("spark.sql.session.timeZone") == spark.conf.get("spark.sql.session.timeZone")
    session.conf.set("spark.sql.shuffle.partitions", "77")
    assert spark.conf.get("spark.sql.shuffle.partitions") != "77"
    assert session.sparkContext is spark.sparkContext


def test_a_stopped_job_cancels_the_spark_jobs_of_its_running_steps(spark, lake, monkeypatch):
    """Without the cancellation, the query of a step would run for minutes."""
    errors = []

    def stop_or_run_slowly(spark, _request, row, _deadline):
        if row.table.endswith("/plain"):
            while not spark.sparkContext.statusTracker().getActiveJobsIds():
                time.sleep(0.05)
            raise SystemExit(143)
        try:
            spark.range(0, 6000, 1, 600).where("java_method('java.lang.Thread', 'sleep', 100L) = 'a text'").collect()
        except SPARK_ERRORS as error:
            errors.append(str(error))
            raise

    monkeypatch.setattr(command, "maintain_table", stop_or_run_slowly)
    with pytest.raises(SystemExit):
        maintain_lake(spark, lake, parallelism=3)
    assert errors and all("cancelled" in error for error in errors)
