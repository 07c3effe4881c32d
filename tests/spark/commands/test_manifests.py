"""Symlink manifests of real tables: Spark reads the files that they name, and finds the table in each partition."""

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

ON = {"delta.compatibility.symlinkFormatManifest.enabled": "true"}
ODD = ("a b", "50%", "x=y/z:*?", "ü {[^]}", "#'\\\"", "%41", "a+b", None)
ASCII = "".join(map(chr, range(1, 128)))


def by_manifests(spark, table):
    """The ids that Spark reads by each manifest, by the partition that its folder names."""
    lines_by_file = {}
    for manifest in (table / MANIFEST_DIR).rglob("manifest"):
        lines = manifest.read_text(encoding="utf-8").splitlines()
        assert all(line.startswith(f"file:{table}/") for line in lines)
        rows = spark.read.schema("id BIGINT").parquet(*map(glob_escaped, lines)).collect() if lines else []
        value = unquote(manifest.parent.name.partition("=")[2])
        lines_by_file[None if value == "__HIVE_DEFAULT_PARTITION__" else value] = sorted(row.id for row in rows)
    return lines_by_file


def by_partitions(table):
    """The ids of each partition, as the table has them."""
    rows_by_file = {}
    for row in DeltaTable(str(table)).to_arrow().to_pylist():
        rows_by_file.setdefault(row["name"], []).append(row["id"])
    return {name: sorted(ids) for name, ids in rows_by_file.items()}


def rows_of(*pairs):
    quoted = [
        (n, "NULL" if text is None else "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'") for n, text in pairs
    ]
    return values("id, name", *(f"{n}L, {text}" for n, text in quoted))


@pytest.fixture
def table(spark, tmp_path):
    """Eight oddly named partitions, each with the numbers n and n + 8."""
    table = tmp_path / "a {table}"
    rows = rows_of(*((n, ODD[n % 8]) for n in range(16)))
    write_rows(spark, table, rows, partition_by=("name",), properties=ON)
    return table


def test_spark_reads_the_table_by_its_manifests_after_each_commit(spark, table):
    assert len(by_partitions(table)) == 8
    assert by_manifests(spark, table) == by_partitions(table)
    write_rows(spark, table, rows_of((16, "a b"), (17, "new")))
    assert by_manifests(spark, table) == by_partitions(table)
    delete_rows(spark, table, "name = '50%' OR id < 4")
    assert "50%" not in by_manifests(spark, table)
    assert by_manifests(spark, table) == by_partitions(table)
    write_rows(spark, table, rows_of((20, "a b"), (21, None)), mode="overwrite")
    assert by_manifests(spark, table) == by_partitions(table) == {"a b": [20], None: [21]}
    write_rows(spark, table, rows_of((1, "x")), mode="overwrite", overwrite_schema=True, partition_by=())
    assert by_manifests(spark, table) == {"": [1]}


@pytest.mark.smoke
def test_generated_manifests_have_the_files_of_the_table(spark, table):
    before = by_manifests(spark, table)
    for manifest in (table / MANIFEST_DIR).rglob("manifest"):
        manifest.unlink()
    result = generate_manifest(spark, GenerateManifestRequest(table=str(table)))
    assert (result.version, result.metrics["numManifests"]) == (0, 8)
    assert by_manifests(spark, table) == before


def test_partition_directories_have_the_names_that_spark_gives_them(spark):
    utils = spark._jvm.org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils
    for text in (*ODD, ASCII, "é\u2028", ""):
        assert partition_dir({ASCII: text}) == utils.getPartitionPathString(ASCII, text)


def test_a_table_with_manifests_cannot_enable_deletion_vectors_or_column_mapping(spark, table, tmp_path):
    for other in ({"delta.enableDeletionVectors": "true"}, {"delta.columnMapping.mode": "name"}):
        with pytest.raises(InvalidRequestError, match="exclude each other"):
            write_rows(spark, table, rows_of((1, "x")), mode="overwrite", overwrite_schema=True, properties=other)
        with pytest.raises(InvalidRequestError, match="exclude each other"):
            write_rows(spark, tmp_path / "new", rows_of((1, "x")), properties=ON | other)
    assert DeltaTable(str(table)).version == 0
