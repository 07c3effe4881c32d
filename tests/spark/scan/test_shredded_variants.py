"""The Python reader reads the shredded variants of Spark with the same values as Spark."""

from __future__ import annotations

import json

import pytest
from pyspark.sql.types import VariantVal

import deltalite.spark as delta
from deltalite import DeltaTable
from deltalite.spark.runtime.session import settings
from tests.support.selection import sampled
from tests.support.tables import schema_json, write_foreign_table

pytestmark = [pytest.mark.spark, pytest.mark.generated_code, pytest.mark.usefixtures("quick_plans")]

OBJECTS = [
    {"a": 1, "b": "x", "z": [1, {"q": None}], "tags": ["t", None, 3], "at": {"lat": 1.5}},
    {"a": "no number", "b": None, "tags": [], "at": {"lat": 2.5, "lon": 3.5, "more": True}},
    {"a": 2**40, "é": 1, "y": {"b": {"a": 1}}, "tags": "none"},
    {}, [], [1, "x"], None, "text", "l" * 80, 7, {"a": None}, {"other": 1}, {"at": {}}, {"at": 5},
]  # fmt: skip
LITERALS = [
    "true", "1Y", "300S", "70000", "5000000000L", "1.5F", "2.5D", "12.34BD", "-1234567890.12BD",
    "123456789012345678901234567.1BD", "DATE'2020-02-03'", "TIMESTAMP'2020-01-01 01:02:03.000004Z'",
    "TIMESTAMP_NTZ'1960-01-01 01:02:03.000004'", "X'00FF'", "'text'", "''", "CAST(NULL AS STRING)",
]  # fmt: skip
SCHEMAS = {
    "object": "a BIGINT, b STRING, tags ARRAY<STRING>, at STRUCT<lat: DOUBLE, lon: DECIMAL(5, 2)>",
    "other types": "a STRING, tags ARRAY<STRUCT<q: INT>>, at DOUBLE",
    "list": "ARRAY<BIGINT>",
    "list of variants": "ARRAY<VARIANT>",
    "boolean": "BOOLEAN", "tinyint": "TINYINT", "smallint": "SMALLINT", "int": "INT", "bigint": "BIGINT",
    "float": "FLOAT", "double": "DOUBLE", "decimal 4": "DECIMAL(4, 2)", "decimal 18": "DECIMAL(18, 2)",
    "decimal 38": "DECIMAL(38, 2)", "date": "DATE", "timestamp": "TIMESTAMP", "ntz": "TIMESTAMP_NTZ",
    "binary": "BINARY", "string": "STRING",
}  # fmt: skip


@pytest.fixture(scope="module")
def variants(spark):
    """A frame with each value as a variant. Each literal also occurs in an object with fields of the `SCHEMAS`."""
    json_values = [f"parse_json('{json.dumps(value, ensure_ascii=False)}')" for value in OBJECTS]
    literal_values = [f"CAST({value} AS VARIANT)" for value in LITERALS]
    object_values = [f"to_variant_object(struct({value} AS a, array({value}) AS tags))" for value in LITERALS]
    query = " UNION ALL ".join(
        f"SELECT {n} AS id, {sql} AS v" for n, sql in enumerate([*json_values, *literal_values, *object_values, "NULL"])
    )
    return spark.sql(query).coalesce(1).cache()


@pytest.mark.parametrize("name", sampled(list(SCHEMAS), list(SCHEMAS)[::3]))
def test_the_python_reader_reads_shredded_variants_as_spark_does(spark, tmp_path, variants, name):
    table = tmp_path / "t"
    shredding = {
        "spark.sql.variant.writeShredding.enabled": "true",
        "spark.sql.variant.forceShreddingSchemaForTest": SCHEMAS[name],
        "spark.sql.variant.allowReadingShredded": "true",
    }
    with settings(spark, shredding):
        variants.write.parquet(str(table))
        (file,) = table.glob("*.parquet")
        add = {"path": file.name, "size": file.stat().st_size}
        write_foreign_table(
            table, schema_json(("id", "integer"), ("v", "variant")), [add], features=("variantShredding",)
        )
        spark_values = {row.id: row.v and row.v.toJson() for row in delta.read(spark, str(table)).collect()}
    rows_read = DeltaTable(str(table)).to_arrow().to_pylist()
    python_values = {
        row["id"]: row["v"] and VariantVal(row["v"]["value"], row["v"]["metadata"]).toJson() for row in rows_read
    }
    assert python_values == spark_values
    assert b"typed_value" in file.read_bytes()
