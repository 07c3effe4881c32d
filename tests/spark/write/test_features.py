"""Writes of every mode are correct in tables with deletion vectors, a change feed, clustering or other features."""

from __future__ import annotations

import datetime as dt
import json

import pyarrow as pa
import pytest
from deltalake import DeltaTable as DeltaRsTable
from deltalake import QueryBuilder

from deltalite import DeltaTable
from deltalite.errors import InvalidRequestError, SchemaMismatchError, UnsupportedFeatureError
from deltalite.requests import Source
from deltalite.snapshot import Snapshot
from deltalite.storage.opening import open_store
from tests.support.tables import (
    actions_of,
    folder_content,
    ids,
    rows,
    schema_json,
    spark_rows,
    values,
    write_foreign_table,
    write_numbered_file,
    write_rows,
)
from tests.support.vectors import inline_vector

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]


def time_of(ms):
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=ms)


def ids_by_delta_rs(table):
    query = QueryBuilder().register("t", DeltaRsTable(str(table)))
    return sorted(pa.table(query.execute("SELECT id FROM t").read_all())["id"].to_pylist())


@pytest.fixture
def table_with_deleted_rows(tmp_path):
    """A table with three files in two partitions. Two files have deletion vectors."""
    table = tmp_path / "t"

    def file(name, day, first_id, count, **fields):
        bounds = {"minValues": {"id": first_id}, "maxValues": {"id": first_id + count - 1}}
        stats = {"numRecords": count, **bounds, "nullCount": {"id": 0}, "tightBounds": False}
        add = write_numbered_file(table, name, first_id, count)
        return {**add, "partitionValues": {"day": day}, "stats": json.dumps(stats), **fields}

    adds = [
        file("1.parquet", "a", 0, 5, deletionVector=inline_vector([0, 4])),
        file("2.parquet", "a", 10, 5, deletionVector=inline_vector([1])),
        file("3.parquet", "b", 20, 2),
    ]
    write_foreign_table(
        table,
        schema_json(("id", "long"), ("day", "string")),
        adds,
        ("day",),
        features=("deletionVectors",),
        configuration={"delta.enableDeletionVectors": "true", "delta.checkpointInterval": "2"},
    )
    return table


REMAINING_IDS = [1, 2, 3, 10, 12, 13, 14, 20, 21]


def test_soft_deleted_rows_stay_deleted_after_each_kind_of_write(spark, table_with_deleted_rows):
    table = table_with_deleted_rows
    assert ids(table) == REMAINING_IDS
    write_rows(spark, table, values("id, day", "30, 'a'"))
    write_rows(spark, table, values("id, day", "2, 'a'"), mode="overwrite", replace_where="id = 2 OR id = 4")
    actions = actions_of(table, 2)
    (remove,) = actions["remove"]
    assert remove["path"] == "1.parquet" and remove["deletionVector"] == inline_vector([0, 4])
    assert actions["commitInfo"]["operationMetrics"]["numDeletedRows"] == "1"
    assert ids(table) == [*REMAINING_IDS, 30] == ids_by_delta_rs(table)
    assert sorted(row[0] for row in spark_rows(spark, table)) == [*REMAINING_IDS, 30]
    write_rows(spark, table, values("id, day", "40, 'a'"), mode="overwrite", partition_overwrite="dynamic")
    removed_vectors = {remove["path"]: remove.get("deletionVector") for remove in actions_of(table, 3)["remove"]}
    assert removed_vectors["2.parquet"] == inline_vector([1])
    assert ids(table) == [20, 21, 40]
    write_rows(spark, table, values("id, day", "50, 'c'"), mode="overwrite")
    assert ids(table) == [50] and ids(table, version=0) == REMAINING_IDS


def test_a_write_without_data_change_drops_deletion_vectors_and_keeps_the_remaining_rows(
    spark, table_with_deleted_rows
):
    table = table_with_deleted_rows
    query = "SELECT * FROM source WHERE day = 'a'"
    sources = {"source": Source(format="delta", path=str(table))}
    write_rows(spark, table, query, mode="overwrite", replace_where="day = 'a'", data_change=False, sources=sources)
    assert ids(table) == REMAINING_IDS and len(actions_of(table, 1)["remove"]) == 2
    assert not any("deletionVector" in add for add in actions_of(table, 1)["add"])


def test_features_are_enabled_by_properties_of_a_new_table(spark, tmp_path):
    table = tmp_path / "t"
    properties = {
        "delta.enableDeletionVectors": "true",
        "delta.enableInCommitTimestamps": "true",
        "delta.feature.vacuumProtocolCheck": "supported",
        "delta.minReaderVersion": "3",
        "delta.minWriterVersion": "7",
        "mine": "x",
    }
    first_result = write_rows(spark, table, values("id", "1"), properties=properties)
    creation_actions = actions_of(table, 0)
    assert creation_actions["protocol"] == {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors", "vacuumProtocolCheck"],
        "writerFeatures": ["appendOnly", "deletionVectors", "inCommitTimestamp", "invariants", "vacuumProtocolCheck"],
    }
    protocol_keys = ("delta.feature", "delta.min")
    expected_configuration = {key: text for key, text in properties.items() if not key.startswith(protocol_keys)}
    assert creation_actions["metaData"]["configuration"] == expected_configuration
    assert creation_actions["commitInfo"]["inCommitTimestamp"] == first_result.timestamp
    second_result = write_rows(spark, table, values("id", "2"), properties=properties)
    second_info = actions_of(table, 1)["commitInfo"]
    assert second_info["inCommitTimestamp"] == second_result.timestamp > first_result.timestamp
    first_time, second_time = time_of(first_result.timestamp), time_of(second_result.timestamp)
    assert ids(table, timestamp=first_time) == [1]
    assert ids(table, timestamp=second_time) == [1, 2]
    times_by_version = {commit["version"]: commit["timestamp"] for commit in DeltaTable(str(table)).history()}
    assert times_by_version == {0: first_time, 1: second_time}


def test_overwrite_schema_enables_in_commit_timestamps(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, values("id", "1"))
    timestamps = {"delta.enableInCommitTimestamps": "true"}
    write_rows(spark, table, values("id", "2"), properties=timestamps)  # An append does not change any property.
    assert "inCommitTimestamp" not in actions_of(table, 1)["commitInfo"]
    result = write_rows(spark, table, values("id", "3"), mode="overwrite", overwrite_schema=True, properties=timestamps)
    configuration = actions_of(table, 2)["metaData"]["configuration"]
    assert configuration["delta.inCommitTimestampEnablementVersion"] == "2"
    assert configuration["delta.inCommitTimestampEnablementTimestamp"] == str(result.timestamp)
    assert actions_of(table, 2)["protocol"]["writerFeatures"] == ["appendOnly", "inCommitTimestamp", "invariants"]
    write_rows(spark, table, values("id, x", "4, 5"), mode="overwrite", overwrite_schema=True)
    assert actions_of(table, 3)["metaData"]["configuration"] == configuration
    assert ids(table, timestamp=time_of(result.timestamp)) == [3]
    assert ids(table, timestamp=time_of(result.timestamp - 1)) == [1, 2]


@pytest.mark.sample("name")
@pytest.mark.parametrize("mode", ["none", "name"])
def test_the_change_feed_has_every_inserted_and_deleted_row(spark, tmp_path, mode):
    table = tmp_path / "t"
    properties = {"delta.enableChangeDataFeed": "true", "delta.columnMapping.mode": mode}
    write_rows(
        spark, table, values("id, day", "1, 'a'", "2, 'a'", "3, 'b'"), partition_by=("day",), properties=properties
    )
    write_rows(spark, table, values("id, day", "4, 'a'"))
    result = write_rows(
        spark, table, values("id, day", "2, 'c'", "30, 'a'"), mode="overwrite", replace_where="id = 2 OR id >= 4"
    )
    assert result.metrics["numAddedChangeFiles"] == len(change_files_of(table, 2)) > 0
    write_rows(spark, table, values("id, day", "9, 'b'"), mode="overwrite", replace_where="id >= 9")
    write_rows(spark, table, values("id, day", "5, 'a'"), mode="overwrite", partition_overwrite="dynamic")
    write_rows(spark, table, values("id, day", "6, 'z'"), mode="overwrite")
    assert [version for version in range(6) if change_files_of(table, version)] == [2, 3]
    batches = DeltaTable(str(table)).changes(from_version=0, to_version=5)
    actual_changes = sorted_changes(row for batch in batches for row in batch.to_pylist())
    assert actual_changes == [
        (0, "insert", 1, "a"), (0, "insert", 2, "a"), (0, "insert", 3, "b"),
        (1, "insert", 4, "a"),
        (2, "delete", 2, "a"), (2, "delete", 4, "a"), (2, "insert", 2, "c"), (2, "insert", 30, "a"),
        (3, "delete", 30, "a"), (3, "insert", 9, "b"),
        (4, "delete", 1, "a"), (4, "insert", 5, "a"),
        (5, "delete", 2, "c"), (5, "delete", 3, "b"), (5, "delete", 5, "a"), (5, "delete", 9, "b"),
        (5, "insert", 6, "z"),
    ]  # fmt: skip
    if mode == "none":
        feed = DeltaRsTable(str(table)).load_cdf(starting_version=0, ending_version=5)
        assert sorted_changes(pa.table(feed.read_all()).to_pylist()) == actual_changes


def sorted_changes(feed_rows):
    """(version, change type, id, day) of each row of a change feed."""
    return sorted((row["_commit_version"], row["_change_type"], row["id"], row["day"]) for row in feed_rows)


def change_files_of(table, version):
    """The `cdc` actions of a version."""
    change_files = actions_of(table, version).get("cdc", [])
    assert all(file["path"].startswith("_change_data/") and file["dataChange"] is False for file in change_files)
    return change_files


def test_a_table_with_a_change_feed_cannot_have_the_columns_of_the_feed(spark, tmp_path):
    feed_property = {"delta.enableChangeDataFeed": "true"}
    with pytest.raises(SchemaMismatchError, match="_Change_type"):
        write_rows(spark, tmp_path / "t", "SELECT 1 AS id, 'x' AS _Change_type", properties=feed_property)
    write_rows(spark, tmp_path / "t", "SELECT 1 AS id", properties=feed_property)
    content_before = folder_content(tmp_path / "t")
    with pytest.raises(SchemaMismatchError, match="_commit_version"):
        write_rows(spark, tmp_path / "t", "SELECT 1 AS id, 5 AS _commit_version", merge_schema=True)
    assert folder_content(tmp_path / "t") == content_before


def test_writes_keep_the_clustering_of_a_table(spark, tmp_path):
    table = tmp_path / "t"
    names = [f"c{n}" for n in range(34)]
    write_foreign_table(table, schema_json(*((n, "integer") for n in names)), [])
    log = table / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    features = ["appendOnly", "clustering", "domainMetadata", "invariants"]
    lines[0] = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features}}
    clustering = {"clusteringColumns": [["c33"]], "domainName": "delta.clustering"}
    lines.append(
        {"domainMetadata": {"domain": "delta.clustering", "configuration": json.dumps(clustering), "removed": False}}
    )
    lines.append({"domainMetadata": {"domain": "mine", "configuration": "x", "removed": False}})
    log.write_text("\n".join(map(json.dumps, lines)))
    row = ", ".join(f"{n} AS c{n}" for n in range(34))
    write_rows(spark, table, f"SELECT {row}")
    stats = json.loads(actions_of(table, 1)["add"][0]["stats"])
    assert stats["minValues"]["c33"] == 33 and "c32" not in stats["minValues"] and len(stats["minValues"]) == 33
    content_before = folder_content(table)
    with pytest.raises(SchemaMismatchError, match="clustered by c33"):
        write_rows(spark, table, "SELECT 1 AS c0", mode="overwrite", overwrite_schema=True)
    with pytest.raises(SchemaMismatchError, match="cannot be partitioned by c0"):
        write_rows(
            spark, table, "SELECT 1 AS c0, 2 AS c33", mode="overwrite", overwrite_schema=True, partition_by=("c0",)
        )
    assert folder_content(table) == content_before
    write_rows(spark, table, "SELECT 'x' AS c0, 2 AS c33", mode="overwrite", overwrite_schema=True)
    assert "domainMetadata" not in actions_of(table, 2) and rows(table) == [("x", 2)]
    assert sorted(Snapshot.load(open_store(str(table))).domains) == ["delta.clustering", "mine"]


@pytest.mark.parametrize(
    ("properties", "error", "problem"),
    [
        ({"delta.enableRowTracking": "true", "delta.rowTrackingSuspended": "true"}, InvalidRequestError, "both true"),
        ({"delta.feature.catalogManaged": "supported"}, UnsupportedFeatureError, "catalogManaged"),
        ({"delta.feature.somethingNew": "supported"}, InvalidRequestError, "somethingNew"),
        ({"delta.minReaderVersion": "9"}, InvalidRequestError, "minReaderVersion"),
        ({"delta.enableEverything": "true"}, InvalidRequestError, "enableEverything"),
        ({"delta.inCommitTimestampEnablementVersion": "0"}, InvalidRequestError, "EnablementVersion"),
    ],
)
def test_the_error_names_an_invalid_property_or_feature_and_no_file_is_written(
    spark, tmp_path, properties, error, problem
):
    with pytest.raises(error, match=problem):
        write_rows(spark, tmp_path / "t", values("id", "1"), properties=properties)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("key", ["delta.enableInCommitTimestamps", "delta.columnMapping.mode"])
def test_an_overwrite_of_the_schema_activates_a_property_that_the_old_protocol_ignored(spark, tmp_path, key):
    table = tmp_path / "t"
    configuration = {key: "name" if "mode" in key else "true"}
    write_foreign_table(
        table, schema_json(("id", "long")), [write_numbered_file(table, "1.parquet", 0, 2)], configuration=configuration
    )
    write_rows(spark, table, "SELECT id FROM range(5)", mode="overwrite", overwrite_schema=True)
    assert ids(table) == [0, 1, 2, 3, 4]
    metadata = actions_of(table, 1)["metaData"]
    if "mode" in key:
        assert "delta.columnMapping.physicalName" in metadata["schemaString"]
    else:
        enablement_ms = int(metadata["configuration"]["delta.inCommitTimestampEnablementTimestamp"])
        assert metadata["configuration"]["delta.inCommitTimestampEnablementVersion"] == "1"
        assert DeltaTable(str(table), timestamp=time_of(enablement_ms)).version == 1
