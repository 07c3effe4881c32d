"""This library and delta-spark write to one table, and each engine widens columns of the other engine's files."""

from __future__ import annotations

import json

import pytest

from deltalite import DeltaTable
from deltalite.protocol.type_changes import TYPE_CHANGES
from tests.support.merging import merge_into
from tests.support.tables import delete_rows, optimize_table, rows, update_rows, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.usefixtures("quick_plans")]

PROPERTIES = {"delta.enableTypeWidening": "true", "delta.enableDeletionVectors": "true"}


def column_types(table):
    """Return the type of each column."""
    fields = json.loads(DeltaTable(str(table)).metadata.schema_string)["fields"]
    return {field["name"]: field["type"] for field in fields}


def type_changes(table):
    """Return the changes (old type, new type) of each column, as the schema records them."""
    fields = json.loads(DeltaTable(str(table)).metadata.schema_string)["fields"]
    return {
        field["name"]: [(change["fromType"], change["toType"]) for change in field["metadata"].get(TYPE_CHANGES, [])]
        for field in fields
    }


@pytest.mark.campaign
def test_each_engine_widens_columns_of_the_other(spark, delta_spark, tmp_path):
    table = tmp_path / "t"
    sql_name = f"delta.`{table}`"

    first = "SELECT CAST(1 AS TINYINT) AS n, CAST(1.5 AS FLOAT) AS x, CAST(1.25 AS DECIMAL(4,2)) AS d, 1 AS k"
    write_rows(spark, table, f"{first} UNION ALL {first.replace('1 AS k', '2 AS k')}", properties=PROPERTIES)
    write_rows(spark, table, "SELECT 300S AS n, 2.5D AS x, 1.25BD AS d, 3 AS k", merge_schema=True)
    delta_spark.sql(f"ALTER TABLE {sql_name} CHANGE COLUMN n TYPE INT")
    delta_spark.sql(f"ALTER TABLE {sql_name} CHANGE COLUMN k TYPE DOUBLE")
    delta_spark.sql(f"UPDATE {sql_name} SET n = 70000 WHERE k = 1")
    assert column_types(table)["n"] == "integer"
    update_rows(spark, table, {"d": "d + 1"}, "k = 2")
    source = "SELECT 3000000000L AS n, 0.1D AS x, CAST(12345.678 AS DECIMAL(12,3)) AS d, 3D AS k"
    merge_into(spark, table, source, "target.k = source.k", matched=[{"update": "*"}], merge_schema=True)
    assert type_changes(table) == {
        "n": [("byte", "short"), ("short", "integer"), ("integer", "long")],
        "x": [("float", "double")],
        "d": [("decimal(4,2)", "decimal(12,3)")],
        "k": [("integer", "double")],
    }
    delta_spark.sql(f"INSERT INTO {sql_name} VALUES (4, 4.5, 4.125, 4)")
    delta_spark.sql(f"OPTIMIZE {sql_name}")
    delete_rows(spark, table, "k = 4")
    optimize_table(spark, table)
    rows_by_this_library = [
        (row["n"], row["x"], str(row["d"]), row["k"]) for row in DeltaTable(str(table)).to_arrow().to_pylist()
    ]
    assert sorted(rows_by_this_library) == [
        (1, 1.5, "2.250", 2.0), (70000, 1.5, "1.250", 1.0), (3000000000, 0.1, "12345.678", 3.0),
    ]  # fmt: skip
    rows_by_delta_spark = delta_spark.rows(table, "n, x, CAST(d AS STRING) AS d, k")
    assert sorted(tuple(row) for row in rows_by_delta_spark) == sorted(rows_by_this_library)


@pytest.mark.campaign
def test_delta_spark_drops_the_feature_of_a_table_that_this_library_widened(spark, delta_spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, "SELECT 1 AS n", properties=PROPERTIES)
    write_rows(spark, table, "SELECT 3000000000L AS n", merge_schema=True)
    delta_spark.sql(f"ALTER TABLE delta.`{table}` DROP FEATURE typeWidening")
    assert type_changes(table) == {"n": []}
    assert rows(table) == [(1,), (3000000000,)]
