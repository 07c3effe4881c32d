"""Folder trees on real storage: a listing, the deletion of files, and the vacuum of a table."""

from __future__ import annotations

from functools import partial
from urllib.parse import unquote

import pytest

import deltalite.spark as delta
from deltalite.commands.common.committing import now_ms
from deltalite.commands.vacuum import vacuum
from deltalite.protocol.properties import DAY_MS
from deltalite.requests import RunIdentity, VacuumRequest
from deltalite.snapshot import Snapshot
from deltalite.spark.hadoop.folders import folder_of
from deltalite.spark.hadoop.opening import writable_store
from deltalite.spark.hadoop.tree import tree_of
from deltalite.storage.patterns import matching_folders
from deltalite.storage.trees import walk
from tests.support.tables import sorted_rows, values, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]
UNUSUAL_NAMES = ("a/b c/é%20+.parquet", "a/plain", "a/b c/=.x", "top")


def list_tree(tree):
    """Return the listing of each folder of a tree, by the folder's name."""
    folders = {}

    def add_and_return_subfolders(folder):
        folders[folder.name] = folder
        return [name for name, _ in folder.folders]

    walk(tree, add_and_return_subfolders)
    return folders


def files_in(folders):
    """Return the names of all files in the listings of `list_tree`."""
    return {f"{folder.name}/{base}".lstrip("/") for folder in folders.values() for base in folder.bases}


def test_a_tree_is_listed_and_its_files_are_deleted(spark, table):
    files = folder_of(spark, table)._files
    for name in (*UNUSUAL_NAMES, "one file/kept"):
        stream = files.fs.create(files.path(name))
        stream.write(b"12345")
        stream.close()
    files.fs.mkdirs(files.path("without files"))
    tree = tree_of(spark, table)
    folders = list_tree(tree)
    assert files_in(folders) == {*UNUSUAL_NAMES, "one file/kept"}
    assert {size for folder in folders.values() for size in folder.sizes} == {5}
    assert set(folders) == {"", "a", "a/b c", "one file", "without files"}
    deletion = tree.delete_files([*UNUSUAL_NAMES, "a/never there"])
    # A bulk delete on S3 does not report that a file is missing, so it counts "a/never there" as deleted.
    assert (deletion.deleted, deletion.failed, deletion.error) == (5 if table.startswith("s3") else 4, 0, None)
    assert not tree.remove_folder("one file") and tree.remove_folder("without files")
    assert files_in(list_tree(tree)) == {"one file/kept"}


@pytest.mark.sample("s3a")
def test_a_pattern_matches_folders_of_a_whole_bucket(spark, table):
    bucket, folder, name = table.rsplit("/", 2)
    files = folder_of(spark, table)._files
    files.fs.create(files.path("_delta_log/x")).close()
    assert matching_folders(f"{bucket}/{folder[:-4]}????/{name}", partial(tree_of, spark)) == [table]
    assert matching_folders(f"{bucket}/*/none", partial(tree_of, spark)) == []


@pytest.mark.sample("s3a")
def test_a_vacuum_deletes_exactly_the_files_that_the_newest_version_does_not_need(spark, table):
    for number in range(3):
        write_rows(spark, table, values("id, day", f"{number}, 'a b/ü%'", f"{number + 10}, 'c'"), mode="overwrite",
            partition_by=("day",))  # fmt: skip
    first_request = VacuumRequest(table=table, identity=RunIdentity(app_id="run"))
    assert vacuum(spark, first_request).metrics["numDeletedFiles"] == 0
    later_request = VacuumRequest(table=table, identity=RunIdentity(app_id="later"))
    result = vacuum(spark, later_request, clock_ms=lambda: now_ms() + 8 * DAY_MS)
    assert (result.metrics["numDeletedFiles"], result.operation) == (4, "VACUUM END")
    rows = sorted_rows(tuple(row) for row in delta.read(spark, table).collect())
    assert rows == [(12, "c"), (2, "a b/ü%")]
    remaining_files = {file.name for file in folder_of(spark, table).files_below("", but_not_in="_delta_log")}
    newest = Snapshot.load(writable_store(spark, table, single_writer=False))
    assert remaining_files == {unquote(path) for path in newest.files["path"].to_pylist()}
    assert len(remaining_files) == 2
    assert vacuum(spark, later_request).skipped
