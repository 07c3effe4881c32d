"""Symlink manifests of real tables: Spark reads the files that a manifest names, and gets the rows of its partition."""

from __future__ import annotations

from urllib.parse import unquote

import pytest

from deltalite import DeltaTable
from deltalite.commands.generate_manifest import generate_manifest
from deltalite.errors import InvalidRequestError
from deltalite.protocol.file_names import MANIFEST_DIR
from deltalite.protocol.paths import partition_dir
from deltalite.requests import GenerateManifestRequest
from deltalite.spark.hadoop.uris import glob_escaped
from tests.support.tables import delete_rows, values, write_rows

WITH_MANIFESTS = {"delta.compatibility.symlinkFormatManifest.enabled": "true"}
PARTITION_TEXTS = ("a b", "50%", "x=y/z:*?", "ü {[^]}", "#'\\\"", "%41", "a+b", None)
ASCII = "".join(map(chr, range(1, 128)))


def ids_by_manifest(spark, table):
    """The ids that Spark reads through each manifest, by the partition value in the name of the manifest's folder."""
    ids = {}
    for manifest in (table / MANIFEST_DIR).rglob("manifest"):
        lines = manifest.read_text(encoding="utf-8").splitlines()
        assert all(line.startswith(f"file:{table}/") for line in lines)
        rows = spark.read.schema("id BIGINT").parquet(*map(glob_escaped, lines)).collect() if lines else []
        value = unquote(manifest.parent.name.partition("=")[2])
        ids[None if value == "__HIVE_DEFAULT_PARTITION__" else value] = sorted(row.id for row in rows)
    return ids


def ids_by_partition(table):
    """The ids that the library reads, by partition value."""
    ids = {}
    for row in DeltaTable(str(table)).to_arrow().to_pylist():
        ids.setdefault(row["name"], []).append(row["id"])
    return {name: sorted(partition_ids) for name, partition_ids in ids.items()}


def quoted(text):
    """The SQL literal of a text or a null."""
    return "NULL" if text is None else "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def id_name_rows(*pairs):
    """The query for rows of (id, name)."""
    return values("id, name", *(f"{row_id}L, {quoted(name)}" for row_id, name in pairs))


@pytest.fixture
def table(spark, tmp_path):
    """A table with eight partitions, each with the ids n and n + 8. A path must escape most of the partition values."""
    table = tmp_path / "a {table}"
    query = id_name_rows(*((n, PARTITION_TEXTS[n % 8]) for n in range(16)))
    write_rows(spark, table, query, partition_by=("name",), properties=WITH_MANIFESTS)
    return table


def test_spark_reads_the_table_by_its_manifests_after_each_commit(spark, table):
    assert len(ids_by_partition(table)) == 8
    assert ids_by_manifest(spark, table) == ids_by_partition(table)
    write_rows(spark, table, id_name_rows((16, "a b"), (17, "new")))
    assert ids_by_manifest(spark, table) == ids_by_partition(table)
    delete_rows(spark, table, "name = '50%' OR id < 4")
    assert "50%" not in ids_by_manifest(spark, table)
    assert ids_by_manifest(spark, table) == ids_by_partition(table)
    write_rows(spark, table, id_name_rows((20, "a b"), (21, None)), mode="overwrite")
    assert ids_by_manifest(spark, table) == ids_by_partition(table) == {"a b": [20], None: [21]}
    write_rows(spark, table, id_name_rows((1, "x")), mode="overwrite", overwrite_schema=True, partition_by=())
    assert ids_by_manifest(spark, table) == {"": [1]}


@pytest.mark.smoke
def test_generated_manifests_have_the_files_of_the_table(spark, table):
    ids_before = ids_by_manifest(spark, table)
    for manifest in (table / MANIFEST_DIR).rglob("manifest"):
        manifest.unlink()
    result = generate_manifest(spark, GenerateManifestRequest(table=str(table)))
    assert (result.version, result.metrics["numManifests"]) == (0, 8)
    assert ids_by_manifest(spark, table) == ids_before


def test_partition_directories_have_the_names_that_spark_gives_them(spark):
    utils = spark._jvm.org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils
    for text in (*PARTITION_TEXTS, ASCII, "é\u2028", ""):
        assert partition_dir({ASCII: text}) == utils.getPartitionPathString(ASCII, text)


def test_a_table_with_manifests_cannot_enable_deletion_vectors_or_column_mapping(spark, table, tmp_path):
    for properties in ({"delta.enableDeletionVectors": "true"}, {"delta.columnMapping.mode": "name"}):
        with pytest.raises(InvalidRequestError, match="exclude each other"):
            write_rows(
                spark, table, id_name_rows((1, "x")), mode="overwrite", overwrite_schema=True, properties=properties
            )
        with pytest.raises(InvalidRequestError, match="exclude each other"):
            write_rows(spark, tmp_path / "new", id_name_rows((1, "x")), properties=WITH_MANIFESTS | properties)
    assert DeltaTable(str(table)).version == 0
