"""This library and delta-spark preserve the row ids that the other has assigned, and read the same ids."""

from __future__ import annotations

import json

import pytest

from deltalite import DeltaTable
from deltalite.commands.merge import merge
from deltalite.protocol.file_names import commit_name
from deltalite.requests import MergeClause, MergeRequest
from tests.support.tables import UNUSED_SOURCE, delete_rows, optimize_table, update_rows, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.usefixtures("quick_plans")]

PROPERTIES = {
    "delta.enableRowTracking": "true",
    "delta.enableDeletionVectors": "true",
    "delta.columnMapping.mode": "name",
}


def row_ids(table):
    """Return the row id and the row commit version of each row, by its `id`, as this library reads them."""
    result = DeltaTable(str(table)).to_arrow(columns=["id", "_row_id", "_row_commit_version"])
    return {row["id"]: (row["_row_id"], row["_row_commit_version"]) for row in result.to_pylist()}


def row_ids_by_delta_spark(delta_spark, table):
    """Return the row id and the row commit version of each row, by its `id`, as delta-spark reads them."""
    rows = delta_spark.rows(table, "id, _metadata.row_id, _metadata.row_commit_version")
    return {id_: (row_id, version) for id_, row_id, version in rows}


def has_same_row_ids(ids_before, ids_after):
    """Whether each row that still exists has the same row id as before."""
    return all(ids_after[id_][0] == row_id for id_, (row_id, _) in ids_before.items() if id_ in ids_after)


def change_rows(spark, table, number):
    """Run an update, a merge, a delete and an optimize of this library. `number` decides which rows change."""
    update_rows(spark, table, {"name": f"'updated {number}'"}, f"id % 5 = {number}")
    merge(
        spark,
        MergeRequest(
            table=str(table), sources={"s": UNUSED_SOURCE},
            query=f"SELECT id * {number + 2} AS id, 'm' AS name FROM range(15)",
            on="target.id = source.id", when_matched=[MergeClause(update="*")],
            when_not_matched=[MergeClause(insert="*")],
        ),
    )  # fmt: skip
    delete_rows(spark, table, f"id = {number + 1}")
    optimize_table(spark, table)


@pytest.mark.campaign
@pytest.mark.parametrize("creator", ["this library", "delta-spark"])
def test_both_engines_keep_the_ids_of_the_other(spark, delta_spark, tmp_path, creator):
    table = tmp_path / "t"
    sql_name = f"delta.`{table}`"
    if creator == "this library":
        write_rows(spark, table, "SELECT id, 'new' AS name FROM range(20)", properties=PROPERTIES)
    else:
        properties = ", ".join(f"'{key}' = '{value}'" for key, value in PROPERTIES.items())
        delta_spark.sql(f"CREATE TABLE {sql_name} (id BIGINT, name STRING) USING delta TBLPROPERTIES ({properties})")
        delta_spark.sql(f"INSERT INTO {sql_name} SELECT id, 'new' FROM range(20)")
    for number in range(2):
        ids_before = row_ids(table)
        assert row_ids_by_delta_spark(delta_spark, table) == ids_before
        change_rows(spark, table, number)
        ids_after_this_library = row_ids(table)
        assert row_ids_by_delta_spark(delta_spark, table) == ids_after_this_library
        assert has_same_row_ids(ids_before, ids_after_this_library)
        delta_spark.sql(f"UPDATE {sql_name} SET name = 'by delta-spark' WHERE id % 3 = {number}")
        delta_spark.sql(f"DELETE FROM {sql_name} WHERE id = {number + 4}")
        delta_spark.sql(f"INSERT INTO {sql_name} VALUES ({100 + number}, 'by delta-spark')")
        delta_spark.sql(f"OPTIMIZE {sql_name}")
        ids_after_delta_spark = row_ids(table)
        assert row_ids_by_delta_spark(delta_spark, table) == ids_after_delta_spark
        assert has_same_row_ids(ids_after_this_library, ids_after_delta_spark)
    assert len({row_id for row_id, _ in row_ids(table).values()}) == len(row_ids(table))


def test_this_library_keeps_the_row_ids_that_a_backfill_of_delta_spark_gave(spark, delta_spark, tmp_path):
    table = tmp_path / "t"
    sql_name = f"delta.`{table}`"
    write_rows(spark, table, "SELECT id, 'old' AS name FROM range(10)")
    delta_spark.sql(f"ALTER TABLE {sql_name} SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')")
    ids_before = row_ids_by_delta_spark(delta_spark, table)
    assert row_ids(table) == ids_before
    update_rows(spark, table, {"name": "'new'"}, "id = 3")
    version = DeltaTable(str(table)).version
    assert (
        row_ids(table)
        == row_ids_by_delta_spark(delta_spark, table)
        == {
            **ids_before,
            3: (ids_before[3][0], version),
        }
    )
    info = json.loads((table / commit_name(version)).read_text().splitlines()[0])["commitInfo"]
    assert info["tags"] == {"delta.rowTracking.preserved": "true"}
