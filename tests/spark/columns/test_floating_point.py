"""Reads with a condition, DELETE, UPDATE, MERGE and replace_where find every row of floating point.

Spark's own scan of Parquet does not:
Spark asks a dictionary that has -0.0 for 0.0 and passes over its rows, and it passes over NaN above bounds that
leave it out, as those of pyarrow do.
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
from tests.support.loops import one_in
from tests.support.tables import HERE, hand_made, numbered, schema_json, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.generated_code]

ROWS = 5_000
SCHEMA = schema_json(
    ("id", "long"), ("x", "double"), ("s", {"type": "struct", "fields": [
        {"name": "f", "type": "float", "nullable": True, "metadata": {}}]}),
)  # fmt: skip


def made(table, value, **options):
    """A file of another writer, whose rows all have the value at each depth but for one that has 1."""
    floats = [value] * (ROWS - 1) + [1.0]
    table.mkdir()
    data = pa.table({
        "id": pa.array(range(ROWS), pa.int64()),
        "x": pa.array(floats, pa.float64()),
        "s": pa.StructArray.from_arrays([pa.array(floats, pa.float32())], ["f"]),
    })  # fmt: skip
    pq.write_table(data, table / "f.parquet", use_dictionary=True)
    hand_made(table, SCHEMA, [{"path": "f.parquet", "size": (table / "f.parquet").stat().st_size}], **options)
    return str(table)


@pytest.mark.sample("native")
def test_a_condition_finds_negative_zero_and_nan(spark, tmp_path, way):
    for name, value, condition in (("zero", -0.0, "{} = 0.0"), ("nan", math.nan, "{} > 5")):
        for column in ("x", "s.f"):
            where = condition.format(column)
            table = made(tmp_path / f"{name} {column}", value)
            done = update(spark, UpdateRequest(table=table, set={"id": "-1"}, condition=where))
            assert done.metrics["numUpdatedRows"] == ROWS - 1, where
            done = delete(spark, DeleteRequest(table=table, condition=where))
            assert done.metrics["numDeletedRows"] == ROWS - 1, where
            assert DeltaTable(table).to_arrow()["id"].to_pylist() == [ROWS - 1]


@pytest.mark.sample("public")
@pytest.mark.parametrize(
    ("value", "condition"),
    one_in(
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
def test_a_read_with_a_condition_finds_negative_zero_and_nan(spark, tmp_path, way, value, condition):
    feed = {"delta.enableChangeDataFeed": "true"}
    table = made(tmp_path / "t", value, features=("changeDataFeed",), configuration=feed)
    for column in ("x", "s.f"):
        assert delta.read(spark, table, where=condition.format(column)).count() == ROWS - 1, column
    changes = {"readChangeFeed": True, "startingVersion": 0}
    assert delta.read(spark, table, where=condition.format("x"), options=changes).count() == ROWS - 1


def test_merge_and_replace_where_find_negative_zero(spark, tmp_path):
    table = made(tmp_path / "merge", -0.0)
    request = MergeRequest(
        table=table,
        sources={"source": HERE},
        query="SELECT 1 AS one",
        on="target.x = 0.0",
        when_matched=(MergeClause(delete=True, condition="target.s.f = 0.0"),),
    )
    assert merge(spark, request).metrics["numTargetRowsDeleted"] == ROWS - 1
    table = made(tmp_path / "replaced", -0.0)
    write_rows(spark, table, "SELECT -5L AS id, 0D AS x", mode="overwrite", replace_where="x = 0.0", merge_schema=False)
    assert sorted(DeltaTable(table).to_arrow()["id"].to_pylist()) == [-5, ROWS - 1]


def partitioned(table):
    """Three files of a row each; the first two are of partitions that are one value and two texts."""
    table.mkdir()
    schema = schema_json(("id", "long"), ("p", "double"))
    hand_made(table, schema, [{**numbered(table, f"{n}.parquet", n, 1), "partitionValues": {"p": text}}
                              for n, text in enumerate(["0.0", "-0.0", "1.0"])], ("p",))  # fmt: skip
    return str(table)


@pytest.mark.parametrize(
    ("condition", "left"), [("p = 0.0", [2]), ("p <=> -0.0", [2]), ("CAST(p AS STRING) = '-0.0'", [0, 2])]
)
def test_a_condition_on_partitions_tells_the_two_zeros_apart_only_where_sql_does(spark, tmp_path, condition, left):
    table = partitioned(tmp_path / "t")
    delete(spark, DeleteRequest(table=table, condition=condition))
    assert sorted(DeltaTable(table).to_arrow()["id"].to_pylist()) == left
