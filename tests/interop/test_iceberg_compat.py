"""delta-spark and this library write to one table with Iceberg compatibility, or with partition columns in files."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from deltalite import DeltaTable
from tests.support.delta_spark import DeltaSparkError
from tests.support.merging import merge_into
from tests.support.tables import actions_of, delete_rows, optimize_table, rows, update_rows, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.usefixtures("quick_plans")]

V1, V2 = {"delta.enableIcebergCompatV1": "true"}, {"delta.enableIcebergCompatV2": "true"}
PARTITION_COLUMNS = {"delta.enableMaterializePartitionColumnsFeature": "true"}
ROWS = "SELECT id, CAST(id % 2 AS STRING) AS part, struct(id AS a) AS s FROM range({}, {})"
REPLACE = """
    REPLACE TABLE {} (id BIGINT, other STRING) USING delta PARTITIONED BY (other)
    TBLPROPERTIES ('delta.enableIcebergCompatV1' = 'true')
"""
SOURCE = "SELECT 1L AS id, '1' AS part, struct(-1L AS a) AS s"


@pytest.fixture
def table(tmp_path):
    return tmp_path / "t"


def expected_rows(ids, changed_values):
    """Return a row for each id. `changed_values` has the values of `s.a` that differ from the id."""
    return [[id_, str(id_ % 2), {"a": changed_values.get(id_, id_)}] for id_ in ids]


def assert_rows(delta_spark, table, expected):
    """Assert that both engines read these rows."""
    rows_by_this_library = [list(row) for row in rows(table)]
    rows_by_delta_spark = [[id_, part, {"a": a}] for id_, part, a in delta_spark.rows(table, "id, part, s.a")]
    assert sorted(rows_by_this_library) == sorted(rows_by_delta_spark) == expected


def columns_of_files(table):
    """Return the different sets of columns in the live files. A column is its name and its Parquet field id."""
    schemas = [pq.read_schema(table / path) for path in DeltaTable(str(table)).files()["path"].to_pylist()]
    return {
        tuple((column.name, (column.metadata or {}).get(b"PARQUET:field_id")) for column in schema)
        for schema in schemas
    }


@pytest.mark.campaign
@pytest.mark.parametrize("properties", [V1, V2, PARTITION_COLUMNS], ids=["V1", "V2", "partition columns"])
@pytest.mark.parametrize("creator", ["this library", "delta-spark"])
def test_both_engines_change_one_table(spark, delta_spark, table, properties, creator):
    sql_name = f"delta.`{table}`"
    if creator == "delta-spark":
        property_list = ", ".join(f"'{key}' = '{text}'" for key, text in properties.items())
        delta_spark.sql(f"CREATE TABLE {sql_name} (id BIGINT, part STRING, s STRUCT<a: BIGINT>) USING delta "
                        f"PARTITIONED BY (part) TBLPROPERTIES ({property_list})")  # fmt: skip
        write_rows(spark, table, ROWS.format(0, 4))
    else:
        write_rows(spark, table, ROWS.format(0, 4), partition_by=("part",), properties=properties)
    delta_spark.sql(f"INSERT INTO {sql_name} {ROWS.format(4, 8)}")
    assert len(columns_of_files(table)) == 1
    update_rows(spark, table, {"s.a": "s.a + 10"}, "id = 5")
    delta_spark.sql(f"UPDATE {sql_name} SET s.a = s.a + 20 WHERE id = 2")
    delete_rows(spark, table, "id = 4")
    delta_spark.sql(f"DELETE FROM {sql_name} WHERE id = 7")
    merge_into(spark, table, SOURCE, "target.id = source.id", matched=[{"update": "*"}])
    assert_rows(delta_spark, table, expected_rows([0, 1, 2, 3, 5, 6], {5: 15, 2: 22, 1: -1}))
    optimize_table(spark, table)
    delta_spark.sql(f"INSERT INTO {sql_name} {ROWS.format(8, 10)}")
    delta_spark.sql(f"OPTIMIZE {sql_name}")
    assert_rows(delta_spark, table, expected_rows([0, 1, 2, 3, 5, 6, 8, 9], {5: 15, 2: 22, 1: -1}))
    (columns,) = columns_of_files(table)
    assert len(columns) == 3 and (properties is PARTITION_COLUMNS or all(field_id for _, field_id in columns))


def test_both_engines_tag_their_files_with_the_same_version_of_iceberg_compatibility(spark, delta_spark, table):
    write_rows(spark, table, ROWS.format(0, 4), partition_by=("part",), properties=V2)
    delta_spark.sql(f"INSERT INTO delta.`{table}` {ROWS.format(4, 8)}")
    tags = [add["tags"]["ICEBERG_COMPAT_VERSION"] for version in (0, 1) for add in actions_of(table, version)["add"]]
    assert set(tags) == {"2"}


def test_delta_spark_rejects_changes_that_contradict_iceberg_compatibility(spark, delta_spark, table):
    write_rows(spark, table, ROWS.format(0, 4), partition_by=("part",), properties=V1)
    for statement in (
        "ALTER TABLE {} ADD COLUMN (x ARRAY<INT>)",
        "ALTER TABLE {} SET TBLPROPERTIES ('delta.enableIcebergCompatV2' = 'true')",
        "ALTER TABLE {} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        REPLACE,
    ):
        with pytest.raises(DeltaSparkError, match=r"(?i)icebergcompat"):
            delta_spark.sql(statement.format(f"delta.`{table}`"))
    assert DeltaTable(str(table)).version == 0
