"""Symlink manifests on real storage: commits write and delete them, and their lines begin with the table's address."""

from __future__ import annotations

import pytest

from deltalite.commands.generate_manifest import generate_manifest
from deltalite.protocol.file_names import MANIFEST_DIR
from deltalite.requests import GenerateManifestRequest
from deltalite.spark.hadoop.folders import folder_of
from deltalite.spark.hadoop.opening import readable_store
from deltalite.spark.hadoop.uris import glob_escaped
from tests.support.tables import delete_rows, values, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]
MANIFESTS_ENABLED = {"delta.compatibility.symlinkFormatManifest.enabled": "true"}


def ids_by_manifest(spark, table):
    """Return the ids of the rows that Spark reads through each manifest, by the manifest's name."""
    store, ids_by_name = readable_store(spark, table), {}
    for file in folder_of(spark, table).files_below(MANIFEST_DIR, but_not_in="nothing"):
        lines = store.read(file.name).decode().splitlines()
        assert all(line.startswith(f"{table}/") for line in lines)
        ids = [row.id for row in spark.read.parquet(*map(glob_escaped, lines)).collect()]
        ids_by_name[file.name.removeprefix(f"{MANIFEST_DIR}/")] = sorted(ids)
    return ids_by_name


@pytest.mark.campaign
def test_each_commit_updates_the_manifests_of_the_table(spark, table):
    first = values("id, day", "1, 'a b/ü%'", "2, 'c'", "3, 'c'")
    write_rows(spark, table, first, partition_by=("day",), properties=MANIFESTS_ENABLED)
    escaped_name = "day=a b%2Fü%25/manifest"
    assert ids_by_manifest(spark, table) == {escaped_name: [1], "day=c/manifest": [2, 3]}
    write_rows(spark, table, values("id, day", "4, 'c'"))
    delete_rows(spark, table, "id IN (1, 2)")
    assert ids_by_manifest(spark, table) == {"day=c/manifest": [3, 4]}
    write_rows(spark, table, values("id", "9"), mode="overwrite", overwrite_schema=True, partition_by=())
    assert ids_by_manifest(spark, table) == {"manifest": [9]}
    regenerated = generate_manifest(spark, GenerateManifestRequest(table=table))
    assert regenerated.metrics == {"numManifests": 1, "numFiles": 1, "numDeletedManifests": 0}
    assert ids_by_manifest(spark, table) == {"manifest": [9]}
