"""Every operation keeps the values of variants, and shreds variants only in tables that allow shredding."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import VariantVal

import deltalite.spark as delta
from deltalite import DeltaTable
from deltalite.commands.checkpoint import checkpoint
from deltalite.commands.convert import convert
from deltalite.commands.restore import restore
from deltalite.commands.table import define_table
from deltalite.errors import ConstraintViolationError, InvalidRequestError, SchemaMismatchError
from deltalite.requests import CheckpointRequest, ConvertRequest, RestoreRequest, TableRequest
from deltalite.spark.reader.changes import changes
from tests.support.merging import merge_into
from tests.support.tables import actions_of, delete_rows, folder_content, optimize_table, update_rows, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("one_task"), pytest.mark.generated_code]

PROPERTIES = {
    "no properties": {},
    "mapped, with deletion vectors": {
        "delta.columnMapping.mode": "name",
        "delta.enableDeletionVectors": "true",
        "delta.enableChangeDataFeed": "true",
        "delta.enableRowTracking": "true",
    },
    "shredded, mapped by id": {"delta.enableVariantShredding": "true", "delta.columnMapping.mode": "id"},
}
ROWS = """SELECT id, 'p' || mod(id, 2) AS part, parse_json('{"n": ' || id || ', "t": "x"}') AS v,
named_struct('w', CASE WHEN mod(id, 3) = 0 THEN parse_json('[' || id || ', null]') END) AS s,
array(parse_json('"a"')) AS a FROM range(%d, %d)"""


def rows_by_arrow(table, version=None):
    """(id, then each variant as JSON text) for each row, read without Spark."""

    def text(variant):
        return None if variant is None else VariantVal(variant["value"], variant["metadata"]).toJson()

    rows = DeltaTable(str(table), version=version).to_arrow(columns=["id", "v", "s", "a"]).to_pylist()
    return sorted((row["id"], text(row["v"]), text(row["s"]["w"]), *map(text, row["a"])) for row in rows)


def rows_by_both_readers(spark, table, version=None):
    """(id, then each variant as JSON text) for each row. Fails the test if Spark and the Arrow reader disagree."""
    frame = delta.read(spark, str(table), version_as_of=version)
    assert frame.schema["v"].dataType.typeName() == "variant"
    rows = sorted(map(tuple, frame.selectExpr("id", "to_json(v)", "to_json(s.w)", "to_json(a[0])").collect()))
    assert rows_by_arrow(table, version=version) == rows
    return rows


def expected_rows(ids, changed_variants=None):
    """The rows of the query `ROWS` with these ids. `changed_variants` has the text of `v` for changed rows, by id."""
    changed_variants = changed_variants or {}
    return [
        (i, changed_variants.get(i, f'{{"n":{i},"t":"x"}}'), f"[{i},null]" if i % 3 == 0 else None, '"a"') for i in ids
    ]


def is_shredded(table, *, at_least_one=False):
    """Whether the files of the newest version store variants with typed columns.

    All files must agree. With `at_least_one`, one file with typed columns is enough.
    """
    files = [Path(table) / path for path in DeltaTable(str(table)).files()["path"].to_pylist()]
    has_typed_columns = {"typed_value" in str(pq.ParquetFile(file).schema) for file in files}
    assert len(has_typed_columns) == 1 or at_least_one
    return any(has_typed_columns)


@pytest.mark.sample("shredded, mapped by id")
@pytest.mark.parametrize("kind", PROPERTIES)
def test_each_operation_keeps_variants(spark, tmp_path, kind):
    table, allows_shredding = tmp_path / "t", "shredded" in kind
    write_rows(spark, table, ROWS % (0, 6), partition_by=("part",), properties=PROPERTIES[kind])
    write_rows(spark, table, ROWS % (6, 9))
    assert rows_by_both_readers(spark, table) == expected_rows(range(9))
    assert is_shredded(table) == allows_shredding
    delete_rows(spark, table, "variant_get(v, '$.n', 'int') = 4")
    update_rows(spark, table, {"v": "parse_json('7.5')"}, "id = 1")
    clauses = {"matched": [{"update": {"v": "parse_json('true')"}}], "inserts": [{"insert": "*"}]}
    merge_into(spark, table, ROWS % (5, 12), "target.id = source.id", **clauses)
    merged_rows = expected_rows([0, 1, 2, 3, *range(5, 12)], {1: "7.5"} | dict.fromkeys(range(5, 9), "true"))
    assert rows_by_both_readers(spark, table) == merged_rows
    optimize_table(spark, table, max_deleted_rows_ratio=0)
    checkpoint(spark, CheckpointRequest(table=str(table)))
    assert rows_by_both_readers(spark, table) == merged_rows
    assert is_shredded(table) == allows_shredding
    optimize_table(spark, table, z_order_by=["id"])
    assert rows_by_both_readers(spark, table) == merged_rows
    version = DeltaTable(str(table)).version
    write_rows(spark, table, ROWS % (21, 22), mode="overwrite", replace_where="part = 'p1'")
    restore(spark, RestoreRequest(table=str(table), version=version))
    assert rows_by_both_readers(spark, table) == merged_rows
    assert rows_by_both_readers(spark, table, version=1) == expected_rows(range(9))


def variant_features(table):
    """The features for variants in the table's protocol."""
    return {name for name in DeltaTable(str(table)).protocol.writer_features or () if name.startswith("variant")}


def test_declared_variant_columns_take_values_and_enforce_their_rules(spark, tmp_path):
    table = tmp_path / "t"
    define_table(spark, TableRequest(table=str(table), schema="id INT, v VARIANT NOT NULL DEFAULT NULL"))
    assert variant_features(table) == {"variantType"}
    with pytest.raises(ConstraintViolationError):
        write_rows(spark, table, "SELECT 1 AS id, CAST(NULL AS VARIANT) AS v")
    write_rows(spark, table, "SELECT 1 AS id, parse_json('1') AS v")
    define_table(
        spark,
        TableRequest(
            table=str(table),
            schema="id INT, v VARIANT NOT NULL DEFAULT NULL, m MAP<STRING, VARIANT>",
            properties={"delta.enableVariantShredding": "true"},
            constraints={"small": "variant_get(v, '$', 'int') < 9"},
        ),
    )
    assert variant_features(table) == {"variantType", "variantShredding"}
    write_rows(spark, table, "SELECT 2 AS id, parse_json('2') AS v, map('k', parse_json('[]')) AS m")
    with pytest.raises(ConstraintViolationError):
        write_rows(spark, table, "SELECT 2 AS id, parse_json('9') AS v, map('k', parse_json('[]')) AS m")
    write_rows(spark, table, "SELECT 3 AS id, parse_json('3') AS v, parse_json('{}') AS w", merge_schema=True)
    frame = delta.read(spark, str(table)).selectExpr("id", "to_json(v)", "to_json(m.k)", "to_json(w)")
    assert sorted(map(tuple, frame.collect())) == [(1, "1", None, None), (2, "2", "[]", None), (3, "3", None, "{}")]


def test_the_only_statistic_of_a_variant_is_its_null_count(spark, tmp_path):
    query = (
        "SELECT IF(id < 2, NULL, parse_json('{\"a\": 1}')) AS v, named_struct('w', parse_json('1')) AS s FROM range(5)"
    )
    for name, properties in {"plain": {}, "shredded": PROPERTIES["shredded, mapped by id"]}.items():
        write_rows(spark, tmp_path / name, query, properties=properties)
        column_nulls = member_nulls = 0
        for add in actions_of(tmp_path / name, 0)["add"]:
            stats = json.loads(add["stats"])
            variant_nulls, struct_nulls = stats["nullCount"].values()
            column_nulls += variant_nulls
            member_nulls += sum(struct_nulls.values())
            assert (stats["minValues"], stats["maxValues"]) == ({}, {})
        assert (column_nulls, member_nulls) == (2, 0)


def test_a_table_with_the_preview_features_does_not_get_the_final_features(spark, tmp_path):
    table = tmp_path / "t"
    previews = {f"delta.feature.{name}-preview": "supported" for name in ("variantType", "variantShredding")}
    write_rows(spark, table, "SELECT 1L AS id", properties=previews)
    shredding = {"delta.enableVariantShredding": "true"}
    define_table(spark, TableRequest(table=str(table), schema="id BIGINT, v VARIANT", properties=shredding))
    write_rows(spark, table, "SELECT id, parse_json('{\"a\": 1}') AS v FROM range(5)")
    assert variant_features(table) == {"variantType-preview", "variantShredding-preview"}
    assert is_shredded(table, at_least_one=True)


def test_a_setting_of_the_session_does_not_shred_variants_in_a_table_without_shredding(spark, tmp_path):
    table, setting = tmp_path / "t", "spark.sql.variant.forceShreddingSchemaForTest"
    spark.conf.set(setting, "a BIGINT")
    try:
        write_rows(spark, table, ROWS % (0, 3))
        assert spark.conf.get(setting) == "a BIGINT"
    finally:
        spark.conf.unset(setting)
    assert not is_shredded(table)


@pytest.mark.parametrize("annotated", ["true", "false"])
def test_a_folder_of_files_with_variants_is_not_converted(spark, tmp_path, annotated):
    folder, setting = tmp_path / "t", "spark.sql.parquet.variant.annotateLogicalType.enabled"
    spark.conf.set(setting, annotated)
    try:
        spark.sql(ROWS % (0, 3)).drop("part").write.parquet(str(folder))
    finally:
        spark.conf.unset(setting)
    content_before = folder_content(tmp_path)
    with pytest.raises(SchemaMismatchError, match="variants"):
        convert(spark, ConvertRequest(table=str(folder)))
    assert folder_content(tmp_path) == content_before


def test_the_change_feed_has_variants(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, ROWS % (0, 3), properties=PROPERTIES["mapped, with deletion vectors"])
    update_rows(spark, table, {"v": "parse_json('7')"}, "id = 1")
    feed = changes(spark, str(table), 1, 1).selectExpr("_change_type", "to_json(v)")
    assert sorted(map(tuple, feed.collect())) == [
        ("update_postimage", "7"),
        ("update_preimage", '{"n":1,"t":"x"}'),
    ]


UNSUPPORTED_USES = {
    "a partition column": lambda spark, t: write_rows(spark, f"{t}new", ROWS % (0, 1), partition_by=("v",)),
    "a Z-order": lambda spark, t: optimize_table(spark, t, z_order_by=["v"]),
    "a clustering column": lambda spark, t: define_table(spark, TableRequest(table=t, cluster_by=["v"])),
    "a key of a merge": lambda spark, t: merge_into(
        spark, t, ROWS % (0, 1), "target.v = source.v", inserts=[{"insert": "*"}]
    ),
    "a comparison": lambda spark, t: delete_rows(spark, t, "v = parse_json('1')"),
    "a default": lambda spark, t: define_table(
        spark, TableRequest(table=f"{t}new", schema="id INT, v VARIANT DEFAULT parse_json('1')")
    ),
    "a generated column": lambda spark, t: define_table(
        spark, TableRequest(table=f"{t}new", schema="id INT, v VARIANT GENERATED ALWAYS AS (CAST(id AS VARIANT))")
    ),
    "another type": lambda spark, t: write_rows(spark, t, "SELECT 1 AS id, 'p' AS part, 1 AS v", merge_schema=True),
}


@pytest.fixture(scope="module")
def unchanged_table(spark, tmp_path_factory):
    """A table with variants, alone in its folder. No test changes it."""
    table = tmp_path_factory.mktemp("unchanged") / "t"
    write_rows(spark, table, ROWS % (0, 3))
    return table


@pytest.mark.parametrize("use", UNSUPPORTED_USES)
def test_an_unsupported_use_of_a_variant_is_rejected_with_a_remedy(spark, unchanged_table, use):
    content_before = folder_content(unchanged_table.parent)
    with pytest.raises((InvalidRequestError, SchemaMismatchError)) as error_info:
        UNSUPPORTED_USES[use](spark, str(unchanged_table))
    assert error_info.value.remedy
    assert folder_content(unchanged_table.parent) == content_before
