"""A merge with `create_if_missing` makes its table in the commit that inserts the first rows."""

from __future__ import annotations

import pytest

from deltalite.errors import InvalidRequestError, TableNotFoundError
from deltalite.snapshot import Snapshot
from deltalite.storage.opening import open_store
from tests.support.merging import merge_into
from tests.support.tables import commit, rows, write_rows

pytestmark = pytest.mark.spark

ON = "target.id = source.id"
UPSERT = {"matched": [{"update": "*"}], "inserts": [{"insert": "*"}], "create_if_missing": True}


def source(*lines):
    return f"SELECT * FROM VALUES {', '.join(f'({line})' for line in lines)} AS rows(id, name, day)"


def test_the_first_run_makes_the_table_and_the_next_ones_merge(spark, tmp_path):
    table = tmp_path / "t"
    options = {**UPSERT, "partition_by": ("day",), "properties": {"delta.enableChangeDataFeed": "true"}}
    with pytest.raises(TableNotFoundError):
        merge_into(spark, table, source("1, 'a', 'x'"), ON, matched=UPSERT["matched"])
    first = merge_into(spark, table, source("1, 'a', 'x'", "2, 'b', 'y'"), ON, run="one", **options)
    assert (first.version, first.operation, first.committed) == (0, "MERGE", True)
    assert first.metrics["numTargetRowsInserted"] == 2
    made = commit(table, 0)
    assert made["metaData"]["partitionColumns"] == ["day"] and made["txn"]["appId"] == "one" and made["add"]
    assert made["metaData"]["configuration"] == {"delta.enableChangeDataFeed": "true"}
    assert merge_into(spark, table, source("9, 'z', 'z'"), ON, run="one", **options).skipped
    second = merge_into(spark, table, source("2, 'c', 'y'", "3, 'd', 'y'"), ON, run="two", **options)
    assert second.metrics["numTargetRowsUpdated"] == 1
    assert rows(table) == [(1, "a", "x"), (2, "c", "y"), (3, "d", "y")]


def test_the_clauses_that_insert_make_the_columns(spark, tmp_path):
    table = tmp_path / "t"
    inserts = [
        {"insert": {"id": "source.id", "kind": "'x'"}, "condition": "day = 'x'"},
        {"insert": {"id": "id", "`full name`": "upper(name)"}, "condition": "id < 3 -- not three"},
    ]
    query = source("1, 'a', 'x'", "2, 'b', 'y'", "3, 'c', 'y'", "4, 'd', NULL") + ";"
    merge_into(spark, table, query, ON, inserts=inserts, create_if_missing=True)
    assert rows(table) == [(1, "x", None), (2, None, "B")]
    both = [{"insert": {"id": "-id"}, "condition": "day = 'x'"}, {"insert": "*"}]
    merge_into(spark, tmp_path / "both", source("1, 'a', 'x'", "2, 'b', 'y'"), ON, inserts=both, create_if_missing=True)
    assert rows(tmp_path / "both") == [(-1, None, None), (2, "b", "y")]


def test_the_keyword_default_is_null_in_a_table_without_defaults(spark, tmp_path):
    inserts = [
        {"insert": {"id": "id", "name": "default"}, "condition": "id = 1"},
        {"insert": {"id": "id", "name": "name"}},
    ]
    merge_into(spark, tmp_path / "t", source("1, 'a', 'x'", "2, 'b', 'y'"), ON, inserts=inserts, create_if_missing=True)
    assert rows(tmp_path / "t") == [(1, None), (2, "b")]


def test_what_the_next_run_could_not_do_is_refused_on_the_first_one(spark, tmp_path):
    table = tmp_path / "t"
    bad = [
        ({"on": "target.nope = source.id"}, "nope"),
        ({"matched": [{"update": {"other": "1"}}]}, "'other', which is not a column"),
        ({"inserts": [{"insert": {"s.a": "1"}}]}, "whole columns"),
        ({"partition_by": ("nope",)}, "partition_by names 'nope'"),
    ]
    for change, words in bad:
        asked = {"on": ON, **UPSERT, **change}
        with pytest.raises(InvalidRequestError, match=words):
            merge_into(spark, table, source("1, 'a', 'x'"), asked.pop("on"), **asked)
    assert not table.exists()


def test_a_table_that_another_writer_makes_meanwhile_is_merged_into(spark, tmp_path, monkeypatch):
    table = tmp_path / "t"
    store = type(open_store(str(table)))
    original = store.write_if_absent

    def overtaken(self, name, data):
        monkeypatch.setattr(store, "write_if_absent", original)
        write_rows(spark, table, source("1, 'rival', 'x'", "7, 'rival', 'x'"))
        return original(self, name, data)

    monkeypatch.setattr(store, "write_if_absent", overtaken)
    done = merge_into(spark, table, source("1, 'ours', 'x'"), ON, run="r", **UPSERT)
    assert (done.version, done.metrics["numTargetRowsUpdated"]) == (1, 1)
    assert rows(table) == [(1, "ours", "x"), (7, "rival", "x")]
    assert Snapshot.load(open_store(str(table))).transactions["r"].version == 0
