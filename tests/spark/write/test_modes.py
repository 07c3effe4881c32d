"""The effect of write modes and options on the rows, the files and the log of a table."""

from __future__ import annotations

import datetime as dt
import json
import re
import time
from decimal import Decimal

import pytest

import deltalite.spark as delta
from deltalite import DeltaTable
from deltalite.errors import AppendOnlyError, ConstraintViolationError, SchemaMismatchError, TableExistsError
from deltalite.requests import Source, WriteMode
from tests.support.daily_rows import DAY_1, daily_rows_query, ids_and_days
from tests.support.tables import (
    actions_of,
    data_files,
    delete_rows,
    folder_content,
    rows,
    sorted_rows,
    values,
    without_time,
    write_rows,
)

pytestmark = pytest.mark.spark


@pytest.mark.smoke
def test_each_mode_writes_or_keeps_the_rows_of_a_table(spark, tmp_path):
    table = tmp_path / "t"
    result = write_rows(spark, table, values("id", "1"), mode="error")
    assert (result.version, result.read_version, result.committed, result.skipped) == (0, None, True, False)
    with pytest.raises(TableExistsError):
        write_rows(spark, table, values("id", "2"), mode="error")
    result = write_rows(spark, table, values("id", "2"), mode="ignore")
    assert (result.version, result.committed, result.skipped) == (0, False, False)
    assert write_rows(spark, table, values("id", "3"), mode="append").read_version == 0
    assert rows(table) == [(1,), (3,)]
    assert write_rows(spark, table, values("id", "4"), mode="overwrite").version == 2
    assert rows(table) == [(4,)]
    assert rows(table, version=1) == [(1,), (3,)]
    modes = [actions_of(table, version)["commitInfo"]["operationParameters"]["mode"] for version in range(3)]
    assert modes == ["ErrorIfExists", "Append", "Overwrite"]
    for mode in WriteMode:
        new_table = tmp_path / mode
        assert write_rows(spark, new_table, values("id", "1"), mode=mode).version == 0
        assert rows(new_table) == [(1,)]


def test_the_commit_info_has_the_fields_and_values_of_delta_spark(spark, tmp_path):
    table = tmp_path / "t"
    start_ms = time.time_ns() // 1_000_000
    write_rows(spark, table, daily_rows_query("1 1", "2 2"), partition_by=("day",), run="run", user_metadata="note")
    result = write_rows(
        spark,
        table,
        daily_rows_query("3 2"),
        mode="overwrite",
        replace_where="day = DATE'2026-01-02'",
        user_metadata="note",
    )
    creation_actions, replacement_actions = actions_of(table, 0), actions_of(table, 1)
    info = creation_actions["commitInfo"]
    assert start_ms <= info["timestamp"] <= time.time_ns() // 1_000_000
    assert "readVersion" not in info and info["isBlindAppend"] is True and info["isolationLevel"] == "Serializable"
    assert info["operationParameters"] == {"mode": "Append", "partitionBy": '["day"]'}
    assert json.loads(info["userMetadata"]) == {"dag_id": "dag", "try_number": 1, "user_metadata": "note"}
    assert re.fullmatch(r"deltalite/\S+", info["engineInfo"]) and re.fullmatch(r"[0-9a-f-]{36}", info["txnId"])
    assert creation_actions["txn"] == {
        "appId": "run",
        "version": 0,
        "lastUpdated": creation_actions["txn"]["lastUpdated"],
    }
    assert creation_actions["protocol"] == {"minReaderVersion": 1, "minWriterVersion": 2}
    total_size = sum(add["size"] for add in creation_actions["add"])
    metrics = {"numFiles": "2", "numOutputBytes": str(total_size), "numOutputRows": "2"}
    assert without_time(info["operationMetrics"]) == metrics

    info = replacement_actions["commitInfo"]
    assert (info["operation"], info["readVersion"], info["isBlindAppend"], info["userMetadata"]) == (
        "WRITE",
        0,
        False,
        "note",
    )
    assert info["operationParameters"]["predicate"] == json.dumps(["day = DATE'2026-01-02'"])
    assert without_time(info["operationMetrics"]) == {
        "numFiles": "1",
        "numOutputBytes": str(replacement_actions["add"][0]["size"]),
        "numOutputRows": "1",
        "numRemovedFiles": "1",
        "numRemovedBytes": str(replacement_actions["remove"][0]["size"]),
        "numAddedChangeFiles": "0",
        "numCopiedRows": "0",
        "numDeletedRows": "1",
    }
    assert result.metrics == {name: int(value) for name, value in info["operationMetrics"].items()}
    (remove,) = replacement_actions["remove"]
    (add,) = [add for add in creation_actions["add"] if add["path"] == remove["path"]]
    assert remove["dataChange"] and remove["extendedFileMetadata"] and remove["deletionTimestamp"] >= start_ms
    assert (remove["partitionValues"], remove["size"]) == (add["partitionValues"], add["size"])
    assert re.fullmatch(
        r"day=2026-01-02/part-\d{5}-[0-9a-f-]{36}.c000.snappy.parquet", replacement_actions["add"][0]["path"]
    )


@pytest.mark.slow
def test_merge_schema_adds_columns_at_every_depth(spark, tmp_path):
    table = tmp_path / "t"
    first_query = (
        "SELECT 1 AS id, struct(1 AS a, struct('x' AS b) AS deep) AS s, "
        "array(struct(1 AS k)) AS list, map('m', struct(1 AS v)) AS m"
    )
    second_query = (
        "SELECT struct(struct(2.5D AS c, 'y' AS B) AS deep, 2 AS a, 'new' AS z) AS S, 2 AS ID, "
        "DATE'2026-01-01' AS day, array(struct('kk' AS kk, 2 AS k)) AS list, map('m', struct(2 AS v, true AS w)) AS m"
    )
    write_rows(spark, table, first_query)
    result = write_rows(spark, table, second_query, merge_schema=True)
    assert result.version == 1 and "metaData" in actions_of(table, 1)
    schema = DeltaTable(str(table)).schema
    assert schema.names == ["id", "s", "list", "m", "day"]
    assert [f.name for f in schema.field("s").type] == ["a", "deep", "z"]
    expected = [
        (
            1,
            {"a": 1, "deep": {"b": "x", "c": None}, "z": None},
            [{"k": 1, "kk": None}],
            [("m", {"v": 1, "w": None})],
            None,
        ),
        (
            2,
            {"a": 2, "deep": {"b": "y", "c": 2.5}, "z": "new"},
            [{"k": 2, "kk": "kk"}],
            [("m", {"v": 2, "w": True})],
            DAY_1,
        ),
    ]
    assert rows(table) == expected
    rows_read = [row.asDict(recursive=True) for row in delta.read(spark, str(table)).orderBy("id").collect()]
    assert [(row["s"], row["list"]) for row in rows_read] == [(row[1], row[2]) for row in expected]
    # A null struct stays null, and does not become a struct of nulls.
    write_rows(
        spark,
        table,
        "SELECT 3 AS id, CAST(NULL AS STRUCT<a: INT>) AS s, CAST(NULL AS ARRAY<STRUCT<kk: STRING>>) AS list",
    )
    assert rows(table)[2] == (3, None, None, None, None)
    # The write does not write the metadata again if no column is new.
    write_rows(spark, table, first_query, merge_schema=True, mode="overwrite")
    assert "metaData" not in actions_of(table, 3) and DeltaTable(str(table)).schema.names == schema.names


def test_values_of_narrower_types_are_cast_and_missing_columns_are_null(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(
        spark,
        table,
        "SELECT 1L AS id, 1.5D AS x, CAST(1 AS DECIMAL(20,2)) AS amount, 'a' AS name, "
        "TIMESTAMP_NTZ'2026-01-01 00:00:00' AS at",
    )
    write_rows(
        spark, table, "SELECT CAST(2 AS TINYINT) AS ID, 2.5F AS X, 7 AS amount, NULL AS name, DATE'2026-01-02' AS at"
    )
    write_rows(spark, table, "SELECT 3 AS id")
    first_at, second_at = dt.datetime.fromisoformat("2026-01-01"), dt.datetime.fromisoformat("2026-01-02")
    assert rows(table) == [
        (1, 1.5, Decimal("1.00"), "a", first_at),
        (2, 2.5, Decimal("7.00"), None, second_at),
        (3, None, None, None, None),
    ]


def test_overwrite_schema_replaces_columns_and_partitioning(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, daily_rows_query("1 1"), partition_by=("day",), properties={"mine": "1"})
    new_schema = {"mode": "overwrite", "overwrite_schema": True}
    write_rows(
        spark, table, values("day, name", "'x', 'n'"), partition_by=("name",), **new_schema, properties={"yours": "2"}
    )
    assert rows(table) == [("x", "n")]
    metadata = actions_of(table, 1)["metaData"]
    assert metadata["partitionColumns"] == ["name"] and metadata["id"] == actions_of(table, 0)["metaData"]["id"]
    assert metadata["configuration"] == {"mine": "1", "yours": "2"}
    assert actions_of(table, 1)["add"][0]["path"].startswith("name=n/")
    with pytest.raises(SchemaMismatchError, match=r"partitioned by \(name\), but the new schema has no column 'name'"):
        write_rows(spark, table, values("id", "5"), **new_schema)
    write_rows(spark, table, values("name, id", "'m', 5"), **new_schema)
    assert actions_of(table, 2)["metaData"]["partitionColumns"] == ["name"]
    write_rows(spark, table, values("id", "6"), partition_by=(), **new_schema)
    assert rows(table) == [(6,)] and actions_of(table, 3)["metaData"]["partitionColumns"] == []
    assert rows(table, version=0) == [(1, DAY_1)]


def test_properties_of_a_later_append_have_no_effect(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(
        spark, table, values("id", "1"), properties={"delta.appendOnly": "true", "delta.checkpointInterval": "2"}
    )
    write_rows(spark, table, values("id", "2"), properties={"delta.appendOnly": "false"})
    content_before = folder_content(table)
    for options in (
        {"mode": "overwrite"},
        {"mode": "overwrite", "replace_where": "id = 1"},
        {"mode": "overwrite", "overwrite_schema": True},
    ):
        with pytest.raises(AppendOnlyError, match="append-only"):
            write_rows(spark, table, values("id", "1"), **options)
    assert folder_content(table) == content_before
    # An append-only table accepts an overwrite without data change, because it removes no row.
    write_rows(spark, table, values("id", "1", "2"), mode="overwrite", data_change=False)
    assert rows(table) == [(1,), (2,)]
    assert (table / "_delta_log" / f"{2:020}.checkpoint.parquet").exists()
    assert json.loads((table / "_delta_log" / "_last_checkpoint").read_text())["version"] == 2
    assert not (table / "_delta_log" / f"{1:020}.checkpoint.parquet").exists()


def test_max_records_per_file_and_optimize_write_determine_the_files(spark, tmp_path):
    query = "SELECT id, CAST(id % 4 AS STRING) AS part FROM range(0, 1000, 1, 8)"
    options = {"partition_by": ("part",)}
    assert write_rows(spark, tmp_path / "a", query, **options).metrics["numFiles"] > 8
    assert write_rows(spark, tmp_path / "b", query, optimize_write=True, **options).metrics["numFiles"] == 4
    assert write_rows(spark, tmp_path / "c", query, optimize_write=True).metrics["numFiles"] == 1
    write_rows(spark, tmp_path / "d", query, optimize_write=True, max_records_per_file=100, **options)
    counts = sorted(json.loads(add["stats"])["numRecords"] for add in actions_of(tmp_path / "d", 0)["add"])
    assert counts == [50, 50, 50, 50] + [100] * 8
    assert len(rows(tmp_path / "d")) == 1000


@pytest.mark.slow
def test_a_write_without_data_change_records_that_no_row_changed(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, "SELECT id, id % 3 AS part FROM range(0, 30, 1, 3)", partition_by=("part",))
    rows_before = rows(table)
    source = Source(format="delta", path=str(table))
    rearrange = {"sources": {"source": source}, "mode": "overwrite", "data_change": False}
    write_rows(spark, table, "SELECT * FROM source ORDER BY id", optimize_write=True, **rearrange)
    assert rows(table) == rows_before
    actions = [*actions_of(table, 1)["add"], *actions_of(table, 1)["remove"]]
    assert len(actions) == 3 + 9 and not any(action["dataChange"] for action in actions)
    write_rows(spark, table, "SELECT * FROM source WHERE part = 1", replace_where="part = 1", **rearrange)
    assert rows(table) == rows_before
    with pytest.raises(ConstraintViolationError, match="30 rows would become 29"):
        write_rows(spark, table, "SELECT * FROM source WHERE id > 0", **rearrange)
    assert rows(table) == rows_before


@pytest.mark.slow
def test_sources_are_read_at_their_versions_and_times(spark, tmp_path):
    landing, orders = tmp_path / "landing", tmp_path / "orders"
    landing.mkdir()
    (landing / "1.csv").write_text('id,name\n1,"a, ""b"""\n2,\n')
    csv = Source(
        format="csv", path=str(landing), options={"header": "true", "escape": '"'}, schema="id BIGINT, name STRING"
    )
    write_rows(spark, orders, sources={"source": csv})
    commit_file = orders / "_delta_log" / f"{0:020}.json"
    first_commit_ms = commit_file.stat().st_mtime_ns // 1_000_000  # the time of the version, not of the commit info
    assert rows(orders) == [(1, 'a, "b"'), (2, None)]
    time.sleep(0.01)
    write_rows(spark, orders, "SELECT id + 10 AS id, name FROM source", sources={"source": csv}, mode="overwrite")
    time_between_commits = dt.datetime.fromtimestamp((first_commit_ms + 5) / 1000, dt.UTC)
    sources = {
        "first": Source(format="delta", path=str(orders), version_as_of=0),
        "then": Source(format="delta", path=str(orders), timestamp_as_of=time_between_commits.isoformat()),
        "now": Source(format="delta", path=str(orders)),
        "feed": Source(format="csv", path=str(landing / "*.csv"), options=csv.options),
    }
    query = (
        "SELECT first.id, then.id AS then, now.id AS now, feed.name FROM first JOIN then USING (id) "
        "JOIN now ON now.id = first.id + 10 JOIN feed ON feed.id = first.id"
    )
    write_rows(spark, tmp_path / "joined", query, sources=sources)
    assert rows(tmp_path / "joined") == [(1, 1, 11, 'a, "b"'), (2, 2, 12, None)]
    assert not spark.catalog.tableExists("first")


@pytest.mark.slow
def test_a_self_read_sees_the_table_before_the_write(spark, tmp_path):
    table = tmp_path / "t"
    self_read = {"sources": {"source": Source(format="delta", path=f"file://{table}")}}
    write_rows(spark, table, daily_rows_query("1 1", "2 2"), partition_by=("day",))
    write_rows(spark, table, "SELECT id + 10 AS id, day FROM source", **self_read)
    assert ids_and_days(table) == {(1, 1), (2, 2), (11, 1), (12, 2)}
    assert actions_of(table, 1)["commitInfo"]["isBlindAppend"] is False
    write_rows(spark, table, "SELECT id, day FROM source WHERE id > 1", mode="overwrite", **self_read)
    assert ids_and_days(table) == {(2, 2), (11, 1), (12, 2)}
    write_rows(
        spark,
        table,
        "SELECT id, day FROM source WHERE id < 12 AND day = DATE'2026-01-02'",
        **self_read,
        mode="overwrite",
        replace_where="day = DATE'2026-01-02'",
    )
    assert ids_and_days(table) == {(2, 2), (11, 1)}


def test_a_write_without_rows_commits_a_version_without_files(spark, tmp_path):
    table = tmp_path / "t"
    empty_query = daily_rows_query("1 1") + " WHERE id < 0"
    result = write_rows(spark, table, empty_query, partition_by=("day",), run="a")
    assert (result.version, without_time(result.metrics)) == (
        0,
        {"numFiles": 0, "numOutputBytes": 0, "numOutputRows": 0},
    )
    assert DeltaTable(str(table)).schema.names == ["id", "day"]
    write_rows(spark, table, daily_rows_query("1 1"))
    assert write_rows(spark, table, empty_query, run="b").version == 2
    assert actions_of(table, 2)["add"] == [] and actions_of(table, 2)["txn"]["appId"] == "b"
    assert ids_and_days(table) == {(1, 1)}
    write_rows(spark, table, empty_query, mode="overwrite")
    assert rows(table) == []


@pytest.mark.slow
def test_random_file_prefixes_spread_the_files_over_folders(spark, tmp_path):
    """The path of a file does not contain its partition values, so only the log states them."""
    table = tmp_path / "t"
    write_rows(
        spark,
        table,
        daily_rows_query(*(f"{n} {n % 3 + 1}" for n in range(12))),
        partition_by=("day",),
        properties={"delta.randomizeFilePrefixes": "true"},
    )
    write_rows(spark, table, daily_rows_query("20 1"))
    names = data_files(table)
    assert all(re.fullmatch(r"[A-Za-z0-9]{2}/part-[^/]+\.parquet", name) for name in names)
    expected = {(n, n % 3 + 1) for n in range(12)} | {(20, 1)}
    assert ids_and_days(table) == expected
    assert sorted_rows(delta.read(spark, str(table)).collect()) == rows(table)
    write_rows(
        spark, table, daily_rows_query("30 1"), mode="overwrite", replace_where="day = DATE'2026-01-01' AND id > 2"
    )
    assert ids_and_days(table) == {(n, d) for n, d in expected if d != 1 or n <= 2} | {(30, 1)}


@pytest.mark.campaign
@pytest.mark.slow
def test_files_of_many_partitions_have_different_names_under_random_prefixes(spark, tmp_path):
    """Spark gives the files of a task one name in all directories, and partitions may share a random prefix."""
    table = tmp_path / "t"
    query = "SELECT /*+ COALESCE(1) */ id, id AS p FROM range(250)"
    write_rows(spark, table, query, partition_by=("p",), properties={"delta.randomizeFilePrefixes": "true"})
    assert len(data_files(table)) == 250
    assert sorted(rows(table)) == [(n, n) for n in range(250)]


@pytest.mark.slow
def test_the_result_names_the_partitions_with_changed_rows(spark, tmp_path):
    table = tmp_path / "t"
    assert write_rows(spark, table, daily_rows_query("1 1", "2 2"), partition_by=("day",)).partitions == (
        "day=2026-01-01",
        "day=2026-01-02",
    )
    result = write_rows(spark, table, daily_rows_query("3 2"), mode="overwrite", replace_where="day = DATE'2026-01-02'")
    assert result.partitions == ("day=2026-01-02",)
    assert delete_rows(spark, table, "id = 1").partitions == ("day=2026-01-01",)
    assert write_rows(spark, tmp_path / "plain", values("id", "1")).partitions == ()
