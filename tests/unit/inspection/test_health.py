"""The measures of a table come from its log: small files, soft-deleted rows, commits, removed files and vacuums."""

from __future__ import annotations

import json

import pytest

from deltalite.inspection.health import read_health
from deltalite.inspection.last_vacuum import LastVacuum, find_last_vacuum
from deltalite.protocol.actions import CommitInfo, DomainMetadata, Protocol
from deltalite.protocol.clustering import clustering_domain
from deltalite.protocol.file_names import LAST_VACUUM
from deltalite.protocol.properties import DAY_MS
from deltalite.requests import Thresholds
from deltalite.snapshot import Snapshot
from tests.unit.builders import NOON_MS, PROTOCOL, RequestLog, add, metadata, new_store, put_raw, remove

TARGET = {"delta.targetFileSize": "1000", "delta.deletedFileRetentionDuration": "interval 7 days"}
VECTORS = Protocol(
    min_reader_version=3, min_writer_version=7, reader_features=("deletionVectors",),
    writer_features=("deletionVectors",),
)  # fmt: skip
CLUSTERED = Protocol(min_reader_version=1, min_writer_version=7, writer_features=("clustering", "domainMetadata"))


def stats(count):
    return json.dumps({"numRecords": count})


def info(operation, **parameters):
    return CommitInfo(values={"operation": operation, "operationParameters": parameters})


def health(store, *, now_ms=NOON_MS + DAY_MS, **thresholds):
    return read_health(Snapshot.load(store), Thresholds(**thresholds), now_ms=now_ms)


def table(*actions, protocol=PROTOCOL, configuration=None, **changes):
    """A store with a table whose version 0 has these actions."""
    store = new_store()
    table_metadata = metadata({**TARGET, **(configuration or {})}, created_time_ms=NOON_MS, **changes)
    put_raw(store, 0, [protocol, table_metadata, *actions])
    return store


def test_small_files_are_counted_and_the_optimize_is_predicted_by_partition():
    small_files = [
        add(f"{day}-{n}", size_bytes=100, partition_values={"day": day}) for day in ("a", "b") for n in (1, 2)
    ]
    store = table(*small_files, add("large", size_bytes=750, partition_values={"day": "a"}),
                  add("single", size_bytes=10, partition_values={"day": "c"}), partition_columns=("day",))  # fmt: skip
    measured = health(store)
    assert (measured.files, measured.size_bytes, measured.small_files, measured.small_bytes) == (6, 1160, 5, 410)
    assert (measured.files_to_rewrite, measured.bytes_to_rewrite, measured.new_files) == (4, 400, 2)
    assert health(store, target_file_size=100).files_to_rewrite == 0, "the task's target size comes first"


def test_files_that_an_optimize_packed_before_are_not_predicted_again():
    tags = {"OPTIMIZE_TARGET_SIZE": "1000"}
    measured = health(table(*(add(f"f{n}", size_bytes=100, tags=tags) for n in range(3))))
    assert (measured.small_files, measured.files_to_rewrite) == (3, 0)


def test_a_clustered_table_is_predicted_by_its_cubes():
    domain = clustering_domain([["id"]])
    assert isinstance(domain, DomainMetadata)
    cube = {"ZCUBE_ID": "1", "ZCUBE_ZORDER_BY": '["id"]', "ZCUBE_ZORDER_CURVE": "hilbert"}
    clustered = add("old", size_bytes=900, tags=cube, clustering_provider="liquid")
    assert health(table(domain, clustered, protocol=CLUSTERED)).files_to_rewrite == 0
    assert health(table(domain, clustered, add("new", size_bytes=800), protocol=CLUSTERED)).files_to_rewrite == 1


def test_soft_deleted_rows_are_a_share_of_all_rows():
    vector = {"storageType": "u", "pathOrInlineDv": "ab" * 10, "offset": 1, "sizeInBytes": 5, "cardinality": 3}
    store = table(
        add("f", size_bytes=900, stats=stats(10), deletion_vector=vector), add("g", size_bytes=900, stats=stats(20)),
        protocol=VECTORS,
    )  # fmt: skip
    measured = health(store)
    assert (measured.rows, measured.deleted_rows, measured.files_to_rewrite) == (30, 3, 1)
    assert measured.deleted_rows_ratio == 0.1
    put_raw(store, 1, [add("h", size_bytes=900)])
    assert (health(store).rows, health(store).deleted_rows_ratio) == (None, 0.0)


def test_removed_files_are_dead_after_the_retention_unless_a_vacuum_deleted_them_or_a_version_uses_them():
    store = table(add("a", size_bytes=10), add("b", size_bytes=20), add("c", size_bytes=40))
    put_raw(store, 1, [remove("a", size_bytes=10, deletion_timestamp_ms=NOON_MS)])
    put_raw(store, 2, [remove("b", size_bytes=20, deletion_timestamp_ms=NOON_MS + 5 * DAY_MS)])
    put_raw(store, 3, [remove("c", size_bytes=40), add("c", size_bytes=40)])
    after_8_days = health(store, now_ms=NOON_MS + 8 * DAY_MS)
    assert (after_8_days.dead_files, after_8_days.dead_bytes, after_8_days.retained_bytes) == (1, 10, 20)
    assert after_8_days.age_days == 8.0
    store._clock_ms.now_ms = NOON_MS + 8 * DAY_MS
    put_raw(store, 4, [info("VACUUM END", status="COMPLETED")])
    assert health(store, now_ms=NOON_MS + 9 * DAY_MS).dead_files == 0
    after_20_days = health(store, now_ms=NOON_MS + 20 * DAY_MS)
    assert (after_20_days.dead_bytes, after_20_days.retained_bytes) == (20, 0)
    assert after_20_days.days_since_vacuum == pytest.approx(12, abs=0.01)
    assert after_20_days.commits_since_vacuum == 0


def test_the_last_vacuum_is_a_completed_one_of_any_engine():
    store = table(add("a"))
    assert find_last_vacuum(Snapshot.load(store)) is None
    put_raw(store, 1, [info("VACUUM END", status='"COMPLETED"')])  # as delta-spark writes it
    put_raw(store, 2, [info("VACUUM START")])
    put_raw(store, 3, [info("VACUUM END", status="FAILED")])
    vacuum = find_last_vacuum(Snapshot.load(store))
    assert vacuum is not None and vacuum.version == 1
    assert health(store).commits_since_vacuum == 2


def test_the_time_of_a_vacuum_is_its_in_commit_timestamp():
    protocol = Protocol(min_reader_version=1, min_writer_version=7, writer_features=("inCommitTimestamp",))
    store = table(add("a"), protocol=protocol, configuration={"delta.enableInCommitTimestamps": "true"})
    put_raw(store, 1, [CommitInfo(values={"operation": "WRITE"})])
    values = info("VACUUM END", status="COMPLETED").values
    put_raw(store, 2, [CommitInfo(values={**values, "inCommitTimestamp": NOON_MS - DAY_MS})])
    assert find_last_vacuum(Snapshot.load(store)) == LastVacuum(time_ms=NOON_MS - DAY_MS, version=2)
    assert health(store).days_since_vacuum == 2.0


def test_a_second_measure_reads_only_the_new_commits_to_find_the_last_vacuum():
    store = table(add("a"))
    put_raw(store, 1, [info("VACUUM END", status="COMPLETED")])
    first = health(store)
    put_raw(store, 2, [add("b")])
    snapshot, requests = Snapshot.load(store), RequestLog(store)
    second = read_health(snapshot, Thresholds(), now_ms=NOON_MS + DAY_MS, earlier=first)
    assert [name for operation, name in requests.accesses if operation == "read"] == [f"{2:020}.json"]
    assert (second.last_vacuum, second.commits_since_vacuum) == (first.last_vacuum, 1)
    put_raw(store, 3, [info("VACUUM END", status="COMPLETED")])
    third = read_health(Snapshot.load(store), Thresholds(), now_ms=NOON_MS + DAY_MS, earlier=second)
    assert third.commits_since_vacuum == 0
    recreated = read_health(Snapshot.load(table(add("a"))), Thresholds(), now_ms=NOON_MS + DAY_MS, earlier=third)
    assert recreated.last_vacuum is None


def test_last_vacuum_info_gives_the_time_if_the_newest_commits_have_no_vacuum():
    store = table(add("a"))
    store.write(LAST_VACUUM, b"{}")
    vacuum = find_last_vacuum(Snapshot.load(store))
    assert vacuum is not None and (vacuum.version, vacuum.time_ms > NOON_MS) == (None, True)


def test_an_empty_table_has_measures_too():
    measured = health(table())
    assert (measured.files, measured.rows, measured.files_to_rewrite, measured.dead_bytes) == (0, 0, 0, 0)
    assert measured.deleted_rows_ratio == 0.0


def test_commits_since_the_checkpoint_are_all_commits_without_one():
    store = table(add("a"), configuration={"delta.checkpointInterval": "3"})
    put_raw(store, 1, [add("b")])
    measured = health(store)
    assert (measured.version, measured.commits_since_checkpoint, measured.checkpoint_interval) == (1, 2, 3)
