"""This library and delta-spark preserve the row ids that the other has assigned, and read the same ids."""

from __future__ import annotations

import json

import pytest

from deltalite import DeltaTable
from deltalite.commands.merge import merge
from deltalite.protocol.file_names import commit_name
from deltalite.requests import MergeClause, MergeRequest
from tests.support.tables import HERE, delete_rows, optimize_table, update_rows, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.interop]

PROPERTIES = {
    "delta.enableRowTracking": "true",
    "delta.enableDeletionVectors": "true",
    "delta.columnMapping.mode": "name",
}


def ids(table):
    """The row id and the row commit version of each row, by the table's `id`, as this library reads them."""
    result = DeltaTable(str(table)).to_arrow(columns=["id", "_row_id", "_row_commit_version"])
    return {row["id"]: (row["_row_id"], row["_row_commit_version"]) for row in result.to_pylist()}


def reference_ids(delta_spark, table):
    """The same as delta-spark reads it."""
    rows = delta_spark.rows(table, "id, _metadata.row_id, _metadata.row_commit_version")
    return {key: (row_id, version) for key, row_id, version in rows}


def kept(before, after):
    """Whether the rows that both versions have, have the same row ids in both."""
    return all(after[key][0] == row_id for key, (row_id, _) in before.items() if key in after)


def changed_by_us(spark, table, number):
    """Update, merge, delete and optimize; `number` tells the rows of two calls apart."""
    update_rows(spark, table, {"name": f"'ours {number}'"}, f"id % 5 = {number}")
    merge(
        spark,
        MergeRequest(
            table=str(table), sources={"s": HERE}, query=f"SELECT id * {number + 2} AS id, 'm' AS name FROM range(15)",
            on="target.id = source.id", when_matched=[MergeClause(update="*")],
            when_not_matched=[MergeClause(insert="*")],
        ),
    )  # fmt: skip
    delete_rows(spark, table, f"id = {number + 1}")
    optimize_table(spark, table)


@pytest.mark.sample("ours")
@pytest.mark.parametrize("creator", ["ours", "delta-spark"])
def test_both_engines_keep_the_ids_of_the_other(spark, delta_spark, tmp_path, pytestconfig, creator):
    table = tmp_path / "t"
    name = f"delta.`{table}`"
    if creator == "ours":
        write_rows(spark, table, "SELECT id, 'new' AS name FROM range(20)", properties=PROPERTIES)
    else:
        properties = ", ".join(f"'{key}' = '{value}'" for key, value in PROPERTIES.items())
        delta_spark.sql(f"CREATE TABLE {name} (id BIGINT, name STRING) USING delta TBLPROPERTIES ({properties})")
        delta_spark.sql(f"INSERT INTO {name} SELECT id, 'new' FROM range(20)")
    for number in range(2 if pytestconfig.getoption("--campaign") else 1):
        before = ids(table)
        assert reference_ids(delta_spark, table) == before
        changed_by_us(spark, table, number)
        after = ids(table)
        assert reference_ids(delta_spark, table) == after
        assert kept(before, after)
        delta_spark.sql(f"UPDATE {name} SET name = 'theirs' WHERE id % 3 = {number}")
        delta_spark.sql(f"DELETE FROM {name} WHERE id = {number + 4}")
        delta_spark.sql(f"INSERT INTO {name} VALUES ({100 + number}, 'theirs')")
        delta_spark.sql(f"OPTIMIZE {name}")
        later = ids(table)
        assert reference_ids(delta_spark, table) == later
        assert kept(after, later)
    assert len({row_id for row_id, _ in ids(table).values()}) == len(ids(table))


def test_a_backfill_of_delta_spark_gives_ids_that_this_library_continues(spark, delta_spark, tmp_path):
    table = tmp_path / "t"
    name = f"delta.`{table}`"
    write_rows(spark, table, "SELECT id, 'old' AS name FROM range(10)")
    delta_spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')")
    before = reference_ids(delta_spark, table)
    assert ids(table) == before
    update_rows(spark, table, {"name": "'new'"}, "id = 3")
    version = DeltaTable(str(table)).version
    assert ids(table) == reference_ids(delta_spark, table) == {**before, 3: (before[3][0], version)}
    info = json.loads((table / commit_name(version)).read_text().splitlines()[0])["commitInfo"]
    assert info["tags"] == {"delta.rowTracking.preserved": "true"}
