"""A segment is the gate to a version: each test is one of its guarantees."""

from __future__ import annotations

import json

import pytest

from deltalite.errors import (
    CorruptCheckpointError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionGapError,
    VersionNotFoundError,
)
from deltalite.log.last_checkpoint import LastCheckpoint, read_last_checkpoint
from deltalite.log.segment import CheckpointFiles, LogSegment, find_segment
from deltalite.protocol.file_names import LAST_CHECKPOINT, checkpoint_name, commit_name
from deltalite.storage.log_store import StoredFile
from deltalite.txn.checkpoint import write_checkpoint
from tests.unit.builders import NOON_MS, Requests, appended, create, load, new_store, paths

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"


@pytest.fixture
def store():
    """Versions 0 to 12, checkpoints at 5 and 10, the hint at 10."""
    store = create(new_store())
    appended(store, 12)
    for version in (5, 10):
        write_checkpoint(load(store, version), now_ms=NOON_MS)
    return store


def versions(segment):
    return (segment.checkpoint.version if segment.checkpoint else None), [int(c.name[-25:-5]) for c in segment.commits]


def part(version, number, count):
    return f"_delta_log/{version:020d}.checkpoint.{number:010d}.{count:010d}.parquet"


def cleaned(store, below):
    for version in range(below):
        store.files.pop(commit_name(version), None)
        store.files.pop(checkpoint_name(version), None)


def hint(store, text):
    store.files[LAST_CHECKPOINT] = (text if isinstance(text, bytes) else json.dumps(text).encode(), 0)


@pytest.mark.parametrize(
    ("version", "checkpoint", "commits"),
    [(None, 10, [11, 12]), (12, 10, [11, 12]), (10, 10, []), (9, 5, [6, 7, 8, 9]), (5, 5, []), (3, None, [0, 1, 2, 3])],
)
def test_a_version_is_the_newest_checkpoint_at_or_below_it_and_the_commits_after(store, version, checkpoint, commits):
    segment = find_segment(store, version)
    assert versions(segment) == (checkpoint, commits)
    assert segment.newest_file == (segment.commits[-1] if commits else None)


def test_with_a_good_hint_the_log_before_it_is_not_listed(store):
    requests = Requests(store)
    find_segment(store)
    assert requests.seen == [("read", "_last_checkpoint"), ("list", f"{10:020d}")]


@pytest.mark.parametrize("present", [{0, 1, 3}, {0, 2, 3}, {1, 2, 3}, {0, 1, 2}, {0, 1, 2, 4}])
def test_commits_follow_one_another_without_a_gap(present):
    files = tuple(StoredFile(name=commit_name(v), size_bytes=1, modified_ms=0) for v in sorted(present))
    with pytest.raises(VersionGapError, match=r"commit \d is missing"):
        LogSegment(version=3 if present != {0, 1, 2, 4} else 4, checkpoint=None, commits=files)


@pytest.mark.parametrize(("gone", "readable"), [(11, [10]), (7, [3, 6, 10, 12])])
def test_a_missing_commit_hurts_the_versions_that_need_it_and_no_other(store, gone, readable):
    del store.files[commit_name(gone)]
    for version in readable:
        assert find_segment(store, version).version == version
    with pytest.raises(VersionGapError, match=f"commit {gone} is missing"):
        find_segment(store, gone + 1)


@pytest.mark.parametrize(
    "text",
    [
        b"", b"{", b"[]", b"null", b'"x"', b"\xff", {"size": 1}, {"version": "10"}, {"version": -1}, {"version": True},
        {"version": None}, {"version": 10.0}, {"version": 10, "size": "many"}, b"[" * 100_000,
    ],
    ids=str,
)  # fmt: skip
def test_a_hint_that_cannot_be_understood_is_no_hint(store, text):
    hint(store, text)
    assert read_last_checkpoint(store) is None
    assert versions(find_segment(store)) == (10, [11, 12])


@pytest.mark.parametrize("text", [{"version": 5, "size": 1}, {"version": 7, "size": 1}, {"version": 99, "size": 1}])
def test_a_hint_that_is_stale_or_points_at_nothing_changes_nothing(store, text):
    hint(store, text)
    assert versions(find_segment(store)) == (10, [11, 12])
    assert versions(find_segment(store, 6)) == (5, [6])


def test_a_missing_hint_changes_nothing(store):
    del store.files[LAST_CHECKPOINT]
    assert versions(find_segment(store)) == (10, [11, 12])


def test_the_hint_is_read_as_spark_writes_it(store):
    hint(store, {"version": 3, "size": 7, "parts": 2, "sizeInBytes": 5, "numOfAddFiles": 4, "checksum": "x", "v": {}})
    assert read_last_checkpoint(store) == LastCheckpoint(version=3, size=7, parts=2, size_bytes=5, num_of_add_files=4)


def test_a_checkpoint_of_no_bytes_is_no_checkpoint(store):
    store.files[checkpoint_name(10)] = (b"", 0)
    assert versions(find_segment(store)) == (5, list(range(6, 13)))


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([(1, 2), (2, 2)], [(1, 2), (2, 2)]),
        ([(1, 2)], None),
        ([(2, 2)], None),
        ([(1, 3), (2, 2)], None),
        ([(1, 2), (2, 2), (1, 3)], [(1, 2), (2, 2)]),
        ([(1, 2), (2, 2), (1, 3), (2, 3), (3, 3)], [(1, 3), (2, 3), (3, 3)]),
        ([(0, 1)], None),
        ([(2, 1)], None),
    ],
)
def test_a_checkpoint_in_parts_counts_only_when_every_part_of_one_set_is_there(store, parts, expected):
    del store.files[checkpoint_name(10)]
    for number, count in parts:
        store.files[part(10, number, count)] = (b"x", 0)
    segment = find_segment(store, 10)
    if expected is None:
        assert versions(segment)[0] == 5
    else:
        assert segment.checkpoint == CheckpointFiles(version=10, names=tuple(part(10, *p) for p in expected))


def test_a_part_of_no_bytes_makes_its_set_incomplete(store):
    store.files |= {part(10, 1, 2): (b"x", 0), part(10, 2, 2): (b"", 0)}
    assert find_segment(store).checkpoint.names == (checkpoint_name(10),)


def test_unreadable_checkpoints_are_passed_over(store):
    assert versions(find_segment(store, unreadable={10})) == (5, list(range(6, 13)))
    assert versions(find_segment(store, unreadable={5, 10})) == (None, list(range(13)))
    cleaned(store, 5)
    assert versions(find_segment(store, unreadable={10})) == (5, list(range(6, 13)))
    with pytest.raises(CorruptCheckpointError, match="cannot be read"):
        find_segment(store, unreadable={5, 10})


def test_a_cleaned_log_keeps_the_versions_from_its_oldest_checkpoint_on(store):
    cleaned(store, 5)
    assert versions(find_segment(store)) == (10, [11, 12])
    assert versions(find_segment(store, 7)) == (5, [6, 7])
    with pytest.raises(VersionNotFoundError, match="oldest checkpoint is version 5") as caught:
        find_segment(store, 4)
    assert "Ask for version 5 or newer" in caught.value.remedy


def test_a_checkpoint_without_its_commits_is_a_table(store):
    cleaned(store, 10)
    for version in (10, 11, 12):
        store.files.pop(commit_name(version))
    assert versions(find_segment(store)) == (10, [])
    assert paths(load(store)) == sorted(f"f{v}" for v in range(1, 11))


@pytest.mark.parametrize("version", [-1, 13, 10**19])
def test_a_version_that_does_not_exist_is_named_with_the_newest(store, version):
    with pytest.raises(VersionNotFoundError, match=f"no version {version}: its newest is 12"):
        find_segment(store, version)


@pytest.mark.parametrize(
    "files", [{}, {"_delta_log/_last_checkpoint": (b'{"version":3,"size":1}', 0)}, {"a": (b"", 0)}]
)
def test_a_log_without_commits_is_no_table(files):
    store = new_store()
    store.files |= files
    for version in (None, 0):
        with pytest.raises(TableNotFoundError, match="no Delta table at memory://table"):
            find_segment(store, version)


def test_a_version_that_needs_a_uuid_named_checkpoint_is_refused_by_the_feature_s_name(store):
    store.files[f"_delta_log/{11:020d}.checkpoint.{UUID}.parquet"] = (b"x", 0)
    assert versions(find_segment(store)) == (10, [11, 12])
    cleaned(store, 11)
    with pytest.raises(UnsupportedFeatureError, match="v2Checkpoint"):
        find_segment(store)


def test_other_files_in_the_log_are_nobody_s_business(store):
    for name in (
        f"{3:020d}.crc",
        f"{3:020d}.{6:020d}.compacted.json",
        "zzz",
        f"{13:020d}.json.tmp",
        f"{14:020d}.jsonx",
    ):
        store.files[f"_delta_log/{name}"] = (b"x", 0)
    assert versions(find_segment(store)) == (10, [11, 12])
