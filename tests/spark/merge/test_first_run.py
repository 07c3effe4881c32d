"""A merge with `create_if_missing` creates its table in the commit that inserts the first rows."""

from __future__ import annotations

import pytest

from deltalite.errors import InvalidRequestError, TableNotFoundError
from deltalite.requests import Source
from deltalite.snapshot import Snapshot
from deltalite.spark.reader import sources
from deltalite.storage.opening import open_store
from tests.support.merging import merge_into
from tests.support.racing import run_before_commits
from tests.support.tables import actions_of, rows, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

ON = "target.id = source.id"
UPSERT = {"matched": [{"update": "*"}], "inserts": [{"insert": "*"}], "create_if_missing": True}


def source_query(*lines):
    return f"SELECT * FROM VALUES {', '.join(f'({line})' for line in lines)} AS rows(id, name, day)"


def test_the_first_run_creates_the_table_and_the_next_run_merges_into_it(spark, tmp_path):
    table = tmp_path / "t"
    options = {**UPSERT, "partition_by": ("day",), "properties": {"delta.enableChangeDataFeed": "true"}}
    with pytest.raises(TableNotFoundError):
        merge_into(spark, table, source_query("1, 'a', 'x'"), ON, matched=UPSERT["matched"])
    result = merge_into(spark, table, source_query("1, 'a', 'x'", "2, 'b', 'y'"), ON, run="one", **options)
    assert (result.version, result.operation, result.committed) == (0, "MERGE", True)
    assert result.metrics["numTargetRowsInserted"] == 2
    actions = actions_of(table, 0)
    assert actions["metaData"]["partitionColumns"] == ["day"] and actions["txn"]["appId"] == "one" and actions["add"]
    assert actions["metaData"]["configuration"] == {"delta.enableChangeDataFeed": "true"}
    assert merge_into(spark, table, source_query("9, 'z', 'z'"), ON, run="one", **options).skipped
    result = merge_into(spark, table, source_query("2, 'c', 'y'", "3, 'd', 'y'"), ON, run="two", **options)
    assert result.metrics["numTargetRowsUpdated"] == 1
    assert rows(table) == [(1, "a", "x"), (2, "c", "y"), (3, "d", "y")]


@pytest.mark.campaign
def test_the_insert_clauses_define_the_columns_of_the_created_table(spark, tmp_path):
    table = tmp_path / "t"
    inserts = [
        {"insert": {"id": "source.id", "kind": "'x'"}, "condition": "day = 'x'"},
        {"insert": {"id": "id", "`full name`": "upper(name)"}, "condition": "id < 3 -- not three"},
    ]
    query = source_query("1, 'a', 'x'", "2, 'b', 'y'", "3, 'c', 'y'", "4, 'd', NULL") + ";"
    merge_into(spark, table, query, ON, inserts=inserts, create_if_missing=True)
    assert rows(table) == [(1, "x", None), (2, None, "B")]
    two_inserts = [{"insert": {"id": "-id"}, "condition": "day = 'x'"}, {"insert": "*"}]
    merge_into(
        spark,
        tmp_path / "both",
        source_query("1, 'a', 'x'", "2, 'b', 'y'"),
        ON,
        inserts=two_inserts,
        create_if_missing=True,
    )
    assert rows(tmp_path / "both") == [(-1, None, None), (2, "b", "y")]


def test_the_keyword_default_is_null_in_a_table_without_defaults(spark, tmp_path):
    inserts = [
        {"insert": {"id": "id", "name": "default"}, "condition": "id = 1"},
        {"insert": {"id": "id", "name": "name"}},
    ]
    merge_into(
        spark, tmp_path / "t", source_query("1, 'a', 'x'", "2, 'b', 'y'"), ON, inserts=inserts, create_if_missing=True
    )
    assert rows(tmp_path / "t") == [(1, None), (2, "b")]


def test_invalid_options_are_rejected_before_the_table_is_created(spark, tmp_path):
    table = tmp_path / "t"
    rejected_overrides = [
        ({"on": "target.nope = source.id"}, "nope"),
        ({"matched": [{"update": {"other": "1"}}]}, "'other', which is not a column"),
        ({"inserts": [{"insert": {"s.a": "1"}}]}, "whole columns"),
        ({"inserts": [{"insert": {"a, b": "1"}}]}, "whole columns"),
        (
            {"inserts": [{"insert": {"`id": "1"}}]},
            r"^when_not_matched\[0\]\.insert contains '`id', which is not a valid column name",
        ),
        ({"partition_by": ("nope",)}, "partition_by names 'nope'"),
    ]
    for overrides, message in rejected_overrides:
        options = {"on": ON, **UPSERT, **overrides}
        with pytest.raises(InvalidRequestError, match=message):
            merge_into(spark, table, source_query("1, 'a', 'x'"), options.pop("on"), **options)
    assert not table.exists()


def test_the_first_run_opens_its_source_once(spark, tmp_path, monkeypatch):
    write_rows(spark, tmp_path / "source", source_query("1, 'a', 'x'"))
    delta_snapshot, snapshots = sources.delta_snapshot, []

    def record_snapshot(*arguments):
        snapshots.append(delta_snapshot(*arguments))
        return snapshots[-1]

    monkeypatch.setattr(sources, "delta_snapshot", record_snapshot)
    table_source = {"source": Source(format="delta", path=str(tmp_path / "source"))}
    merge_into(spark, tmp_path / "t", None, ON, sources=table_source, **UPSERT)
    assert (len(snapshots), rows(tmp_path / "t")) == (1, [(1, "a", "x")])


def test_a_merge_updates_a_table_that_another_writer_creates_concurrently(spark, tmp_path, monkeypatch):
    table = tmp_path / "t"
    rival_rows = source_query("1, 'rival', 'x'", "7, 'rival', 'x'")
    run_before_commits(monkeypatch, lambda: write_rows(spark, table, rival_rows))
    result = merge_into(spark, table, source_query("1, 'ours', 'x'"), ON, run="r", **UPSERT)
    assert (result.version, result.metrics["numTargetRowsUpdated"]) == (1, 1)
    assert rows(table) == [(1, "ours", "x"), (7, "rival", "x")]
    assert Snapshot.load(open_store(str(table))).transactions["r"].version == 0
