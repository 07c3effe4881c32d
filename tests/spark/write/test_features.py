"""Writes in every mode to tables with deletion vectors, a change data feed, clustering and in-commit timestamps."""

from __future__ import annotations

import datetime as dt
import json

import pyarrow as pa
import pytest
from deltalake import DeltaTable as OtherTable
from deltalake import QueryBuilder

from deltalite import DeltaTable
from deltalite.errors import InvalidRequestError, SchemaMismatchError, UnsupportedFeatureError
from tests.support.tables import (
    commit,
    everything,
    hand_made,
    numbered,
    rows,
    schema_json,
    spark_rows,
    values,
    write_rows,
)
from tests.support.vectors import inline

pytestmark = pytest.mark.spark


def ids(table, **at):
    return sorted(r[0] for r in rows(table, **at))


def moment(ms):
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=ms)


def theirs(table):
    query = QueryBuilder().register("t", OtherTable(str(table)))
    return sorted(tuple(r.values()) for r in pa.table(query.execute("SELECT * FROM t").read_all()).to_pylist())


@pytest.fixture
def marked(tmp_path):
    """Three files, two of them with deleted rows, in two partitions."""
    table = tmp_path / "t"
    bounds = lambda first, count: {"minValues": {"id": first}, "maxValues": {"id": first + count - 1}}
    stats = lambda *of: json.dumps({"numRecords": of[1], **bounds(*of), "nullCount": {"id": 0}, "tightBounds": False})
    adds = [
        numbered(table, "1.parquet", 0, 5) | {"deletionVector": inline([0, 4]), "stats": stats(0, 5)},
        numbered(table, "2.parquet", 10, 5) | {"deletionVector": inline([1]), "stats": stats(10, 5)},
        numbered(table, "3.parquet", 20, 2) | {"stats": stats(20, 2)},
    ]
    adds = [a | {"partitionValues": {"day": day}} for a, day in zip(adds, "aab", strict=True)]
    hand_made(table, schema_json(("id", "long"), ("day", "string")), adds, ("day",), features=("deletionVectors",),
              configuration={"delta.enableDeletionVectors": "true", "delta.checkpointInterval": "2"})  # fmt: skip
    return table


LIVE = [1, 2, 3, 10, 12, 13, 14, 20, 21]


def test_soft_deleted_rows_stay_deleted_after_each_kind_of_write(spark, marked):
    assert ids(marked) == LIVE
    write_rows(spark, marked, values("id, day", "30, 'a'"))
    write_rows(spark, marked, values("id, day", "2, 'a'"), mode="overwrite", replace_where="id = 2 OR id = 4")
    first = commit(marked, 2)
    (gone,) = first["remove"]
    assert gone["path"] == "1.parquet" and gone["deletionVector"] == inline([0, 4])
    assert first["commitInfo"]["operationMetrics"]["numDeletedRows"] == "1"
    assert ids(marked) == [*LIVE, 30] == sorted(r[0] for r in theirs(marked))
    assert sorted(r[0] for r in spark_rows(spark, marked)) == [*LIVE, 30]
    write_rows(spark, marked, values("id, day", "40, 'a'"), mode="overwrite", partition_overwrite="dynamic")
    assert {a["path"]: a.get("deletionVector") for a in commit(marked, 3)["remove"]}["2.parquet"] == inline([1])
    assert ids(marked) == [20, 21, 40]
    write_rows(spark, marked, values("id, day", "50, 'c'"), mode="overwrite")
    assert ids(marked) == [50] and (ids(marked, version=0)) == LIVE


def test_only_live_rows_are_rearranged(spark, marked):
    query = "SELECT * FROM source WHERE day = 'a'"
    from deltalite.requests import Source

    sources = {"source": Source(format="delta", path=str(marked))}
    write_rows(spark, marked, query, mode="overwrite", replace_where="day = 'a'", data_change=False, sources=sources)
    assert ids(marked) == LIVE and len(commit(marked, 1)["remove"]) == 2
    assert not any("deletionVector" in a for a in commit(marked, 1)["add"])


def test_features_are_enabled_by_properties_of_a_new_table(spark, tmp_path):
    table = tmp_path / "t"
    asked = {
        "delta.enableDeletionVectors": "true",
        "delta.enableInCommitTimestamps": "true",
        "delta.feature.vacuumProtocolCheck": "supported",
        "delta.minReaderVersion": "3",
        "delta.minWriterVersion": "7",
        "mine": "x",
    }
    made = write_rows(spark, table, values("id", "1"), properties=asked)
    first = commit(table, 0)
    readers = ["deletionVectors", "vacuumProtocolCheck"]
    assert first["protocol"] == {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": readers,
        "writerFeatures": ["appendOnly", "deletionVectors", "inCommitTimestamp", "invariants", "vacuumProtocolCheck"],
    }
    stored = {k: v for k, v in asked.items() if not k.startswith(("delta.feature", "delta.min"))}
    assert first["metaData"]["configuration"] == stored
    assert first["commitInfo"]["inCommitTimestamp"] == made.timestamp
    later = write_rows(spark, table, values("id", "2"), properties=asked)
    assert commit(table, 1)["commitInfo"]["inCommitTimestamp"] == later.timestamp > made.timestamp
    assert ids(table, timestamp=moment(made.timestamp)) == [1] and ids(table, timestamp=moment(later.timestamp)) == [
        1,
        2,
    ]
    times_by_version = {entry["version"]: entry["timestamp"] for entry in DeltaTable(str(table)).history()}
    assert times_by_version == {0: moment(made.timestamp), 1: moment(later.timestamp)}


def test_overwrite_schema_enables_in_commit_timestamps(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, values("id", "1"))
    on = {"delta.enableInCommitTimestamps": "true"}
    write_rows(spark, table, values("id", "2"), properties=on)  # an append does not change the table's properties
    assert "inCommitTimestamp" not in commit(table, 1)["commitInfo"]
    done = write_rows(spark, table, values("id", "3"), mode="overwrite", overwrite_schema=True, properties=on)
    configuration = commit(table, 2)["metaData"]["configuration"]
    assert configuration["delta.inCommitTimestampEnablementVersion"] == "2"
    assert configuration["delta.inCommitTimestampEnablementTimestamp"] == str(done.timestamp)
    assert commit(table, 2)["protocol"]["writerFeatures"] == ["appendOnly", "inCommitTimestamp", "invariants"]
    write_rows(spark, table, values("id, x", "4, 5"), mode="overwrite", overwrite_schema=True)
    assert commit(table, 3)["metaData"]["configuration"] == configuration
    assert ids(table, timestamp=moment(done.timestamp)) == [3] and (
        ids(table, timestamp=moment(done.timestamp - 1))
    ) == [1, 2]


@pytest.mark.parametrize("mode", ["none", "name"])
def test_the_change_feed_has_every_inserted_and_deleted_row(spark, tmp_path, mode):
    table = tmp_path / "t"
    properties = {"delta.enableChangeDataFeed": "true", "delta.columnMapping.mode": mode}
    write_rows(
        spark, table, values("id, day", "1, 'a'", "2, 'a'", "3, 'b'"), partition_by=("day",), properties=properties
    )
    write_rows(spark, table, values("id, day", "4, 'a'"))
    done = write_rows(
        spark, table, values("id, day", "2, 'c'", "30, 'a'"), mode="overwrite", replace_where="id = 2 OR id >= 4"
    )
    assert done.metrics["numAddedChangeFiles"] == len(changes_in(table, 2)) > 0
    write_rows(spark, table, values("id, day", "9, 'b'"), mode="overwrite", replace_where="id >= 9")
    write_rows(spark, table, values("id, day", "5, 'a'"), mode="overwrite", partition_overwrite="dynamic")
    write_rows(spark, table, values("id, day", "6, 'z'"), mode="overwrite")
    assert {v: bool(changes_in(table, v)) for v in range(6)} == {
        0: False,
        1: False,
        2: True,
        3: True,
        4: False,
        5: False,
    }
    feed = DeltaTable(str(table)).changes(from_version=0, to_version=5)
    actual_rows = sorted(
        (r["_commit_version"], r["_change_type"], r["id"], r["day"]) for batch in feed for r in batch.to_pylist()
    )
    assert actual_rows == [
        (0, "insert", 1, "a"), (0, "insert", 2, "a"), (0, "insert", 3, "b"),
        (1, "insert", 4, "a"),
        (2, "delete", 2, "a"), (2, "delete", 4, "a"), (2, "insert", 2, "c"), (2, "insert", 30, "a"),
        (3, "delete", 30, "a"), (3, "insert", 9, "b"),
        (4, "delete", 1, "a"), (4, "insert", 5, "a"),
        (5, "delete", 2, "c"), (5, "delete", 3, "b"), (5, "delete", 5, "a"), (5, "delete", 9, "b"),
        (5, "insert", 6, "z"),
    ]  # fmt: skip
    if mode == "none":
        theirs = pa.table(OtherTable(str(table)).load_cdf(starting_version=0, ending_version=5).read_all()).to_pylist()
        assert sorted((r["_commit_version"], r["_change_type"], r["id"], r["day"]) for r in theirs) == actual_rows


def changes_in(table, version):
    text = (table / "_delta_log" / f"{version:020}.json").read_text()
    change_files = [json.loads(line)["cdc"] for line in text.splitlines() if line.startswith('{"cdc"')]
    assert all(c["path"].startswith("_change_data/") and c["dataChange"] is False for c in change_files)
    return change_files


def test_a_table_with_a_change_feed_cannot_have_the_columns_of_the_feed(spark, tmp_path):
    feed = {"delta.enableChangeDataFeed": "true"}
    with pytest.raises(SchemaMismatchError, match="_Change_type"):
        write_rows(spark, tmp_path / "t", "SELECT 1 AS id, 'x' AS _Change_type", properties=feed)
    write_rows(spark, tmp_path / "t", "SELECT 1 AS id", properties=feed)
    before = everything(tmp_path / "t")
    with pytest.raises(SchemaMismatchError, match="_commit_version"):
        write_rows(spark, tmp_path / "t", "SELECT 1 AS id, 5 AS _commit_version", merge_schema=True)
    assert everything(tmp_path / "t") == before


def test_writes_keep_the_clustering_of_a_table(spark, tmp_path):
    table = tmp_path / "t"
    names = [f"c{n}" for n in range(34)]
    hand_made(table, schema_json(*((n, "integer") for n in names)), [])
    log = table / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    features = ["appendOnly", "clustering", "domainMetadata", "invariants"]
    lines[0] = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features}}
    kept = {"clusteringColumns": [["c33"]], "domainName": "delta.clustering"}
    lines.append(
        {"domainMetadata": {"domain": "delta.clustering", "configuration": json.dumps(kept), "removed": False}}
    )
    lines.append({"domainMetadata": {"domain": "mine", "configuration": "x", "removed": False}})
    log.write_text("\n".join(map(json.dumps, lines)))
    row = ", ".join(f"{n} AS c{n}" for n in range(34))
    write_rows(spark, table, f"SELECT {row}")
    stats = json.loads(commit(table, 1)["add"][0]["stats"])
    assert stats["minValues"]["c33"] == 33 and "c32" not in stats["minValues"] and len(stats["minValues"]) == 33
    before = everything(table)
    with pytest.raises(SchemaMismatchError, match="clustered by c33"):
        write_rows(spark, table, "SELECT 1 AS c0", mode="overwrite", overwrite_schema=True)
    with pytest.raises(SchemaMismatchError, match="cannot be partitioned by c0"):
        write_rows(
            spark, table, "SELECT 1 AS c0, 2 AS c33", mode="overwrite", overwrite_schema=True, partition_by=("c0",)
        )
    assert everything(table) == before
    write_rows(spark, table, "SELECT 'x' AS c0, 2 AS c33", mode="overwrite", overwrite_schema=True)
    assert "domainMetadata" not in commit(table, 2) and rows(table) == [("x", 2)]
    from deltalite.snapshot import Snapshot
    from deltalite.storage.opening import open_store

    assert sorted(Snapshot.load(open_store(str(table))).domains) == ["delta.clustering", "mine"]


@pytest.mark.parametrize(
    ("properties", "error", "words"),
    [
        ({"delta.enableRowTracking": "true", "delta.rowTrackingSuspended": "true"}, InvalidRequestError, "both true"),
        ({"delta.feature.catalogManaged": "supported"}, UnsupportedFeatureError, "catalogManaged"),
        ({"delta.feature.somethingNew": "supported"}, InvalidRequestError, "somethingNew"),
        ({"delta.minReaderVersion": "9"}, InvalidRequestError, "minReaderVersion"),
        ({"delta.enableEverything": "true"}, InvalidRequestError, "enableEverything"),
        ({"delta.inCommitTimestampEnablementVersion": "0"}, InvalidRequestError, "EnablementVersion"),
    ],
)
def test_an_unwritable_feature_is_rejected_by_name_before_any_file(spark, tmp_path, properties, error, words):
    with pytest.raises(error, match=words):
        write_rows(spark, tmp_path / "t", values("id", "1"), properties=properties)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("asleep", ["delta.enableInCommitTimestamps", "delta.columnMapping.mode"])
def test_a_property_that_takes_effect_with_a_new_protocol_changes_the_metadata(spark, tmp_path, asleep):
    table = tmp_path / "t"
    asked = {asleep: "name" if "mode" in asleep else "true"}
    hand_made(table, schema_json(("id", "long")), [numbered(table, "1.parquet", 0, 2)], configuration=asked)
    write_rows(spark, table, "SELECT id FROM range(5)", mode="overwrite", overwrite_schema=True)
    assert ids(table) == [0, 1, 2, 3, 4]
    (changed,) = [commit(table, 1)["metaData"]]
    if "mode" in asleep:
        assert "delta.columnMapping.physicalName" in changed["schemaString"]
    else:
        time_ms = int(changed["configuration"]["delta.inCommitTimestampEnablementTimestamp"])
        assert changed["configuration"]["delta.inCommitTimestampEnablementVersion"] == "1"
        assert DeltaTable(str(table), timestamp=moment(time_ms)).version == 1
