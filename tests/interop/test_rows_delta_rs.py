"""delta-rs reads what our deletes, updates and merges leave, and does the same to a copy of the table.

Each scenario starts from one table that is written by delta-rs, with repeated keys, nulls, a struct and a partition of
none. Ours runs on copies with and without deletion vectors and change feed, delta-rs, which writes no vectors, on
another. The text of conditions is common to both dialects.
"""

from __future__ import annotations

import shutil
from dataclasses import replace

import pyarrow as pa
import pytest
from deltalake import DeltaTable as OtherTable
from deltalake import QueryBuilder, write_deltalake

from deltalite import DeltaTable
from deltalite.commands.delete import delete
from deltalite.commands.merge import merge
from deltalite.commands.update import update
from deltalite.protocol.actions import Protocol
from deltalite.requests import DeleteRequest, MergeClause, MergeRequest, Source, UpdateRequest
from deltalite.storage.local import LocalLogStore
from tests.support.row_model.values import counted
from tests.unit.builders import commit_actions

pytestmark = [pytest.mark.spark, pytest.mark.interop]

PRICE = pa.struct([("net", pa.float64()), ("unit", pa.string())])
SCHEMA = pa.schema(
    [("id", pa.int64()), ("name", pa.string()), ("price", PRICE), ("day", pa.string()), ("stock", pa.int32())]
)
NAMES = SCHEMA.names


def table_of(*rows):
    return pa.Table.from_pylist([dict(zip(NAMES, row, strict=True)) for row in rows], schema=SCHEMA)


FIRST = table_of(
    (1, "one", {"net": 1.5, "unit": "kg"}, "mon", 10),
    (2, None, None, "mon", 20),
    (3, "three", {"net": None, "unit": "l"}, "tue", None),
    (3, "again", {"net": 0.0, "unit": None}, "tue", 31),
)
SECOND = table_of(
    (None, "nobody", None, "tue", 0),
    (5, "it's", {"net": 5.5, "unit": "ż"}, None, 50),
    (6, "six", {"net": float("nan"), "unit": "kg"}, "wed", 60),
)
NEWS = table_of(
    (2, "two", {"net": 2.5, "unit": "g"}, "mon", 22),
    (3, "drei", None, "tue", 33),
    (6, None, {"net": 6.5, "unit": None}, "thu", None),
    (7, "seven", {"net": 7.5, "unit": "kg"}, "wed", 70),
    (None, "none", None, None, None),
)
FEED = {"delta.enableChangeDataFeed": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}
VARIANTS = {"whole": {"files": {}, "vectors-feed": VECTORS | FEED}, "partitioned": {"feed": FEED, "vectors": VECTORS}}


@pytest.fixture(params=VARIANTS)
def variants(request):
    """The properties of copies, by name."""
    return VARIANTS[request.param]


@pytest.fixture
def origin(variants, tmp_path):
    """The table as delta-rs wrote it, in two commits."""
    path = tmp_path / "origin"
    write_deltalake(path, FIRST, partition_by=None if "files" in variants else ["day"])
    write_deltalake(path, SECOND, mode="append")
    return path


@pytest.fixture
def news(tmp_path):
    """The source of merges, as Parquet."""
    import pyarrow.parquet as pq

    file = tmp_path / "news.parquet"
    pq.write_table(NEWS, file)
    return {"source": Source(format="parquet", path=str(file))}


def with_features(origin, folder, properties):
    """A copy of the table that has these properties from one more version on."""
    shutil.copytree(origin, folder)
    if properties:
        metadata = DeltaTable(str(folder)).metadata
        commit_actions(
            LocalLogStore(str(folder)), protocol_for(properties), replace(metadata, configuration=properties)
        )
    return str(folder)


def protocol_for(properties):
    if VECTORS.keys() <= properties.keys():
        named = ("deletionVectors",)
        features = {"reader_features": named, "writer_features": (*named, "changeDataFeed", "appendOnly", "invariants")}
        return Protocol(min_reader_version=3, min_writer_version=7, **features)
    return Protocol(min_reader_version=1, min_writer_version=4)


def seen_by_delta_rs(path, version=None):
    reader = QueryBuilder().register("t", OtherTable(path, version=version))
    return pa.table(reader.execute("SELECT * FROM t").read_all()).to_pylist()


@pytest.fixture
def check(origin, variants, tmp_path):
    return lambda ours, theirs: compare(origin, variants, tmp_path, ours, theirs)


def compare(origin, variants, tmp_path, ours, theirs):
    """Both do it; delta-rs sees the same rows in both tables, whatever the features, and so do we."""
    other = with_features(origin, tmp_path / "other", {})
    theirs(OtherTable(other))
    expected = counted(seen_by_delta_rs(other))
    before = counted(seen_by_delta_rs(str(origin)))
    assert expected != before and counted(DeltaTable(other).to_arrow().to_pylist()) == expected
    for name, properties in variants.items():
        path = with_features(origin, tmp_path / name, properties)
        start = DeltaTable(path).version
        ours(path)
        assert counted(seen_by_delta_rs(path)) == expected, name
        assert counted(DeltaTable(path).to_arrow().to_pylist()) == expected, name
        assert counted(seen_by_delta_rs(path, version=start)) == before, name
        if name == "feed":  # delta-rs takes the rows of a deletion vector for those that are left
            check_feed(path, start + 1, before, expected)


def check_feed(path, first, before, expected):
    """The change feed, as delta-rs reads it, leads from the rows before to the rows after."""
    feed_rows = pa.table(OtherTable(path).load_cdf(starting_version=first).read_all())
    kinds = feed_rows["_change_type"].to_pylist()
    rows = feed_rows.drop_columns(["_change_type", "_commit_version", "_commit_timestamp"]).to_pylist()
    of = lambda *wanted: counted(row for kind, row in zip(kinds, rows, strict=True) if kind in wanted)
    gone, come = of("delete", "update_preimage"), of("insert", "update_postimage")
    assert not gone - before and before - gone + come == expected


@pytest.mark.parametrize("condition", [None, "day = 'tue'", "id >= 3 AND stock IS NOT NULL", "price.unit = 'kg'"])
def test_a_delete(spark, check, condition):
    ours = lambda path: delete(spark, DeleteRequest(table=path, condition=condition, confirm_all_rows=True))
    check(ours, lambda table: table.delete(condition))


@pytest.mark.parametrize(
    ("values", "condition"),
    [
        ({"stock": "0", "name": "coalesce(name, 'unknown')"}, None),
        ({"id": "id + 100", "name": "CAST(id AS STRING)"}, "id < 4 AND NOT (name = 'one')"),
        ({"day": "'sun'"}, "day = 'mon' OR day IS NULL"),
    ],
)
def test_an_update(spark, check, values, condition):
    ours = lambda path: update(spark, UpdateRequest(table=path, condition=condition, set=values))
    check(ours, lambda table: table.update(updates=values, predicate=condition))


def theirs(table, on="target.id = source.id"):
    return table.merge(NEWS, on, source_alias="source", target_alias="target")


def test_an_upsert(spark, check, news):
    what = {"when_matched": (MergeClause(update="*"),), "when_not_matched": (MergeClause(insert="*"),)}
    check(
        lambda path: merge(spark, MergeRequest(table=path, sources=news, on="target.id = source.id", **what)),
        lambda table: theirs(table).when_matched_update_all().when_not_matched_insert_all().execute(),
    )


def test_a_merge_of_new_rows_only(spark, check, news):
    on = "target.id = source.id AND target.day = source.day"
    clause = MergeClause(condition="source.name IS NOT NULL", insert={"id": "source.id", "day": "source.day"})
    check(
        lambda path: merge(spark, MergeRequest(table=path, sources=news, on=on, when_not_matched=(clause,))),
        lambda table: theirs(table, on).when_not_matched_insert(clause.insert, clause.condition).execute(),
    )


def test_a_merge_with_a_clause_of_every_kind(spark, check, news):
    gone = "source.stock IS NULL"
    changed = {"name": "source.name", "stock": "target.stock + 1"}
    mark = {"name": "'unchanged'"}
    what = {
        "when_matched": (MergeClause(condition=gone, delete=True), MergeClause(update=changed)),
        "when_not_matched": (MergeClause(condition="source.id > 6", insert="*"),),
        "when_not_matched_by_source": (
            MergeClause(condition="target.day = 'tue'", delete=True),
            MergeClause(condition="target.id < 6", update=mark),
        ),
    }
    check(
        lambda path: merge(spark, MergeRequest(table=path, sources=news, on="target.id = source.id", **what)),
        lambda table: (
            theirs(table)
            .when_matched_delete(gone)
            .when_matched_update(changed)
            .when_not_matched_insert_all("source.id > 6")
            .when_not_matched_by_source_delete("target.day = 'tue'")
            .when_not_matched_by_source_update(mark, "target.id < 6")
            .execute()
        ),
    )


def test_they_go_on_with_a_table_that_we_changed(spark, origin, tmp_path, news):
    path = with_features(origin, tmp_path / "t", VECTORS | FEED)
    what = {"when_matched": (MergeClause(update="*"),), "when_not_matched": (MergeClause(insert="*"),)}
    merge(spark, MergeRequest(table=path, sources=news, on="target.id = source.id", **what))
    left = [row for row in DeltaTable(path).to_arrow().to_pylist() if not (row["id"] or 0) > 3]
    OtherTable(path).delete("id > 3")
    assert counted(DeltaTable(path).to_arrow().to_pylist()) == counted(left)
    OtherTable(path).optimize.compact()
    update(spark, UpdateRequest(table=path, set={"stock": "1"}))
    assert {row["stock"] for row in seen_by_delta_rs(path)} == {1} and len(seen_by_delta_rs(path)) == len(left)
