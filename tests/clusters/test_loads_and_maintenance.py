"""Loads of files, a history, checks, manifests, vacuums and the maintenance of a lake, on real clusters."""

from __future__ import annotations

import json
import os
import time

import pyarrow as pa
import pytest

from airflow_provider_deltalite.operators.delta import (
    DeltaCheckOperator,
    DeltaConvertOperator,
    DeltaCopyOperator,
    DeltaGenerateManifestOperator,
    DeltaLakeMaintenanceOperator,
    DeltaScdOperator,
    DeltaVacuumOperator,
)
from deltalite.protocol.file_names import commit_name
from tests.clusters.conftest import EACH_MODE
from tests.clusters.slow_jobs import create_table
from tests.support.clusters.table_checks import check_table
from tests.support.tables import actions_of, schema_json, write_data_file, write_foreign_table

pytestmark = pytest.mark.campaign
DAY_S = 86_400


@EACH_MODE
def test_a_conversion_makes_a_table_of_parquet_files(mode):
    folder = mode.folder / "orders"
    names = [f"day=2026-01-0{number}/part-{number}.parquet" for number in (1, 2)]
    for number, name in enumerate(names):
        write_data_file(folder, name, id=pa.array([number, number + 10], pa.int32()))
    mode.put_table(folder)
    convert = DeltaConvertOperator(**mode.parameters("convert", "orders"), partition_schema="day STRING")
    result = mode.run(convert)
    metrics = {name: result["metrics"][name] for name in ("numConvertedFiles", "numConvertedRows")}
    assert (result["version"], metrics) == (0, {"numConvertedFiles": 2, "numConvertedRows": 4})
    table = mode.local_table("orders")
    days = {0: "2026-01-01", 1: "2026-01-02"}
    check_table(table, [(number + tens, day) for number, day in days.items() for tens in (0, 10)])
    assert sorted(add["path"] for add in actions_of(table, 0)["add"]) == names


@EACH_MODE
def test_a_copy_loads_each_file_once(mode):
    landing = mode.folder / "landing"
    landing.mkdir()
    source = {"format": "csv", "path": f"file://{landing}", "schema": "id INT, kind STRING"}
    runs = []
    for number in range(2):
        (landing / f"{number}.csv").write_text(f"{number},new\n{number + 10},new\n")
        runs.append(mode.run(DeltaCopyOperator(**mode.parameters(f"copy{number}", "orders"), source=source)))
    metrics = [
        {name: run["metrics"][name] for name in ("numLoadedFiles", "numSkippedFiles", "numOutputRows")} for run in runs
    ]
    assert metrics == [
        {"numLoadedFiles": 1, "numSkippedFiles": skipped_files, "numOutputRows": 2} for skipped_files in (0, 1)
    ]
    check_table(mode.local_table("orders"), [(number, "new") for number in (0, 10, 1, 11)])


@EACH_MODE
def test_a_history_has_a_row_for_each_value_of_a_key(mode):
    def load(task_id, *rows):
        rows_file = mode.folder / f"{task_id}.csv"
        rows_file.write_text("".join(f"{row}\n" for row in rows))
        schema = "id INT, kind STRING, at INT"
        source = {"format": "csv", "path": f"file://{rows_file}", "schema": schema}
        parameters = {"keys": ["id"], "sequence_by": "at", "exclude": ["at"], "delete_when": "kind = 'deleted'"}
        return mode.run(DeltaScdOperator(**mode.parameters(task_id, "orders"), source=source, **parameters))

    assert load("first", "1,old,1", "2,old,1")["version"] == 0
    assert load("second", "1,new,2", "2,deleted,3", "3,new,2")["version"] == 1
    table = mode.local_table("orders")
    check_table(
        table,
        [
            (1, "old", 1, 2, False, None),
            (1, "new", 2, None, True, None),
            (2, "old", 1, 3, False, None),
            (3, "new", 2, None, True, None),
        ],
    )


@EACH_MODE
def test_a_check_counts_bad_rows_and_commits_nothing(mode):
    create_table(mode, range(40))
    audits = [
        {"name": "unique_ids", "unique": ["id"]},
        {"name": "large_ids", "rows": "id < 10", "level": "warn"},
    ]
    result = mode.run(DeltaCheckOperator(**mode.parameters("check", "orders"), audits=audits))
    assert (result["version"], result["committed"]) == (0, False)
    assert result["metrics"]["numAudits"] == 2 and result["metrics"]["numAuditsNotPassed"] == 1
    bad_rows = {audit["name"]: audit["measured"] for audit in result["audits"]}
    assert bad_rows == {"unique_ids": 0, "large_ids": 10}
    assert mode.commit_files("orders") == ["00000000000000000000.json"]


@EACH_MODE
def test_a_manifest_lists_the_addresses_of_all_files(mode):
    create_table(mode, range(40))
    result = mode.run(DeltaGenerateManifestOperator(**mode.parameters("manifest", "orders")))
    metrics = {name: result["metrics"][name] for name in ("numManifests", "numFiles", "numDeletedManifests")}
    assert metrics == {"numManifests": 1, "numFiles": 4, "numDeletedManifests": 0}
    manifest = mode.local_table("orders") / "_symlink_format_manifest" / "manifest"
    folder = mode.lake if "://" in mode.lake else f"file:{mode.lake}"
    assert sorted(manifest.read_text().split()) == [f"{folder}/orders/old-{number}.parquet" for number in range(4)]


@EACH_MODE
def test_a_vacuum_deletes_the_files_whose_retention_has_passed(mode):
    put_table_with_old_files(mode, "orders")
    result = mode.run(DeltaVacuumOperator(**mode.parameters("vacuum", "orders")))
    assert (result["version"], result["metrics"]["numDeletedFiles"]) == (3, 2)
    assert data_files(mode, "orders") == ["active.parquet", "new-orphan.parquet"]
    check_table(mode.local_table("orders"), [(1,)])


@EACH_MODE
def test_a_maintenance_runs_the_steps_that_pay_on_each_table(mode):
    put_table_with_old_files(mode, "old")
    create_table(mode, range(40))
    parameters = mode.parameters("maintain", "orders")
    del parameters["table"]
    result = mode.run(
        DeltaLakeMaintenanceOperator(**parameters, pattern=f"{mode.lake}/*", min_small_files=4, min_dead_bytes=1)
    )
    counts = ("numTables", "numChangedTables", "numFailedTables", "numOptimizedTables", "numVacuumedTables")
    assert [result["metrics"][name] for name in counts] == [2, 2, 0, 1, 2]
    steps_done = {
        row["table"].rpartition("/")[2]: [name for name, step in row["steps"].items() if step["outcome"] == "done"]
        for row in result["tables"]
    }
    # The vacuum of `orders` is due, because the log shows none and no time of the creation.
    assert steps_done == {"old": ["vacuum"], "orders": ["optimize", "vacuum"]}
    assert data_files(mode, "old") == ["active.parquet", "new-orphan.parquet"]
    table = mode.local_table("orders")
    check_table(table, [(number, "old") for number in range(40)])
    optimize = actions_of(table, 1)
    assert (len(optimize["add"]), len(optimize["remove"])) == (1, 4)


def put_table_with_old_files(mode, name):
    """Put a table of one row with three unneeded files: a removed one, an old orphan and a new orphan.

    The table removed a file ten days ago. An orphan is a file that no version names.
    """
    now_s = time.time()
    table = mode.folder / name
    adds = {
        base: write_data_file(table, f"{base}.parquet", id=pa.array([number], pa.int64()))
        for number, base in enumerate(["removed", "active", "old-orphan", "new-orphan"])
    }
    write_foreign_table(table, schema_json(("id", "long")), [adds["removed"], adds["active"]])
    removal = {"deletionTimestamp": int(now_s - 10 * DAY_S) * 1000, "dataChange": True}
    removal |= {"extendedFileMetadata": True, "partitionValues": {}, **adds["removed"]}
    (table / commit_name(1)).write_text(json.dumps({"remove": removal}))
    ages_in_days = {f"{base}.parquet": 20 for base in ("removed", "active", "old-orphan")}
    ages_in_days |= {commit_name(0): 20, commit_name(1): 10}
    for file_name, days in ages_in_days.items():
        os.utime(table / file_name, (now_s - days * DAY_S,) * 2)
    mode.put_table(table)


def data_files(mode, table):
    """The names of the data files in the folder of a table."""
    return [name for name in mode.files(table) if name.endswith(".parquet") and "/" not in name]
