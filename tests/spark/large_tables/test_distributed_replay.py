"""Spark's replay of a log gives the same files and tombstones as the columnar replay."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import SparkRuntimeException

import deltalite.spark as delta
from deltalite.errors import CorruptLogError
from deltalite.protocol.actions import Protocol
from deltalite.protocol.file_names import checkpoint_name, commit_name, compaction_name
from deltalite.snapshot import Snapshot
from deltalite.spark.large_tables import distributed_replay
from deltalite.spark.large_tables.distributed_replay import replayed_files
from deltalite.spark.runtime.session import settings
from deltalite.storage.local import LocalLogStore
from deltalite.storage.opening import open_store
from deltalite.upkeep.checkpoint import write_checkpoint
from deltalite.upkeep.checksum import write_checksum
from tests.unit.builders import NOON_MS, add, commit_actions, create, load, metadata, remove, struct, vector

pytestmark = pytest.mark.usefixtures("one_task")

NTZ = Protocol(
    min_reader_version=3, min_writer_version=7, reader_features=("timestampNtz",), writer_features=("timestampNtz",)
)


def test_bounds_of_timestamps_keep_microseconds_if_a_checkpoint_has_only_structs(spark, tmp_path):
    store = LocalLogStore(str(tmp_path))
    properties = {"delta.checkpoint.writeStatsAsJson": "false"}
    commit_actions(store, NTZ, metadata(properties, struct(at="timestamp", local="timestamp_ntz")), read_version=-1)
    bounds = {"at": "2026-01-01T12:00:00.123456Z", "local": "2026-01-01T12:00:00.123456"}
    commit_actions(store, add("a", stats=json.dumps({"numRecords": 1, "minValues": bounds, "maxValues": bounds})))
    write_checkpoint(load(store), now_ms=NOON_MS)
    snapshot = load(store)
    with settings(spark, {"spark.sql.session.timeZone": "America/New_York"}):
        (replayed,) = replayed_files(spark, store, snapshot.segment).collect()
    assert snapshot.segment.checkpoint is not None
    assert json.loads(replayed["stats"])["maxValues"] == bounds
    assert json.loads(snapshot.files["stats"][0].as_py())["maxValues"] == bounds


def test_delta_files_returns_a_row_for_each_data_file_of_a_version(spark, golden):
    table = str(golden / "tables" / "delta-golden" / "v2-checkpoint-json")
    files = delta.files(spark, f"{table}@v1")
    assert files.columns[:4] == ["path", "partitionValues", "size", "modificationTime"]
    assert files.count() == Snapshot.load(open_store(table), 1).files.num_rows


@pytest.mark.campaign
def test_a_remove_matches_its_add_if_only_one_of_the_two_paths_names_the_host(spark, tmp_path):
    store = create(LocalLogStore(str(tmp_path)), add("file:///lake/a"), add("/lake/b"), add("file://localhost/lake/c"))
    commit_actions(store, remove("file://localhost/lake/a"), remove("file://localhost/lake/b"), remove("file:/lake/c"))
    snapshot = load(store)
    assert snapshot.files.num_rows == 0
    assert replayed_files(spark, store, snapshot.segment).count() == 0


def test_spark_does_not_use_a_compaction_that_was_never_reconciled(spark, tmp_path):
    store = create(LocalLogStore(str(tmp_path)), add("a"))
    for action in (remove("a"), add("b"), remove("b")):
        commit_actions(store, action)
    commits = [commit_name(version) for version in range(1, 4)]
    store.write(compaction_name(1, 3), b"".join(store.read(name) or b"" for name in commits))
    write_checksum(load(store))  # with a checksum, the library does not replay the log before Spark does
    snapshot = load(store)
    assert snapshot.segment.compactions
    assert replayed_files(spark, store, snapshot.segment).count() == 0
    store.delete(commits[0])
    with pytest.raises(CorruptLogError, match="was never reconciled"):
        replayed_files(spark, store, load(store).segment)


@pytest.mark.parametrize("max_broadcast_bytes", [distributed_replay._MAX_BROADCAST_BYTES, -1])
def test_an_action_replaces_the_checkpoint_row_that_has_its_path_and_vector(
    spark, tmp_path, monkeypatch, max_broadcast_bytes
):
    monkeypatch.setattr(distributed_replay, "_MAX_BROADCAST_BYTES", max_broadcast_bytes)
    old_vector, new_vector = vector("ab^-aqEH.-t@S}K{vb[*k^"), vector("cd^-aqEH.-t@S}K{vb[*k^", 4)
    files = [add(name) for name in ("kept", "removed", "soft-deleted")]
    store = create(
        LocalLogStore(str(tmp_path)), *files, *[add(f"{f.path}-v", deletion_vector=old_vector) for f in files]
    )
    write_checkpoint(load(store), now_ms=NOON_MS)
    commit_actions(
        store, remove("removed"), remove("removed-v", deletion_vector=old_vector), add("kept", size_bytes=99)
    )
    commit_actions(store, remove("soft-deleted"), add("soft-deleted", deletion_vector=new_vector))
    commit_actions(
        store, remove("soft-deleted-v", deletion_vector=old_vector), add("soft-deleted-v", deletion_vector=new_vector)
    )
    snapshot = load(store)
    assert snapshot.segment.checkpoint is not None
    with settings(spark, {"spark.sql.autoBroadcastJoinThreshold": str(max_broadcast_bytes)}):
        replayed = replayed_files(spark, store, snapshot.segment).collect()
    names = ["kept", "kept-v", "soft-deleted", "soft-deleted-v"]
    assert sorted(row["path"] for row in replayed) == sorted(snapshot.files["path"].to_pylist()) == names
    offsets = {row["path"]: row["deletionVector"] and row["deletionVector"]["offset"] for row in replayed}
    assert offsets == {"kept": None, "kept-v": None, "soft-deleted": 4, "soft-deleted-v": 4}
    assert {row["size"] for row in replayed if row["path"] == "kept"} == {99}


def test_spark_refuses_a_checkpoint_in_which_a_file_has_no_path(spark, tmp_path):
    store = create(LocalLogStore(str(tmp_path)), add("a"), add("b"))
    write_checkpoint(load(store), now_ms=NOON_MS)
    checkpoint = tmp_path / checkpoint_name(0)
    rows = pq.read_table(checkpoint)
    bodies = rows["add"].to_pylist()
    bodies[-1]["path"] = None
    changed = rows.set_column(
        rows.schema.get_field_index("add"), "add", pa.array(bodies, rows.schema.field("add").type)
    )
    pq.write_table(changed, checkpoint)
    with pytest.raises(SparkRuntimeException, match="an action on a file without a path"):
        replayed_files(spark, store, load(store).segment).count()
