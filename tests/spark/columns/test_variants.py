"""Every operation keeps the values of variants, in files that are shredded only if the table allows it."""

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
from tests.support.tables import commit, delete_rows, everything, optimize_table, update_rows, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("one_task"), pytest.mark.generated_code]

KINDS = {
    "files": {},
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


def texts_by_arrow(table, **at):
    """The id and both variants of each row as JSON, read without Spark."""

    def text(variant):
        return None if variant is None else VariantVal(variant["value"], variant["metadata"]).toJson()

    read = DeltaTable(str(table), **at).to_arrow(columns=["id", "v", "s", "a"]).to_pylist()
    return sorted((r["id"], text(r["v"]), text(r["s"]["w"]), *map(text, r["a"])) for r in read)


def texts(spark, table, version=None):
    """The same, read with Spark; both readers must agree."""
    frame = delta.read(spark, str(table), version_as_of=version)
    assert frame.schema["v"].dataType.typeName() == "variant"
    read = sorted(tuple(r) for r in frame.selectExpr("id", "to_json(v)", "to_json(s.w)", "to_json(a[0])").collect())
    assert texts_by_arrow(table, version=version) == read
    return read


def expected(ids, **changed):
    """The rows as the query computes them."""
    return [
        (i, changed.get(f"n{i}", f'{{"n":{i},"t":"x"}}'), f"[{i},null]" if i % 3 == 0 else None, '"a"') for i in ids
    ]


def is_shredded(table, *, at_least_one=False):
    """Whether each file (or at least one) of the newest version stores variants with typed columns."""
    names = [Path(table) / path for path in DeltaTable(str(table)).files()["path"].to_pylist()]
    kinds = {"typed_value" in str(pq.ParquetFile(name).schema) for name in names}
    assert len(kinds) == 1 or at_least_one
    return any(kinds)


@pytest.mark.parametrize("kind", KINDS)
def test_each_operation_keeps_variants(spark, tmp_path, kind):
    table, allowed = tmp_path / "t", "shredded" in kind
    write_rows(spark, table, ROWS % (0, 6), partition_by=("part",), properties=KINDS[kind])
    write_rows(spark, table, ROWS % (6, 9))
    assert texts(spark, table) == expected(range(9))
    assert is_shredded(table) == allowed
    delete_rows(spark, table, "variant_get(v, '$.n', 'int') = 4")
    update_rows(spark, table, {"v": "parse_json('7.5')"}, "id = 1")
    source = ROWS % (5, 12)
    clauses = {"matched": [{"update": {"v": "parse_json('true')"}}], "inserts": [{"insert": "*"}]}
    merge_into(spark, table, source, "target.id = source.id", **clauses)
    now = expected([0, 1, 2, 3, *range(5, 12)], n1="7.5", **{f"n{i}": "true" for i in range(5, 9)})
    assert texts(spark, table) == now
    optimize_table(spark, table, max_deleted_rows_ratio=0)
    checkpoint(spark, CheckpointRequest(table=str(table)))
    assert texts(spark, table) == now
    assert is_shredded(table) == allowed
    optimize_table(spark, table, z_order_by=["id"])
    assert texts(spark, table) == now
    version = DeltaTable(str(table)).version
    write_rows(spark, table, ROWS % (21, 22), mode="overwrite", replace_where="part = 'p1'")
    restore(spark, RestoreRequest(table=str(table), version=version))
    assert texts(spark, table) == now
    assert texts(spark, table, version=1) == expected(range(9))


def features(table):
    """The features of variants that the table lists."""
    return {name for name in DeltaTable(str(table)).protocol.writer_features or () if name.startswith("variant")}


def test_a_declared_variant_column_is_filled_and_added(spark, tmp_path):
    table = tmp_path / "t"
    define_table(spark, TableRequest(table=str(table), schema="id INT, v VARIANT NOT NULL DEFAULT NULL"))
    assert features(table) == {"variantType"}
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
    assert features(table) == {"variantType", "variantShredding"}
    write_rows(spark, table, "SELECT 2 AS id, parse_json('2') AS v, map('k', parse_json('[]')) AS m")
    with pytest.raises(ConstraintViolationError):
        write_rows(spark, table, "SELECT 2 AS id, parse_json('9') AS v, map('k', parse_json('[]')) AS m")
    write_rows(spark, table, "SELECT 3 AS id, parse_json('3') AS v, parse_json('{}') AS w", merge_schema=True)
    read = delta.read(spark, str(table)).selectExpr("id", "to_json(v)", "to_json(m.k)", "to_json(w)")
    assert sorted(map(tuple, read.collect())) == [(1, "1", None, None), (2, "2", "[]", None), (3, "3", None, "{}")]


def test_the_statistics_of_a_variant_are_its_null_count(spark, tmp_path):
    query = (
        "SELECT IF(id < 2, NULL, parse_json('{\"a\": 1}')) AS v, named_struct('w', parse_json('1')) AS s FROM range(5)"
    )
    for name, properties in {"plain": {}, "shredded": KINDS["shredded, mapped by id"]}.items():
        write_rows(spark, tmp_path / name, query, properties=properties)
        counts = [0, 0]
        for add in commit(tmp_path / name, 0)["add"]:
            stats = json.loads(add["stats"])
            variant, struct = stats["nullCount"].values()
            counts = [counts[0] + variant, counts[1] + sum(struct.values())]
            assert (stats["minValues"], stats["maxValues"]) == ({}, {})
        assert counts == [2, 0]


def test_a_table_with_the_preview_features_does_not_get_the_final_ones(spark, tmp_path):
    table = tmp_path / "t"
    properties = {f"delta.feature.{name}-preview": "supported" for name in ("variantType", "variantShredding")}
    write_rows(spark, table, "SELECT 1L AS id", properties=properties)
    more = {"delta.enableVariantShredding": "true"}
    define_table(spark, TableRequest(table=str(table), schema="id BIGINT, v VARIANT", properties=more))
    write_rows(spark, table, "SELECT id, parse_json('{\"a\": 1}') AS v FROM range(5)")
    assert features(table) == {"variantType-preview", "variantShredding-preview"}
    assert is_shredded(table, at_least_one=True)


def test_a_session_that_shreds_does_not_shred_in_other_tables(spark, tmp_path):
    table, setting = tmp_path / "t", "spark.sql.variant.forceShreddingSchemaForTest"
    spark.conf.set(setting, "a BIGINT")
    try:
        write_rows(spark, table, ROWS % (0, 3))
        assert spark.conf.get(setting) == "a BIGINT"
    finally:
        spark.conf.unset(setting)
    assert not is_shredded(table)


@pytest.mark.parametrize("annotated", ["true", "false"])
def test_files_with_variants_are_not_converted(spark, tmp_path, annotated):
    folder, setting = tmp_path / "t", "spark.sql.parquet.variant.annotateLogicalType.enabled"
    spark.conf.set(setting, annotated)
    try:
        spark.sql(ROWS % (0, 3)).drop("part").write.parquet(str(folder))
    finally:
        spark.conf.unset(setting)
    before = everything(tmp_path)
    with pytest.raises(SchemaMismatchError, match="variants"):
        convert(spark, ConvertRequest(table=str(folder)))
    assert everything(tmp_path) == before


def test_the_change_feed_has_variants(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, ROWS % (0, 3), properties=KINDS["mapped, with deletion vectors"])
    update_rows(spark, table, {"v": "parse_json('7')"}, "id = 1")
    feed = changes(spark, str(table), 1, 1).selectExpr("_change_type", "to_json(v)")
    assert sorted(map(tuple, feed.collect())) == [
        ("update_postimage", "7"),
        ("update_preimage", '{"n":1,"t":"x"}'),
    ]


REFUSED = {
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


@pytest.mark.parametrize("use", REFUSED)
def test_a_variant_cannot_be(spark, tmp_path, use):
    table = str(tmp_path / "t")
    write_rows(spark, table, ROWS % (0, 3))
    before = everything(tmp_path)
    with pytest.raises((InvalidRequestError, SchemaMismatchError)) as refusal:
        REFUSED[use](spark, table)
    assert refusal.value.remedy
    assert everything(tmp_path) == before
