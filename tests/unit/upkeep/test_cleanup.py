"""Log cleanup: versions inside the retention stay readable, and expired files are deleted."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltalite.errors import StorageError
from deltalite.log.last_checkpoint import read_last_checkpoint
from deltalite.protocol.actions import Protocol
from deltalite.protocol.file_names import LAST_CHECKPOINT, SIDECAR_DIR, checkpoint_name, checksum_name, commit_name
from deltalite.protocol.properties import DAY_MS
from deltalite.snapshot import Snapshot
from deltalite.upkeep.checkpoint import write_checkpoint
from deltalite.upkeep.checksum import write_checksum
from deltalite.upkeep.cleanup import CleanupResult, clean_log, expired_names
from deltalite.upkeep.post_commit import after_commit
from tests.support.fuzzing import examples
from tests.unit.builders import (
    NOON_MS,
    add,
    append_files,
    commit_actions,
    commit_info,
    create,
    load,
    metadata,
    new_store,
    put_raw,
    remove,
)
from tests.unit.logs import state_of, uuid_name, write_compaction, write_parts, write_v2

MIDNIGHT_MS = NOON_MS - NOON_MS % DAY_MS
ONE_WEEK_RETENTION = {"delta.logRetentionDuration": "interval 7 days"}
V2_PROTOCOL = Protocol(
    min_reader_version=3, min_writer_version=7, reader_features=("v2Checkpoint",), writer_features=("v2Checkpoint",)
)


def set_commit_days(store, days):
    """Set the time of each commit to noon of its day in `days`; returns the store."""
    for version, day in enumerate(days):
        data, _ = store.files[commit_name(version)]
        store.files[commit_name(version)] = (data, MIDNIGHT_MS + day * DAY_MS + DAY_MS // 2)
    return store


def history(count, *, checkpoints=(), configuration=ONE_WEEK_RETENTION):
    """A table with one commit a day at noon, from day 0 on."""
    store = append_files(create(new_store(), configuration=configuration), count - 1)
    for version in checkpoints:
        write_checkpoint(load(store, version), now_ms=NOON_MS)
    return set_commit_days(store, range(count))


def clean(store, day, hour=13):
    return clean_log(load(store), now_ms=MIDNIGHT_MS + day * DAY_MS + hour * DAY_MS // 24)


def remaining_versions(store):
    return [v for v in range(40) if commit_name(v) in store.files]


@pytest.mark.parametrize(
    ("checkpoints", "day", "oldest_remaining"),
    [
        ([5], 20, 5),
        ([5, 10], 20, 10),
        ([5, 10], 17, 5),  # the cutoff is the midnight before commit 10
        ([5, 10], 18, 10),
        ([5, 10], 12, 0),  # commit 5 has not expired either
        ([12], 18, 0),  # no checkpoint is at or below the newest expired commit
        ([], 20, 0),
    ],
)
def test_files_before_the_newest_expired_checkpoint_are_deleted(checkpoints, day, oldest_remaining):
    store = history(14, checkpoints=checkpoints)
    expected = {v: state_of(load(store, v)) for v in range(14)}
    clean(store, day)
    assert remaining_versions(store) == list(range(oldest_remaining, 14))
    for version in range(oldest_remaining, 14):
        assert state_of(load(store, version)) == expected[version]
    assert [v for v in range(40) if checkpoint_name(v) in store.files] == [
        c for c in checkpoints if c >= oldest_remaining
    ]


def test_a_commit_exactly_at_midnight_has_expired():
    store = history(12, checkpoints=[5])
    data, _ = store.files[commit_name(5)]
    store.files[commit_name(5)] = (data, MIDNIGHT_MS + 5 * DAY_MS)
    clean(store, 12, hour=0)
    assert remaining_versions(store) == list(range(5, 12))


def test_checksums_compactions_and_parts_are_deleted_with_their_versions():
    store = history(14, checkpoints=[10])
    write_parts(store, 4, 2)
    expired = [write_compaction(store, 2, 3), write_compaction(store, 8, 9), write_compaction(store, 10, 11)]
    remaining_compaction = write_compaction(store, 11, 12)
    for version in (9, 10):
        write_checksum(load(store, version))
    clean(store, 20)
    assert not any(name in store.files for name in expired) and remaining_compaction in store.files
    assert checksum_name(9) not in store.files and checksum_name(10) in store.files
    assert not [name for name in store.files if "00000000000000000004" in name]


def test_files_that_are_not_log_files_stay():
    names = ["_delta_log/notes.txt", "_delta_log/00000000000000000001.json.bak", LAST_CHECKPOINT]
    assert expired_names([*names, commit_name(1), commit_name(2)], 2) == [commit_name(1)]


def test_the_oldest_kept_checkpoint_is_readable(caplog):
    store = history(14, checkpoints=[5, 10])
    store.files[checkpoint_name(10)] = (b"PAR1 broken PAR1", 0)
    clean(store, 20)
    assert remaining_versions(store) == list(range(5, 14))
    assert load(store).files.num_rows == 13


def test_the_oldest_kept_checkpoint_has_all_its_sidecars(caplog):
    store = v2_history()
    sidecars_of_5 = {row["sidecar"]["path"] for row in main_rows(store, 5) if row["sidecar"]}
    for name in sidecars(store) - {f"{SIDECAR_DIR}/{path}" for path in sidecars_of_5}:
        del store.files[name]
    clean(store, 20)
    assert remaining_versions(store) == list(range(5, 14))


def test_the_hint_never_names_a_deleted_checkpoint():
    store = history(14, checkpoints=[5, 10])
    store.files[LAST_CHECKPOINT] = (b'{"version":5,"size":9}', 0)
    clean(store, 20)
    assert read_last_checkpoint(store).version == 10


def test_in_commit_timestamps_take_precedence_over_file_times():
    protocol = Protocol(min_reader_version=1, min_writer_version=7, writer_features=("inCommitTimestamp",))
    store = new_store()
    configuration = {**ONE_WEEK_RETENTION, "delta.enableInCommitTimestamps": "true"}
    put_raw(store, 0, [commit_info(inCommitTimestamp=MIDNIGHT_MS), protocol, metadata(configuration)])
    for version in range(1, 12):
        put_raw(store, version, [commit_info(inCommitTimestamp=MIDNIGHT_MS + version * DAY_MS), add(f"f{version}")])
    write_checkpoint(load(store, 5), now_ms=NOON_MS)
    set_commit_days(store, [100] * 12)  # the files were copied long after the commits
    clean(store, 12)
    assert remaining_versions(store) == list(range(5, 12))


def test_an_interrupted_cleanup_leaves_every_version_that_it_should_keep():
    cleaned_store = history(14, checkpoints=[5, 10])
    files = dict(cleaned_store.files)
    expected = {v: state_of(load(cleaned_store, v)) for v in range(10, 14)}
    clean(cleaned_store, 20)
    for stop in range(len(files) - len(cleaned_store.files)):
        store = new_store()
        store.files.update(files)
        deletions = iter(range(1000))

        def fail_at_stop(operation, _name, stop=stop, deletions=deletions):
            if operation == "delete" and next(deletions) == stop:
                raise StorageError("No answer.", remedy="Try again.")

        store.before = fail_at_stop
        with pytest.raises(StorageError):
            clean(store, 20)
        store.before = lambda _operation, _name: None
        for version, expected_state in expected.items():
            assert state_of(load(store, version)) == expected_state
        assert remaining_versions(store) == list(range(min(remaining_versions(store)), 14))
        clean(store, 20)
        assert store.files == cleaned_store.files


def sidecars(store):
    return {name for name in store.files if name.startswith(SIDECAR_DIR)}


def main_rows(store, version):
    (name,) = [name for name in store.files if f"{version:020d}.checkpoint" in name]
    return pq.read_table(pa.BufferReader(store.files[name][0])).to_pylist()


def v2_history():
    store = new_store()
    commit_actions(
        store, V2_PROTOCOL, metadata({**ONE_WEEK_RETENTION, "delta.checkpointPolicy": "v2"}), read_version=-1
    )
    append_files(store, 13)
    for version in (5, 10):
        write_checkpoint(load(store, version), now_ms=NOON_MS)
    return set_commit_days(store, range(14))


def test_sidecars_older_than_a_day_are_deleted_with_their_last_checkpoint():
    store = v2_history()
    for name in sidecars(store):
        store.files[name] = (store.files[name][0], MIDNIGHT_MS)
    store.files[f"{SIDECAR_DIR}/in-the-making.parquet"] = (b"", MIDNIGHT_MS + 20 * DAY_MS)
    before = state_of(load(store))
    assert clean(store, 20).sidecars == 1
    assert len(sidecars(store)) == 2
    assert state_of(load(store)) == before


def test_no_sidecar_is_deleted_if_a_checkpoint_is_unreadable(caplog):
    store = v2_history()
    store.files[uuid_name(12, "parquet")] = (b"PAR1 broken PAR1", 0)
    before = sidecars(store)
    assert clean(store, 20).log_files > 0
    assert sidecars(store) == before and "cannot be read" in caplog.text
    classic = [name for name in store.files if name.endswith("checkpoint.parquet")]
    assert classic == [checkpoint_name(10)]  # cleanup writes a classic copy of the checkpoint that it keeps


def test_a_log_that_was_never_cleaned_up_is_cleaned_up_in_parts():
    store = history(14, checkpoints=[10])
    for oldest_remaining in (4, 8):
        clean_log(load(store), now_ms=MIDNIGHT_MS + 20 * DAY_MS + DAY_MS // 2, at_most=4)
        assert remaining_versions(store) == list(range(oldest_remaining, 14))
    clean(store, 20)
    assert remaining_versions(store) == list(range(10, 14))


def test_a_reader_without_v2_checkpoints_still_finds_the_protocol():
    store = v2_history()
    clean(store, 20)
    assert checkpoint_name(10) in store.files
    expected = state_of(load(store))
    store.files = {n: f for n, f in store.files.items() if ".checkpoint." not in n or n == checkpoint_name(10)}
    assert state_of(load(store)) == expected


def test_every_checkpoint_is_followed_by_a_cleanup_unless_a_property_disables_it():
    for enabled in ("true", "false"):
        configuration = {
            **ONE_WEEK_RETENTION,
            "delta.checkpointInterval": "5",
            "delta.enableExpiredLogCleanup": enabled,
        }
        store = history(5, configuration=configuration)
        write_checkpoint(load(store, 3), now_ms=NOON_MS)
        append_files(store, 1)
        after_commit(store, 5, clock_ms=lambda: MIDNIGHT_MS + 30 * DAY_MS)
        assert remaining_versions(store) == ([5] if enabled == "true" else list(range(6)))


def test_nothing_is_deleted_from_a_young_log():
    store = history(14, checkpoints=[10], configuration={})
    files = dict(store.files)
    assert clean(store, 30) == CleanupResult()
    assert store.files == files


@given(
    removals=st.lists(st.booleans(), min_size=6, max_size=16),
    kinds=st.dictionaries(
        st.integers(1, 15), st.sampled_from(["classic", "parquet", "json", "multi-part"]), max_size=4
    ),
    compactions=st.lists(st.tuples(st.integers(0, 15), st.integers(1, 5)), max_size=3),
    day=st.integers(5, 30),
)
@examples(20)
def test_every_version_inside_the_retention_reads_as_before(removals, kinds, compactions, day):
    store = create(new_store(), add("f0"), configuration=ONE_WEEK_RETENTION)
    for version, removes_previous in enumerate(removals, 1):
        commit_actions(store, *([remove(f"f{version - 1}")] if removes_previous else []), add(f"f{version}"))
    last_version = len(removals)
    set_commit_days(store, range(last_version + 1))
    expected = {v: state_of(load(store, v)) for v in range(last_version + 1)}
    for version, kind in kinds.items():
        if version <= last_version and kind == "classic":
            write_checkpoint(load(store, version), now_ms=NOON_MS)
        elif version <= last_version and kind == "multi-part":
            write_parts(store, version, 2)
        elif version <= last_version:
            write_v2(store, version, uuid_name(version, "json" if kind == "json" else "parquet"), sidecars=version % 3)
    for first, length in compactions:
        if first + length <= last_version:
            write_compaction(store, first, first + length)
    clean(store, day)
    for version in range(max(0, min(last_version, day - 8)), last_version + 1):
        assert state_of(Snapshot.load(store, version)) == expected[version]


TEMPORARY_SUFFIX = "80a083e8-7026-4e79-81be-64bd76c43a11.tmp"
TEMPORARY_FILES = (
    f"_delta_log/.{3:020d}.json.{TEMPORARY_SUFFIX}",
    f"_delta_log/..{3:020d}.json.{TEMPORARY_SUFFIX}.crc",
    f"_delta_log/.{3:020d}.checkpoint.parquet.{TEMPORARY_SUFFIX}",
    f"_delta_log/._last_checkpoint.{TEMPORARY_SUFFIX}",
    f"{SIDECAR_DIR}/.x.parquet.{TEMPORARY_SUFFIX}",
)
OTHER_FILES = (
    f"_delta_log/.{3:020d}.json.crc",  # a checksum file of Hadoop for a commit
    f"_delta_log/.{3:020d}.json.tmp",
    "_delta_log/.nfs000001",
    f"_delta_log/{3:020d}.json.{TEMPORARY_SUFFIX}",
    f".{3:020d}.json.{TEMPORARY_SUFFIX}",
)


@pytest.mark.parametrize(
    ("retention", "age_days", "are_deleted"), [(7, 8, True), (7, 6, False), (0, 2, True), (0, 0.4, False)]
)
def test_temporary_files_are_deleted_after_the_retention_but_not_within_a_day(retention, age_days, are_deleted):
    store = create(new_store(), configuration={"delta.logRetentionDuration": f"{retention} days"})
    now_ms = MIDNIGHT_MS + DAY_MS * 2 // 3
    for name in (*TEMPORARY_FILES, *OTHER_FILES):
        store.files[name] = (b"x", int(now_ms - age_days * DAY_MS))
    store.files[commit_name(0)] = (store.files[commit_name(0)][0], now_ms)
    assert clean_log(load(store), now_ms=now_ms) == CleanupResult(
        temporary_files=len(TEMPORARY_FILES) if are_deleted else 0
    )
    assert set(OTHER_FILES) <= set(store.files)
    assert set(TEMPORARY_FILES).isdisjoint(store.files) is are_deleted
