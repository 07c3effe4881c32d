"""Both engines read and change a table from which one of them has dropped the feature type widening."""

from __future__ import annotations

import pytest

from deltalite import DeltaTable
from deltalite.commands.table.command import define_table
from deltalite.requests import TableRequest
from tests.support.tables import delete_rows, rows, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.usefixtures("quick_plans")]

ROWS = [[1, "a"], [2, "b"], [3_000_000_000, "a"]]


def drop_type_widening(spark, table):
    """Drop the feature by this library, which rewrites files with older types."""
    define_table(spark, TableRequest(table=str(table), drop_features=("typeWidening",)))


def assert_rows(delta_spark, table, expected):
    """Assert that both engines read these rows."""
    assert sorted(delta_spark.rows(table)) == sorted(map(list, rows(table))) == expected


@pytest.fixture
def widened_table(spark, tmp_path):
    """A partitioned table whose files have INT and BIGINT."""
    table = tmp_path / "t"
    properties = {"delta.enableTypeWidening": "true", "delta.enableDeletionVectors": "true"}
    write_rows(spark, table, "SELECT 1 AS id, 'a' AS part", partition_by=("part",), properties=properties)
    write_rows(spark, table, "SELECT 2 AS id, 'b' AS part")
    write_rows(spark, table, "SELECT 3000000000L AS id, 'a' AS part", merge_schema=True)
    return table


@pytest.mark.campaign
def test_delta_spark_changes_a_table_from_which_this_library_dropped_the_feature(spark, delta_spark, widened_table):
    sql_name = f"delta.`{widened_table}`"
    drop_type_widening(spark, widened_table)
    assert_rows(delta_spark, widened_table, ROWS)
    delta_spark.sql(f"INSERT INTO {sql_name} VALUES (4, 'b')")
    delta_spark.sql(f"UPDATE {sql_name} SET id = 20 WHERE id = 2")
    delete_rows(spark, widened_table, "id = 1")
    assert_rows(delta_spark, widened_table, [[4, "b"], [20, "b"], [3_000_000_000, "a"]])
    delta_spark.sql(f"ALTER TABLE {sql_name} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    delta_spark.sql(f"ALTER TABLE {sql_name} ALTER COLUMN id TYPE DECIMAL(20, 0)")
    drop_type_widening(spark, widened_table)
    assert sorted(str(row[0]) for row in rows(widened_table)) == ["20", "3000000000", "4"]
    assert sorted(str(row[0]) for row in delta_spark.rows(widened_table)) == ["20", "3000000000", "4"]


@pytest.mark.campaign
def test_delta_spark_rewrites_no_file_if_this_library_has_dropped_the_feature_before(spark, delta_spark, widened_table):
    """If a drop by this library is killed, delta-spark can complete it: all files have the newest types already."""
    drop_type_widening(spark, widened_table)
    files = set(DeltaTable(str(widened_table)).files()["path"].to_pylist())
    sql_name = f"delta.`{widened_table}`"
    delta_spark.sql(f"ALTER TABLE {sql_name} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    delta_spark.sql(f"ALTER TABLE {sql_name} DROP FEATURE typeWidening")
    assert set(DeltaTable(str(widened_table)).files()["path"].to_pylist()) == files
    assert_rows(delta_spark, widened_table, ROWS)


@pytest.mark.campaign
def test_a_drop_by_each_engine_leaves_the_same_protocol_and_metadata(spark, delta_spark, widened_table, tmp_path):
    delta_spark_table = tmp_path / "by-delta-spark"
    properties = "'delta.enableTypeWidening' = 'true', 'delta.enableDeletionVectors' = 'true'"
    columns = "(id INT, part STRING) USING delta PARTITIONED BY (part)"
    delta_spark.sql(f"CREATE TABLE delta.`{delta_spark_table}` {columns} TBLPROPERTIES ({properties})")
    delta_spark.sql(f"INSERT INTO delta.`{delta_spark_table}` VALUES (1, 'a')")
    delta_spark.sql(f"ALTER TABLE delta.`{delta_spark_table}` ALTER COLUMN id TYPE BIGINT")
    delta_spark.sql(f"ALTER TABLE delta.`{delta_spark_table}` DROP FEATURE typeWidening")
    drop_type_widening(spark, widened_table)
    by_this_library, by_delta_spark = DeltaTable(str(widened_table)), DeltaTable(str(delta_spark_table))
    for name in ("min_reader_version", "min_writer_version", "reader_features"):
        assert getattr(by_this_library.protocol, name) == getattr(by_delta_spark.protocol, name), name
    assert set(by_this_library.protocol.writer_features) == set(by_delta_spark.protocol.writer_features)
    assert by_this_library.metadata.configuration.keys() == by_delta_spark.metadata.configuration.keys()
    assert by_this_library.metadata.schema_string == by_delta_spark.metadata.schema_string
