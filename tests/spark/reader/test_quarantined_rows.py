"""The record of a quarantined row has the values of the row: `from_json` with the schema of the table returns them."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F  # noqa: N812

from deltalite.spark.reader.quarantined_rows import rejected_rows_as_records

pytestmark = pytest.mark.spark

# An SQL expression for each type, and for the values of a type that a text could lose.
VALUES = {
    "text": r"'q\"uo\\te\n\u0000 🌤 é'",
    "empty": "''",
    "yes": "true",
    "tiny": "CAST(-128 AS TINYINT)",
    "long": "9223372036854775807L",
    "small_float": "float(0.1)",
    "float_infinity": "float('-Infinity')",
    "smallest": "double('4.9E-324')",
    "negative_zero": "double('-0.0')",
    "nan": "double('NaN')",
    "infinity": "double('Infinity')",
    "large_decimal": "CAST(12345678901234567890.123456789012345678BD AS DECIMAL(38, 18))",
    "small_decimal": "CAST(0.0000001BD AS DECIMAL(10, 7))",
    "bytes": "X'00FF80'",
    "zoned": "TIMESTAMP'2026-01-01 12:00:00.123456+05:30'",
    "old_zoned": "TIMESTAMP'0001-01-01 00:00:00.000001Z'",
    "far_zoned": "TIMESTAMP'9999-12-31 23:59:59.999999Z'",
    "unzoned": "TIMESTAMP_NTZ'1500-02-28 23:59:59.123456'",
    "old_date": "DATE'1500-02-28'",
    "first_date": "DATE'0001-01-01'",
    "no_number": "CAST(NULL AS INT)",
    "no_struct": "CAST(NULL AS STRUCT<a: INT>)",
    "nested": "named_struct('a', array(named_struct('b', X'01', 'c', CAST(NULL AS STRING))), 't', current_timestamp())",
    "text_keys": "map('k', array(1, NULL))",
}
# Maps whose keys are not strings: the type that `from_json` takes, and the expression that restores the keys.
KEYS = {
    "int_keys": ("map(1, 'a', 2, NULL)", "MAP<STRING, STRING>", "transform_keys({}, (k, v) -> CAST(k AS INT))"),
    "decimal_keys": ("map(1.50BD, 1)", "MAP<STRING, INT>", "transform_keys({}, (k, v) -> CAST(k AS DECIMAL(3, 2)))"),
    "date_keys": (
        "map(DATE'1500-02-28', 1)",
        "MAP<STRING, INT>",
        "transform_keys({}, (k, v) -> date_from_unix_date(CAST(k AS INT)))",
    ),
    "timestamp_keys": (
        "map(TIMESTAMP'2026-01-01 00:00:00.123456Z', 1)",
        "MAP<STRING, INT>",
        "transform_keys({}, (k, v) -> timestamp_micros(CAST(k AS BIGINT)))",
    ),
}


def with_record(row, names):
    """One row with its columns and its record in a quarantine."""
    marked = row.withColumn("mark", F.lit("0"))
    return row.crossJoin(rejected_rows_as_records(marked, names, "mark", {"a": "it is bad"}).select("record"))


def test_from_json_returns_the_values_of_each_type(spark):
    rows = spark.sql("SELECT " + ", ".join(f"{value} AS {name}" for name, value in VALUES.items()))
    records = with_record(rows, list(VALUES))
    restored = records.withColumn("row", F.from_json("record", rows.schema, {"mode": "FAILFAST"}))
    conditions = {
        name: f"map_entries({name}) <=> map_entries(row.{name})" if name.endswith("_keys") else f"{name} <=> row.{name}"
        for name in VALUES
    }
    result = restored.selectExpr(*(f"{condition} AS {name}" for name, condition in conditions.items())).first().asDict()
    assert [name for name, is_equal in result.items() if not is_equal] == []


def test_map_keys_of_other_types_are_restored_from_their_texts(spark):
    rows = spark.sql("SELECT " + ", ".join(f"{value} AS {name}" for name, (value, _, _) in KEYS.items()))
    records = with_record(rows, list(KEYS))
    schema = ", ".join(f"{name} {data_type}" for name, (_, data_type, _) in KEYS.items())
    restored = records.withColumn("row", F.from_json("record", schema, {"mode": "FAILFAST"}))
    conditions = [
        f"map_entries({name}) <=> map_entries({expression.format(f'row.{name}')}) AS {name}"
        for name, (_, _, expression) in KEYS.items()
    ]
    result = restored.selectExpr(*conditions).first().asDict()
    assert [name for name, is_equal in result.items() if not is_equal] == []


def test_a_variant_keeps_numbers_and_texts_but_no_dates(spark):
    variant = 'parse_json(\'{"a":[1,2.5,"x",null],"b":true}\')'
    rows = spark.sql(f"SELECT {variant} AS plain, CAST(DATE'2026-01-01' AS VARIANT) AS day")
    records = with_record(rows, ["plain", "day"])
    restored = records.withColumn("row", F.from_json("record", "plain VARIANT, day VARIANT", {"mode": "FAILFAST"}))
    values = restored.selectExpr(
        "to_json(plain) = to_json(row.plain) AND schema_of_variant(plain) = schema_of_variant(row.plain) AS plain",
        "schema_of_variant(row.day) AS day",
    ).first()
    assert (values["plain"], values["day"]) == (True, "STRING")
