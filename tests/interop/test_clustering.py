"""delta-spark and this library optimize one clustered table; each keeps the cubes that the other wrote."""

from __future__ import annotations

import json

import pytest

from deltalite import DeltaTable
from deltalite.commands.table import define_table
from deltalite.errors import InvalidRequestError
from deltalite.requests import TableRequest
from tests.support.tables import actions_of, optimize_table, rows, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.usefixtures("quick_plans")]


def newest_version(table):
    return DeltaTable(str(table)).version


def clustering_of(delta_spark, table):
    (detail,) = delta_spark.sql(f"DESCRIBE DETAIL delta.`{table}`")
    return detail[8]  # this is the column clusteringColumns


@pytest.mark.campaign
def test_each_engine_keeps_the_cubes_of_the_other(spark, delta_spark, tmp_path):
    table = tmp_path / "t"
    sql_name = f"delta.`{table}`"
    define_table(
        spark,
        TableRequest(
            table=str(table), schema="id BIGINT, s STRUCT<`a b`: INT>", cluster_by=["id", "s.`a b`"],
            properties={"delta.columnMapping.mode": "name"},
        ),
    )  # fmt: skip
    write_rows(spark, table, "SELECT id, named_struct('a b', CAST(id AS INT)) AS s FROM range(100)")
    assert optimize_table(spark, table).metrics["numAddedFiles"] == 1
    version = newest_version(table)
    delta_spark.sql(f"OPTIMIZE {sql_name}")
    assert newest_version(table) == version, "delta-spark must not rewrite the cube of this library"
    delta_spark.sql(f"INSERT INTO {sql_name} SELECT id, named_struct('a b', CAST(id AS INT)) FROM range(100, 200)")
    delta_spark.sql(f"OPTIMIZE {sql_name}")
    version = newest_version(table)
    adds = actions_of(table, version)["add"]
    assert {add["clusteringProvider"] for add in adds} == {"liquid"}
    assert {add["tags"]["ZCUBE_ZORDER_BY"] for add in adds} == {json.dumps(["id", "s.`a b`"], separators=(",", ":"))}
    assert not optimize_table(spark, table).committed
    write_rows(spark, table, "SELECT id, named_struct('a b', CAST(id AS INT)) AS s FROM range(200, 210, 1, 1)")
    assert optimize_table(spark, table).metrics["numRemovedFiles"] == 1, (
        "this library must not rewrite the larger cube of delta-spark"
    )
    assert sorted(row[0] for row in delta_spark.rows(table, "id")) == list(range(210))
    assert sorted(row[0] for row in rows(table)) == list(range(210))


@pytest.mark.campaign
def test_each_engine_changes_the_clustering_columns_of_the_other(spark, delta_spark, tmp_path):
    table = tmp_path / "t"
    sql_name = f"delta.`{table}`"
    delta_spark.sql(f"CREATE TABLE {sql_name} (a INT, b INT, c INT) USING delta CLUSTER BY (a, b)")
    delta_spark.sql(f"INSERT INTO {sql_name} VALUES (1, 2, 3), (4, 5, 6)")
    assert optimize_table(spark, table).metrics["numAddedFiles"] == 1
    define_table(spark, TableRequest(table=str(table), cluster_by=["c"]))
    assert clustering_of(delta_spark, table) == ["c"]
    delta_spark.sql(f"ALTER TABLE {sql_name} CLUSTER BY (b)")
    assert optimize_table(spark, table, full=True).metrics["numAddedFiles"] == 1
    operation = actions_of(table, newest_version(table))["commitInfo"]["operationParameters"]
    assert (operation["clusterBy"], operation["isFull"]) == ('["b"]', True)
    define_table(spark, TableRequest(table=str(table), cluster_by=[]))
    assert clustering_of(delta_spark, table) == []
    delta_spark.sql(f"ALTER TABLE {sql_name} CLUSTER BY (a)")
    assert not define_table(spark, TableRequest(table=str(table), cluster_by=["a"])).committed
    assert rows(table) == [(1, 2, 3), (4, 5, 6)]


@pytest.mark.campaign
def test_the_cubes_of_this_library_survive_a_full_optimize_of_delta_spark(spark, delta_spark, tmp_path):
    table = tmp_path / "t"
    sql_name = f"delta.`{table}`"
    query = "SELECT id AS a, id % 7 AS b FROM range({}, {}, 1, 2)"
    define_table(spark, TableRequest(table=str(table), schema="a BIGINT, b BIGINT", cluster_by=["a"]))
    write_rows(spark, table, query.format(0, 50))
    assert optimize_table(spark, table).committed
    version = newest_version(table)
    delta_spark.sql(f"OPTIMIZE {sql_name} FULL")
    assert newest_version(table) == version, "the files are clustered by the same columns already"
    delta_spark.sql(f"ALTER TABLE {sql_name} CLUSTER BY (b)")
    delta_spark.sql(f"OPTIMIZE {sql_name} FULL")
    (add,) = actions_of(table, newest_version(table))["add"]
    assert (add["clusteringProvider"], add["tags"]["ZCUBE_ZORDER_BY"]) == ("liquid", '["b"]')
    assert not optimize_table(spark, table, full=True).committed
    assert sorted(rows(table)) == [(n, n % 7) for n in range(50)]


def test_this_library_packs_a_table_whose_clustering_delta_spark_removed(spark, delta_spark, tmp_path):
    table = tmp_path / "t"
    sql_name = f"delta.`{table}`"
    delta_spark.sql(f"CREATE TABLE {sql_name} (a INT, b INT) USING delta CLUSTER BY (a)")
    delta_spark.sql(f"INSERT INTO {sql_name} VALUES (1, 2), (3, 4)")
    delta_spark.sql(f"ALTER TABLE {sql_name} CLUSTER BY NONE")
    assert not define_table(spark, TableRequest(table=str(table), cluster_by=[])).committed
    with pytest.raises(InvalidRequestError, match="no clustering columns"):
        optimize_table(spark, table, full=True)
    write_rows(spark, table, "SELECT 5 AS a, 6 AS b")
    assert optimize_table(spark, table).metrics["numAddedFiles"] == 1
    (add,) = actions_of(table, newest_version(table))["add"]
    assert "clusteringProvider" not in add
    assert delta_spark.rows(table, "a, b") == [[1, 2], [3, 4], [5, 6]]
