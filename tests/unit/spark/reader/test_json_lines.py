"""Names that occur twice, or with two spellings, become one column. The values of a map get one type."""

from __future__ import annotations

from pyspark.sql import types as spark_types

from deltalite.protocol.schema import ArrayType, MapType, PrimitiveType, StructField, StructType
from deltalite.spark.reader.json_lines import with_distinct_names
from tests.unit.builders import struct


def spark_type(description):
    """Return Spark's type for a description, because `StructType.fromDDL` needs a session.

    A list of names and descriptions is a struct. A tuple of one description is an array.
    """
    if isinstance(description, list):
        return spark_types.StructType([spark_types.StructField(name, spark_type(kind)) for name, kind in description])
    return spark_types.ArrayType(spark_type(description[0])) if isinstance(description, tuple) else description


LONG, TEXT = spark_types.LongType(), spark_types.StringType()
TABLE = StructType(
    (
        StructField("id", PrimitiveType("integer")),
        StructField("items", ArrayType(struct(p="double"))),
        StructField("m", MapType(PrimitiveType("string"), struct(a="integer"))),
    )
)


def test_each_name_is_one_column_at_every_depth():
    inferred = spark_type(
        [
            ("ID", LONG), ("id", TEXT), ("items", ([("P", LONG), ("p", LONG), ("q", LONG), ("q", TEXT)],)),
            ("new", [("x", LONG), ("X", LONG)]), ("new", TEXT),
        ]
    )  # fmt: skip
    expected = spark_type([("id", LONG), ("items", ([("p", LONG), ("q", LONG)],)), ("new", [("x", LONG)])])
    assert with_distinct_names(inferred, TABLE) == expected


def test_the_keys_of_a_map_may_differ_in_case_and_their_values_have_all_members():
    inferred = spark_type([("m", [("k", [("a", LONG)]), ("K", [("A", LONG), ("b", TEXT)]), ("x", TEXT)])])
    assert with_distinct_names(inferred, TABLE) == spark_type([("m", [("k", [("a", LONG), ("b", TEXT)])])])
    assert with_distinct_names(spark_type([("m", [])]), TABLE) == spark_type([("m", [])])
