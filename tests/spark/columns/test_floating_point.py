"""Reads with a condition, DELETE, UPDATE, MERGE and replace_where find all rows with -0.0 and NaN.

Spark's scan of Parquet files misses such rows, for two reasons:

- Spark searches the dictionary of a row group for 0.0. It skips the row group if the dictionary contains only -0.0.
- Spark skips a row group whose upper bound is too small for a condition such as `x > 5`. NaN satisfies this condition,
  but some writers, such as pyarrow, do not include NaN in the bounds.
"""

from __future__ import annotations

import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltalite.spark as delta
from deltalite import DeltaTable
from deltalite.commands.delete import delete
from deltalite.commands.merge import merge
from deltalite.commands.update import update
from deltalite.requests import DeleteRequest, MergeClause, MergeRequest, UpdateRequest
from tests.support.selection import sample_every
from tests.support.tables import UNUSED_SOURCE, schema_json, write_foreign_table, write_numbered_file, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.generated_code, pytest.mark.usefixtures("quick_plans")]

ROWS = 5_000
SCHEMA = schema_json(
    ("id", "long"), ("x", "double"), ("s", {"type": "struct", "fields": [
        {"name": "f", "type": "float", "nullable": True, "metadata": {}}]}),
)  # fmt: skip


def write_table_with_value(table, value, **options):
    """Write a table with one file, as another writer does. All rows but the last have the value in `x` and in `s.f`."""
    floats = [value] * (ROWS - 1) + [1.0]
    table.mkdir()
    data = pa.table({
        "id": pa.array(range(ROWS), pa.int64()),
        "x": pa.array(floats, pa.float64()),
        "s": pa.StructArray.from_arrays([pa.array(floats, pa.float32())], ["f"]),
    })  # fmt: skip
    pq.write_table(data, table / "f.parquet", use_dictionary=True)
    write_foreign_table(table, SCHEMA, [{"path": "f.parquet", "size": (table / "f.parquet").stat().st_size}], **options)
    return str(table)


@pytest.mark.campaign
def test_an_update_and_a_delete_find_negative_zero_and_nan(spark, tmp_path, relation_kind):
    for name, value, condition in (("zero", -0.0, "{} = 0.0"), ("nan", math.nan, "{} > 5")):
        for column in ("x", "s.f"):
            where = condition.format(column)
            table = write_table_with_value(tmp_path / f"{name} {column}", value)
            result = update(spark, UpdateRequest(table=table, set={"id": "-1"}, condition=where))
            assert result.metrics["numUpdatedRows"] == ROWS - 1, where
            result = delete(spark, DeleteRequest(table=table, condition=where))
            assert result.metrics["numDeletedRows"] == ROWS - 1, where
            assert DeltaTable(table).to_arrow()["id"].to_pylist() == [ROWS - 1]


@pytest.mark.sample("public")
@pytest.mark.parametrize(
    ("value", "condition"),
    sample_every(
        2,
        [
            (-0.0, "{} <=> CAST(0 AS FLOAT)"),
            (-0.0, "{} = 0.0"),
            (-0.0, "{} IN (0.0, 7.0)"),
            (-0.0, "{} BETWEEN 0.0 AND 0.5"),
            (math.nan, "{} > 5"),
        ],
    ),
)
def test_a_read_with_a_condition_finds_negative_zero_and_nan(spark, tmp_path, relation_kind, value, condition):
    feed = {"delta.enableChangeDataFeed": "true"}
    table = write_table_with_value(tmp_path / "t", value, features=("changeDataFeed",), configuration=feed)
    for column in ("x", "s.f"):
        assert delta.read(spark, table, where=condition.format(column)).count() == ROWS - 1, column
    feed_options = {"readChangeFeed": True, "startingVersion": 0}
    assert delta.read(spark, table, where=condition.format("x"), options=feed_options).count() == ROWS - 1


def test_merge_and_replace_where_find_negative_zero(spark, tmp_path):
    table = write_table_with_value(tmp_path / "merge", -0.0)
    request = MergeRequest(
        table=table,
        sources={"source": UNUSED_SOURCE},
        query="SELECT 1 AS one",
        on="target.x = 0.0",
        when_matched=(MergeClause(delete=True, condition="target.s.f = 0.0"),),
    )
    assert merge(spark, request).metrics["numTargetRowsDeleted"] == ROWS - 1
    table = write_table_with_value(tmp_path / "replaced", -0.0)
    write_rows(spark, table, "SELECT -5L AS id, 0D AS x", mode="overwrite", replace_where="x = 0.0", merge_schema=False)
    assert sorted(DeltaTable(table).to_arrow()["id"].to_pylist()) == [-5, ROWS - 1]


def write_partitioned_table(table):
    """Write a table of three files with one row each. Their partition values are 0.0, -0.0 and 1.0."""
    table.mkdir()
    adds = [
        {**write_numbered_file(table, f"{n}.parquet", n, 1), "partitionValues": {"p": text}}
        for n, text in enumerate(["0.0", "-0.0", "1.0"])
    ]
    write_foreign_table(table, schema_json(("id", "long"), ("p", "double")), adds, ("p",))
    return str(table)


@pytest.mark.parametrize(
    ("condition", "remaining_ids"), [("p = 0.0", [2]), ("p <=> -0.0", [2]), ("CAST(p AS STRING) = '-0.0'", [0, 2])]
)
def test_a_condition_on_a_partition_column_compares_the_two_zeros_as_sql_does(
    spark, tmp_path, condition, remaining_ids
):
    table = write_partitioned_table(tmp_path / "t")
    delete(spark, DeleteRequest(table=table, condition=condition))
    assert sorted(DeltaTable(table).to_arrow()["id"].to_pylist()) == remaining_ids
