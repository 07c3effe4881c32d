"""The names of files decide whether a vacuum deletes them: hidden names, links, other tables, and paths in the log."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from deltalite import DeltaTable
from deltalite.commands.vacuum import vacuum
from deltalite.protocol.file_names import LOG_DIR, commit_name
from deltalite.requests import VacuumRequest
from deltalite.storage.local_tree import LocalTree
from deltalite.storage.trees import Deletion
from tests.support.table_history import DAYS, TableHistory
from tests.unit.commands.vacuum.vacuuming import (
    OLD_H,
    WEEK_H,
    age_folders,
    commit_add,
    confirmed_retention,
    run_vacuum,
    vacuum_and_list_deleted,
    write_file,
)


def test_hidden_names_stay_except_those_that_delta_spark_deletes(history):
    kept_names = [
        "_x/a.parquet",
        ".hidden",
        "_delta_log_x",
        "a/_b/c",
        "a/.c.crc",
        "_day=1/x",
        "_SUCCESS",
        "day=q/_x=1/f",
    ]
    deleted_names = ["_change_data/x", "_delta_index/y", "a/d", "day=q/_change_data/z", "metadata/v1.json"]
    temporary = ".deletion_vector_0.bin.00000000-0000-4000-8000-000000000000.tmp"
    for name in (*kept_names, *deleted_names, temporary):
        write_file(history, name)
    assert vacuum_and_list_deleted(history) == {*deleted_names, temporary}


def test_a_partition_column_may_begin_with_an_underscore(tmp_path):
    history = TableHistory(tmp_path / "orders")
    metadata = json.loads((history.folder / commit_name(0)).read_text().splitlines()[-1])["metaData"]
    schema = json.loads(metadata["schemaString"])
    schema["fields"].append({"name": "_p =q", "type": "string", "nullable": True, "metadata": {}})
    metadata |= {"partitionColumns": ["day", "_p =q"], "schemaString": json.dumps(schema)}
    history._commit([{"metaData": metadata}], {})
    write_file(history, "day=1/_p %3Dq=2/dead.parquet")
    write_file(history, "day=1/_other=2/kept.parquet")
    assert vacuum_and_list_deleted(history) == {"day=1/_p %3Dq=2/dead.parquet"}


@pytest.mark.parametrize(
    "properties", [{"delta.universalFormat.enabledFormats": "iceberg"}, {"delta.enableIcebergCompatV2": "true"}]
)
def test_iceberg_metadata_stays_if_the_table_may_have_it(tmp_path, properties):
    history = TableHistory(tmp_path / "orders", properties)
    write_file(history, "metadata/v1.json")
    assert vacuum_and_list_deleted(history) == set()


def test_old_staging_folders_of_killed_writes_are_deleted_completely(history):
    write_file(history, "_deltalite_staging/dead/0/_temporary/part.parquet")
    write_file(history, "_deltalite_staging/alive/0/part-1.parquet")
    write_file(history, "_deltalite_staging/alive/1/part-2.parquet", age_hours=1)
    age_folders(history)
    assert vacuum_and_list_deleted(history) == {"_deltalite_staging/dead/0/_temporary/part.parquet"}
    assert os.listdir(history.folder / "_deltalite_staging") == ["alive"]
    assert sorted(os.listdir(history.folder / "_deltalite_staging/alive")) == ["0", "1"]
    history.advance_clock(WEEK_H)
    assert len(vacuum_and_list_deleted(history)) == 2
    assert not (history.folder / "_deltalite_staging").exists()


def test_old_empty_folders_are_deleted_and_young_ones_stay(history):
    history.append(2)
    history.replace(DAYS[0])
    history._commit(history._remove_actions([f for f in history.live.values() if "_c" in f.add["path"]]), {})
    (history.folder / "old/a/b").mkdir(parents=True)
    (history.folder / "with hidden").mkdir()
    write_file(history, "with hidden/.x")
    history.advance_clock(OLD_H)
    age_folders(history)
    (history.folder / "young").mkdir()
    os.utime(history.folder / "young", (history.now_ms / 1000, history.now_ms / 1000))
    result = run_vacuum(history)
    remaining_folders = {entry.name for entry in history.folder.iterdir() if entry.is_dir()}
    assert remaining_folders == {LOG_DIR, "day=a b", "with hidden", "young"}
    assert result.metrics["numDeletedDirectories"] == 4
    assert result.metrics["numVacuumedDirectories"] == 8, "all listed folders, and the root"


def test_links_are_neither_followed_nor_deleted(history, tmp_path):
    outside = tmp_path / "other"
    outside.mkdir()
    (outside / "precious.parquet").write_bytes(b"x")
    os.utime(outside / "precious.parquet", (0, 0))
    (history.folder / "to a folder").symlink_to(outside)
    (history.folder / "to a file.parquet").symlink_to(outside / "precious.parquet")
    (history.folder / "to nothing").symlink_to(tmp_path / "nowhere")
    os.utime(history.folder / "to a file.parquet", (0, 0), follow_symlinks=False)
    history._commit(
        [{"remove": {"path": path, "dataChange": True, "deletionTimestamp": 1}}
         for path in ("to%20a%20folder/precious.parquet", "to%20a%20file.parquet", "../other/precious.parquet",
                   f"{outside}/precious.parquet", f"file://{outside}/precious.parquet")],
        {},
    )  # fmt: skip
    history.advance_clock(OLD_H)
    age_folders(history)
    for options in ({"mode": "lite", **confirmed_retention(0)}, {}):
        run_vacuum(history, **options)
        assert (outside / "precious.parquet").exists()
        assert {e.name for e in history.folder.iterdir() if e.is_symlink()} == {
            "to a folder", "to a file.parquet", "to nothing",
        }  # fmt: skip


def test_a_folder_that_became_a_link_after_the_listing_is_not_followed(history, tmp_path):
    write_file(history, "a/f.parquet")
    outside = tmp_path / "other"
    outside.mkdir()
    (outside / "f.parquet").write_bytes(b"x")
    shutil.rmtree(history.folder / "a")
    (history.folder / "a").symlink_to(outside)
    tree = LocalTree(str(history.folder))
    assert tree.delete_files(["a/f.parquet"]) == Deletion()
    assert tree.remove_folder("a/b") is False
    assert (outside / "f.parquet").exists()


def test_a_table_inside_the_table_is_not_touched(history):
    inner = TableHistory(history.folder / "nested" / "t")
    inner.append()
    write_file(history, "nested/t/old.parquet")
    write_file(history, "nested/old.parquet")
    history.advance_clock(OLD_H)
    assert vacuum_and_list_deleted(history) == {"nested/old.parquet"}


@pytest.mark.parametrize("spelling", ["{name}", "./{name}", "x/../{name}", "{root}/{name}", "file://{root}/{name}",
                                     "file:{root}/{name}", "../orders/{name}", "/elsewhere/{base}", "s3://b/t/{base}",
                                     "a//..//{name}"])  # fmt: skip
def test_a_live_file_stays_for_every_spelling_of_its_path(history, spelling):
    name = write_file(history, "day=x/100%25 é+.parquet", age_hours=5000)
    path = spelling.format(name="day=x/100%2525%20%C3%A9+.parquet", root=history.folder, base="100%2525%20é+.parquet")
    commit_add(history, path)
    write_file(history, "day=x/other.parquet")
    history.advance_clock(OLD_H)
    assert vacuum_and_list_deleted(history) == {"day=x/other.parquet"}
    assert name in history.files()


def test_a_live_file_with_an_unencoded_path_stays(history):
    name = write_file(history, "day=a%20b/f.parquet", age_hours=5000)
    commit_add(history, name)
    history.advance_clock(OLD_H)
    assert vacuum_and_list_deleted(history) == set()


def test_a_checksum_of_hadoop_is_deleted_with_its_file(history):
    write_file(history, "a/f.parquet")
    write_file(history, "a/.f.parquet.crc")
    run_vacuum(history)
    assert not (history.folder / "a").exists()


def test_a_name_that_is_not_valid_text_is_not_touched(history):
    folder = os.fsencode(history.folder) + b"/a"
    os.mkdir(folder)
    Path(os.fsdecode(folder + b"/\xff.parquet")).write_bytes(b"x")
    os.utime(folder + b"/\xff.parquet", (0, 0))
    run_vacuum(history)
    assert os.listdir(folder) == [b"\xff.parquet"]


def test_tables_of_other_engines_read_the_same_after_a_vacuum(history):
    deltalake.write_deltalake(str(history.folder / "t"), pa.table({"id": [1]}))
    deltalake.write_deltalake(str(history.folder / "t"), pa.table({"id": [2]}), mode="overwrite")
    vacuum(None, VacuumRequest(table=str(history.folder / "t"), retention_hours=0, confirm_short_retention="t"))
    assert pa.table(deltalake.DeltaTable(str(history.folder / "t")).to_pyarrow_table())["id"].to_pylist() == [2]
    assert [entry["operation"] for entry in DeltaTable(str(history.folder / "t")).history(limit=2)] == [
        "VACUUM END", "VACUUM START",
    ]  # fmt: skip
