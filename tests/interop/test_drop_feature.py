"""Tables from which one engine drops type widening, read and written by both engines."""

from __future__ import annotations

import pytest

from deltalite import DeltaTable
from deltalite.commands.table.command import define_table
from deltalite.requests import TableRequest
from tests.support.tables import delete_rows, rows, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.interop]

ROWS = [[1, "a"], [2, "b"], [3_000_000_000, "a"]]


def drop(spark, table):
    define_table(spark, TableRequest(table=str(table), drop_features=("typeWidening",)))


def assert_rows(delta_spark, table, expected):
    assert sorted(delta_spark.rows(table)) == sorted(map(list, rows(table))) == expected


@pytest.fixture
def widened(spark, tmp_path):
    """A partitioned table whose files have INT and BIGINT."""
    table = tmp_path / "t"
    properties = {"delta.enableTypeWidening": "true", "delta.enableDeletionVectors": "true"}
    write_rows(spark, table, "SELECT 1 AS id, 'a' AS part", partition_by=("part",), properties=properties)
    write_rows(spark, table, "SELECT 2 AS id, 'b' AS part")
    write_rows(spark, table, "SELECT 3000000000L AS id, 'a' AS part", merge_schema=True)
    return table


def test_delta_spark_goes_on_after_our_drop(spark, delta_spark, widened):
    name = f"delta.`{widened}`"
    drop(spark, widened)
    assert_rows(delta_spark, widened, ROWS)
    delta_spark.sql(f"INSERT INTO {name} VALUES (4, 'b')")
    delta_spark.sql(f"UPDATE {name} SET id = 20 WHERE id = 2")
    delete_rows(spark, widened, "id = 1")
    assert_rows(delta_spark, widened, [[4, "b"], [20, "b"], [3_000_000_000, "a"]])
    delta_spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    delta_spark.sql(f"ALTER TABLE {name} ALTER COLUMN id TYPE DECIMAL(20, 0)")
    drop(spark, widened)
    assert sorted(map(str, (r[0] for r in rows(widened)))) == ["20", "3000000000", "4"]
    assert sorted(str(r[0]) for r in delta_spark.rows(widened)) == ["20", "3000000000", "4"]


def test_delta_spark_finds_nothing_left_to_rewrite(spark, delta_spark, widened):
    """It continues a drop that a killed task began: the files have the newest types already."""
    drop(spark, widened)
    files = set(DeltaTable(str(widened)).files()["path"].to_pylist())
    name = f"delta.`{widened}`"
    delta_spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    delta_spark.sql(f"ALTER TABLE {name} DROP FEATURE typeWidening")
    assert set(DeltaTable(str(widened)).files()["path"].to_pylist()) == files
    assert_rows(delta_spark, widened, ROWS)


def test_both_drops_leave_the_same_protocol(spark, delta_spark, widened, tmp_path):
    copy = tmp_path / "copy"
    listed = "'delta.enableTypeWidening' = 'true', 'delta.enableDeletionVectors' = 'true'"
    columns = "(id INT, part STRING) USING delta PARTITIONED BY (part)"
    delta_spark.sql(f"CREATE TABLE delta.`{copy}` {columns} TBLPROPERTIES ({listed})")
    delta_spark.sql(f"INSERT INTO delta.`{copy}` VALUES (1, 'a')")
    delta_spark.sql(f"ALTER TABLE delta.`{copy}` ALTER COLUMN id TYPE BIGINT")
    delta_spark.sql(f"ALTER TABLE delta.`{copy}` DROP FEATURE typeWidening")
    drop(spark, widened)
    ours, theirs = DeltaTable(str(widened)), DeltaTable(str(copy))
    for name in ("min_reader_version", "min_writer_version", "reader_features"):
        assert getattr(ours.protocol, name) == getattr(theirs.protocol, name), name
    assert set(ours.protocol.writer_features) == set(theirs.protocol.writer_features)
    assert ours.metadata.configuration.keys() == theirs.metadata.configuration.keys()
    assert ours.metadata.schema_string == theirs.metadata.schema_string
