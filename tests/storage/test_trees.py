"""Folder trees on real storage: list them, delete exactly the named files, and vacuum a table."""

from __future__ import annotations

import uuid

import pytest

import deltalite.spark as delta
from deltalite.commands.common.committing import now_ms
from deltalite.commands.vacuum import vacuum
from deltalite.protocol.properties import DAY_MS
from deltalite.requests import RunIdentity, VacuumRequest
from deltalite.spark.hadoop.folders import folder_of
from deltalite.spark.hadoop.tree import tree_of
from deltalite.storage.trees import walk
from tests.support.tables import ordered, values, write_rows

pytestmark = pytest.mark.spark
UNUSUAL_NAMES = ("a/b c/é%20+.parquet", "a/plain", "a/b c/=.x", "top")


@pytest.fixture(params=["hdfs", "s3a"])
def table(request):
    """The address of a table that does not exist yet."""
    return f"{request.getfixturevalue(request.param)}/{uuid.uuid4()}/t"


def list_tree(tree):
    folders = {}

    def visit(folder):
        folders[folder.name] = folder
        return [name for name, _ in folder.folders]

    walk(tree, visit)
    return folders


def files_in(listing):
    return {f"{folder.name}/{base}".lstrip("/") for folder in listing.values() for base in folder.bases}


def test_a_tree_is_listed_and_its_files_are_deleted(spark, table):
    files = folder_of(spark, table)._files
    for name in (*UNUSUAL_NAMES, "empty/kept"):
        stream = files.fs.create(files.path(name))
        stream.write(b"12345")
        stream.close()
    files.fs.mkdirs(files.path("hollow"))
    tree = tree_of(spark, table)
    folders = list_tree(tree)
    assert files_in(folders) == {*UNUSUAL_NAMES, "empty/kept"}
    assert {size for folder in folders.values() for size in folder.sizes} == {5}
    assert set(folders) == {"", "a", "a/b c", "empty", "hollow"}
    deleted = tree.delete_files([*UNUSUAL_NAMES, "a/never there"])
    assert (deleted.failed, deleted.error) == (0, None) and deleted.deleted in (4, 5)
    assert not tree.remove_folder("empty") and tree.remove_folder("hollow")
    assert files_in(list_tree(tree)) == {"empty/kept"}


@pytest.mark.sample("s3a")
def test_a_vacuum_deletes_the_same_files_as_on_a_local_disk(spark, table):
    for number in range(3):
        write_rows(spark, table, values("id, day", f"{number}, 'a b/ü%'", f"{number + 10}, 'c'"), mode="overwrite",
            partition_by=("day",))  # fmt: skip
    first_request = VacuumRequest(table=table, identity=RunIdentity(app_id="run"))
    assert vacuum(spark, first_request).metrics["numDeletedFiles"] == 0
    later_request = VacuumRequest(table=table, identity=RunIdentity(app_id="later"))
    result = vacuum(spark, later_request, clock_ms=lambda: now_ms() + 8 * DAY_MS)
    assert (result.metrics["numDeletedFiles"], result.operation) == (4, "VACUUM END")
    rows = ordered(tuple(row) for row in delta.read(spark, table).collect())
    assert rows == [(12, "c"), (2, "a b/ü%")]
    names = {file.name for file in folder_of(spark, table).files_below("", but_not_in="_delta_log")}
    assert len(names) == 2
    assert vacuum(spark, later_request).skipped
