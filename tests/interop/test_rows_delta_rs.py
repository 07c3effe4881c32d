"""Deletes, updates and merges of deltalite leave the same rows as those of delta-rs, and delta-rs reads these rows.

Each scenario starts from a table of delta-rs with repeated keys, nulls, a struct and a null partition. deltalite
changes copies with and without deletion vectors and change feed. delta-rs, which writes no deletion vectors, changes
another copy. The conditions are valid in the SQL of both.
"""

from __future__ import annotations

import shutil
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable as DeltaRsTable
from deltalake import write_deltalake

from deltalite import DeltaTable
from deltalite.commands.delete import delete
from deltalite.commands.merge import merge
from deltalite.commands.update import update
from deltalite.protocol.actions import Protocol
from deltalite.requests import DeleteRequest, MergeClause, MergeRequest, Source, UpdateRequest
from deltalite.storage.local import LocalLogStore
from tests.support.properties import FEED, VECTORS
from tests.support.row_model.values import row_counts
from tests.support.selection import sampled
from tests.support.tables import delta_rs_arrow
from tests.unit.builders import commit_actions

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.usefixtures("quick_plans")]

PRICE = pa.struct([("net", pa.float64()), ("unit", pa.string())])
SCHEMA = pa.schema(
    [("id", pa.int64()), ("name", pa.string()), ("price", PRICE), ("day", pa.string()), ("stock", pa.int32())]
)
NAMES = SCHEMA.names


def table_of(*rows):
    """Return a table of these rows, each with a value for each column of `SCHEMA`."""
    return pa.Table.from_pylist([dict(zip(NAMES, row, strict=True)) for row in rows], schema=SCHEMA)


FIRST_ROWS = table_of(
    (1, "one", {"net": 1.5, "unit": "kg"}, "mon", 10),
    (2, None, None, "mon", 20),
    (3, "three", {"net": None, "unit": "l"}, "tue", None),
    (3, "again", {"net": 0.0, "unit": None}, "tue", 31),
)
SECOND_ROWS = table_of(
    (None, "nobody", None, "tue", 0),
    (5, "it's", {"net": 5.5, "unit": "ż"}, None, 50),
    (6, "six", {"net": float("nan"), "unit": "kg"}, "wed", 60),
)
SOURCE_ROWS = table_of(
    (2, "two", {"net": 2.5, "unit": "g"}, "mon", 22),
    (3, "drei", None, "tue", 33),
    (6, None, {"net": 6.5, "unit": None}, "thu", None),
    (7, "seven", {"net": 7.5, "unit": "kg"}, "wed", 70),
    (None, "none", None, None, None),
)
VARIANTS = {
    "unpartitioned": {"plain": {}, "vectors-feed": VECTORS | FEED},
    "partitioned": {"feed": FEED, "vectors": VECTORS},
}


@pytest.fixture(params=VARIANTS)
def variants(request):
    """The table properties of each copy, by its name."""
    return VARIANTS[request.param]


@pytest.fixture
def origin(variants, tmp_path):
    """A table of delta-rs with two commits."""
    path = tmp_path / "origin"
    write_deltalake(path, FIRST_ROWS, partition_by=None if "plain" in variants else ["day"])
    write_deltalake(path, SECOND_ROWS, mode="append")
    return path


@pytest.fixture
def sources(tmp_path):
    """The source of the merges, a Parquet file."""
    file = tmp_path / "source.parquet"
    pq.write_table(SOURCE_ROWS, file)
    return {"source": Source(format="parquet", path=str(file))}


def copy_with_properties(origin, folder, properties):
    """Copy the table and set the properties, if there are any, in one more commit."""
    shutil.copytree(origin, folder)
    if properties:
        metadata = DeltaTable(str(folder)).metadata
        commit_actions(
            LocalLogStore(str(folder)), protocol_for(properties), replace(metadata, configuration=properties)
        )
    return str(folder)


def protocol_for(properties):
    """Return the lowest protocol that allows these table properties."""
    if VECTORS.keys() <= properties.keys():
        reader_features = ("deletionVectors",)
        features = {
            "reader_features": reader_features,
            "writer_features": (*reader_features, "changeDataFeed", "appendOnly", "invariants"),
        }
        return Protocol(min_reader_version=3, min_writer_version=7, **features)
    return Protocol(min_reader_version=1, min_writer_version=4)


@pytest.fixture
def compare(origin, variants, tmp_path):
    """`compare_engines` for the table and the variants of this test."""
    return lambda change, delta_rs_change: compare_engines(origin, variants, tmp_path, change, delta_rs_change)


def compare_engines(origin, variants, tmp_path, change, delta_rs_change):
    """Change a copy by delta-rs, and each variant by deltalite. Both engines must read the same rows in all copies."""
    delta_rs_path = copy_with_properties(origin, tmp_path / "delta-rs", {})
    delta_rs_change(DeltaRsTable(delta_rs_path))
    expected = row_counts(delta_rs_arrow(delta_rs_path).to_pylist())
    rows_before = row_counts(delta_rs_arrow(str(origin)).to_pylist())
    assert expected != rows_before and row_counts(DeltaTable(delta_rs_path).to_arrow().to_pylist()) == expected
    for name, properties in variants.items():
        path = copy_with_properties(origin, tmp_path / name, properties)
        version_before = DeltaTable(path).version
        change(path)
        assert row_counts(delta_rs_arrow(path).to_pylist()) == expected, name
        assert row_counts(DeltaTable(path).to_arrow().to_pylist()) == expected, name
        assert row_counts(delta_rs_arrow(path, version=version_before).to_pylist()) == rows_before, name
        if name == "feed":  # delta-rs reads a wrong change feed if the table has deletion vectors
            assert_feed_explains_rows(path, version_before + 1, rows_before, expected)


def assert_feed_explains_rows(path, first_version, rows_before, expected):
    """Assert that the change feed, as delta-rs reads it, turns `rows_before` into the rows `expected`."""
    feed_rows = pa.table(DeltaRsTable(path).load_cdf(starting_version=first_version).read_all())
    kinds = feed_rows["_change_type"].to_pylist()
    rows = feed_rows.drop_columns(["_change_type", "_commit_version", "_commit_timestamp"]).to_pylist()
    rows_of_kinds = lambda *names: row_counts(row for kind, row in zip(kinds, rows, strict=True) if kind in names)
    removed_rows = rows_of_kinds("delete", "update_preimage")
    inserted_rows = rows_of_kinds("insert", "update_postimage")
    assert not removed_rows - rows_before and rows_before - removed_rows + inserted_rows == expected


@pytest.mark.sample("partitioned")
@pytest.mark.parametrize(
    "condition",
    sampled(
        [None, "day = 'tue'", "id >= 3 AND stock IS NOT NULL", "price.unit = 'kg'"],
        {"day = 'tue'", "price.unit = 'kg'"},
    ),
)
def test_a_delete_leaves_the_same_rows_as_delta_rs(spark, compare, condition):
    change = lambda path: delete(spark, DeleteRequest(table=path, condition=condition, confirm_all_rows=True))
    compare(change, lambda table: table.delete(condition))


@pytest.mark.sample("partitioned")
@pytest.mark.parametrize(
    ("values", "condition"),
    [
        pytest.param({"stock": "0", "name": "coalesce(name, 'unknown')"}, None, marks=pytest.mark.campaign),
        pytest.param(
            {"id": "id + 100", "name": "CAST(id AS STRING)"},
            "id < 4 AND NOT (name = 'one')",
            marks=pytest.mark.campaign,
        ),
        ({"day": "'sun'"}, "day = 'mon' OR day IS NULL"),
    ],
)
def test_an_update_leaves_the_same_rows_as_delta_rs(spark, compare, values, condition):
    change = lambda path: update(spark, UpdateRequest(table=path, condition=condition, set=values))
    compare(change, lambda table: table.update(updates=values, predicate=condition))


def delta_rs_merge(table, on="target.id = source.id"):
    """Begin a merge of `SOURCE_ROWS` by delta-rs. The caller adds the clauses."""
    return table.merge(SOURCE_ROWS, on, source_alias="source", target_alias="target")


@pytest.mark.campaign
@pytest.mark.sample("partitioned")
def test_an_upsert_leaves_the_same_rows_as_delta_rs(spark, compare, sources):
    clauses = {"when_matched": (MergeClause(update="*"),), "when_not_matched": (MergeClause(insert="*"),)}
    compare(
        lambda path: merge(spark, MergeRequest(table=path, sources=sources, on="target.id = source.id", **clauses)),
        lambda table: delta_rs_merge(table).when_matched_update_all().when_not_matched_insert_all().execute(),
    )


@pytest.mark.campaign
def test_a_merge_that_only_inserts_leaves_the_same_rows_as_delta_rs(spark, compare, sources):
    on = "target.id = source.id AND target.day = source.day"
    clause = MergeClause(condition="source.name IS NOT NULL", insert={"id": "source.id", "day": "source.day"})
    compare(
        lambda path: merge(spark, MergeRequest(table=path, sources=sources, on=on, when_not_matched=(clause,))),
        lambda table: delta_rs_merge(table, on).when_not_matched_insert(clause.insert, clause.condition).execute(),
    )


@pytest.mark.sample("partitioned")
def test_a_merge_with_every_kind_of_clause_leaves_the_same_rows_as_delta_rs(spark, compare, sources):
    is_discontinued = "source.stock IS NULL"
    matched_update = {"name": "source.name", "stock": "target.stock + 1"}
    unmatched_update = {"name": "'unchanged'"}
    clauses = {
        "when_matched": (MergeClause(condition=is_discontinued, delete=True), MergeClause(update=matched_update)),
        "when_not_matched": (MergeClause(condition="source.id > 6", insert="*"),),
        "when_not_matched_by_source": (
            MergeClause(condition="target.day = 'tue'", delete=True),
            MergeClause(condition="target.id < 6", update=unmatched_update),
        ),
    }
    compare(
        lambda path: merge(spark, MergeRequest(table=path, sources=sources, on="target.id = source.id", **clauses)),
        lambda table: (
            delta_rs_merge(table)
            .when_matched_delete(is_discontinued)
            .when_matched_update(matched_update)
            .when_not_matched_insert_all("source.id > 6")
            .when_not_matched_by_source_delete("target.day = 'tue'")
            .when_not_matched_by_source_update(unmatched_update, "target.id < 6")
            .execute()
        ),
    )


@pytest.mark.campaign
@pytest.mark.sample("partitioned")
def test_delta_rs_deletes_from_and_compacts_a_table_that_deltalite_merged(spark, origin, tmp_path, sources):
    path = copy_with_properties(origin, tmp_path / "t", VECTORS | FEED)
    clauses = {"when_matched": (MergeClause(update="*"),), "when_not_matched": (MergeClause(insert="*"),)}
    merge(spark, MergeRequest(table=path, sources=sources, on="target.id = source.id", **clauses))
    remaining_rows = [row for row in DeltaTable(path).to_arrow().to_pylist() if not (row["id"] or 0) > 3]
    DeltaRsTable(path).delete("id > 3")
    assert row_counts(DeltaTable(path).to_arrow().to_pylist()) == row_counts(remaining_rows)
    DeltaRsTable(path).optimize.compact()
    update(spark, UpdateRequest(table=path, set={"stock": "1"}))
    assert [row["stock"] for row in delta_rs_arrow(path).to_pylist()] == [1] * len(remaining_rows)
