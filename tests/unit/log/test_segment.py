"""A segment selects the log files of a version. Each test checks one guarantee of this selection."""

from __future__ import annotations

import hashlib
import json

import pytest

from deltalite.errors import (
    TableNotFoundError,
    VersionGapError,
    VersionNotFoundError,
)
from deltalite.log.last_checkpoint import LastCheckpoint, read_last_checkpoint
from deltalite.log.listing import CheckpointFiles, CheckpointKind, LogEntry
from deltalite.log.segment import LogSegment, find_segment
from deltalite.protocol.file_names import (
    LAST_CHECKPOINT,
    checkpoint_name,
    checksum_name,
    commit_name,
    compaction_name,
)
from deltalite.storage.log_store import StoredFile
from deltalite.upkeep.checkpoint import write_checkpoint
from tests.unit.builders import NOON_MS, RequestLog, append_files, create, load, new_store, paths

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"


@pytest.fixture
def store():
    """Versions 0 to 12, checkpoints at 5 and 10, and a `_last_checkpoint` that names version 10."""
    store = create(new_store())
    append_files(store, 12)
    for version in (5, 10):
        write_checkpoint(load(store, version), now_ms=NOON_MS)
    return store


def checkpoint_and_commits(segment):
    """The version of the segment's checkpoint, or None, and the versions of its commits."""
    return (segment.checkpoint.version if segment.checkpoint else None), [int(c.name[-25:-5]) for c in segment.commits]


def uuid_checkpoint_name(version, letter="b", kind="parquet"):
    return f"_delta_log/{version:020d}.checkpoint.{letter}{UUID[1:]}.{kind}"


def part_name(version, number, count):
    return f"_delta_log/{version:020d}.checkpoint.{number:010d}.{count:010d}.parquet"


def clean_up_before(store, first_kept_version):
    for version in range(first_kept_version):
        store.files.pop(commit_name(version), None)
        store.files.pop(checkpoint_name(version), None)


def write_hint(store, text):
    store.files[LAST_CHECKPOINT] = (text if isinstance(text, bytes) else json.dumps(text).encode(), 0)


@pytest.mark.parametrize(
    ("version", "checkpoint", "commits"),
    [(None, 10, [11, 12]), (12, 10, [11, 12]), (10, 10, []), (9, 5, [6, 7, 8, 9]), (5, 5, []), (3, None, [0, 1, 2, 3])],
)
def test_a_segment_has_the_newest_checkpoint_up_to_its_version_and_the_commits_after_it(
    store, version, checkpoint, commits
):
    segment = find_segment(store, version)
    assert checkpoint_and_commits(segment) == (checkpoint, commits)
    assert segment.commit_file.name == commit_name(segment.version)


def test_a_valid_hint_limits_the_listing_to_the_log_from_its_version_on(store):
    requests = RequestLog(store)
    find_segment(store)
    assert requests.accesses == [("read_start", "_last_checkpoint"), ("list", f"{10:020d}")]


def log_entry(first, last):
    name = commit_name(first) if first == last else compaction_name(first, last)
    return LogEntry(first_version=first, last_version=last, file=StoredFile(name=name, size_bytes=1, modified_ms=0))


def version_ranges(segment):
    """The first and the last version of each commit and compaction in the segment."""
    return [(e.first_version, e.last_version) for e in segment.entries]


@pytest.mark.parametrize(
    ("present", "missing"),
    [
        ([(0, 0), (1, 1), (3, 3)], "commit 2 is missing\\."),
        ([(0, 0), (2, 2), (3, 3)], "commit 1 is missing\\."),
        ([(1, 1), (2, 2), (3, 3)], "commit 0 is missing\\."),
        ([(0, 0), (1, 1)], r"2 commits are missing; the first is 2\."),
        ([(1, 2)], r"2 commits are missing; the first is 0\."),
        ([], r"4 commits are missing; the first is 0\."),
        ([(0, 2), (2, 3)], "commit 3"),
        ([(0, 4)], "Could not read version 3"),
    ],
)
def test_commits_and_compactions_follow_one_another_without_a_gap_or_an_overlap(present, missing):
    with pytest.raises(VersionGapError, match=missing):
        LogSegment(version=3, checkpoint=None, entries=tuple(log_entry(*p) for p in present))


def test_the_error_for_a_gap_of_any_size_names_its_first_commit():
    store = create(new_store())
    store.files[commit_name(10**20 - 1)] = (b"{}", 0)
    with pytest.raises(VersionGapError, match=r"9{19}8 commits are missing; the first is 1\."):
        find_segment(store)


@pytest.mark.parametrize(("missing_version", "readable"), [(11, [10]), (7, [3, 6, 10, 12])])
def test_a_missing_commit_makes_only_the_versions_that_need_it_unreadable(store, missing_version, readable):
    del store.files[commit_name(missing_version)]
    for version in readable:
        assert find_segment(store, version).version == version
    with pytest.raises(VersionGapError, match=f"commit {missing_version} is missing"):
        find_segment(store, missing_version + 1)


@pytest.mark.parametrize(
    "text",
    [
        b"", b"{", b"[]", b"null", b'"x"', b"\xff", {"size": 1}, {"version": "10"}, {"version": -1}, {"version": True},
        {"version": None}, {"version": 10.0}, {"version": 10, "size": "many"}, b"[" * 100_000,
        {"version": 10, "size": 1, "parts": 0}, {"version": 10, "size": 1, "parts": "2"},
        {"version": 10, "size": 1, "numOfAddFiles": "4"}, {"version": 10, "size": 1, "sizeInBytes": -1},
        {"version": 10, "size": 1, "checksum": "0" * 32}, b'{"version":10,"version":10,"size":1}',
    ],
    ids=str,
)  # fmt: skip
def test_an_unreadable_hint_is_ignored(store, text):
    write_hint(store, text)
    assert read_last_checkpoint(store) is None
    assert checkpoint_and_commits(find_segment(store)) == (10, [11, 12])


@pytest.mark.parametrize("text", [{"version": 5, "size": 1}, {"version": 7, "size": 1}, {"version": 99, "size": 1}])
def test_a_stale_or_dangling_hint_changes_nothing(store, text):
    write_hint(store, text)
    assert checkpoint_and_commits(find_segment(store)) == (10, [11, 12])
    assert checkpoint_and_commits(find_segment(store, 6)) == (5, [6])


def test_a_missing_hint_changes_nothing(store):
    del store.files[LAST_CHECKPOINT]
    assert checkpoint_and_commits(find_segment(store)) == (10, [11, 12])


def test_the_hint_is_read_as_spark_writes_it(store):
    write_hint(store, {"version": 3, "size": 7, "parts": 2, "sizeInBytes": 5, "numOfAddFiles": 4, "v2Checkpoint": {}})
    assert read_last_checkpoint(store) == LastCheckpoint(version=3, size=7, parts=2, size_bytes=5, num_of_add_files=4)


def test_a_hint_with_a_valid_checksum_is_used(store):
    digest = hashlib.md5(b'"size"=12,"tags"+"a%20b"="c","version"=10', usedforsecurity=False).hexdigest()
    write_hint(store, {"version": 10, "size": 12, "tags": {"a b": "c"}, "checksum": digest})
    requests = RequestLog(store)
    assert checkpoint_and_commits(find_segment(store)) == (10, [11, 12])
    assert requests.accesses[1] == ("list", f"{10:020d}")


def test_an_empty_checkpoint_file_is_ignored(store):
    store.files[checkpoint_name(10)] = (b"", 0)
    assert checkpoint_and_commits(find_segment(store)) == (5, list(range(6, 13)))


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
def test_a_multi_part_checkpoint_counts_only_with_all_parts_of_one_set(store, parts, expected):
    del store.files[checkpoint_name(10)]
    for number, count in parts:
        store.files[part_name(10, number, count)] = (b"x", 0)
    segment = find_segment(store, 10)
    if expected is None:
        assert checkpoint_and_commits(segment)[0] == 5
    else:
        assert segment.checkpoint == CheckpointFiles(
            version=10, kind=CheckpointKind.MULTI_PART, names=tuple(part_name(10, *p) for p in expected)
        )


def test_an_empty_part_makes_its_set_incomplete(store):
    store.files |= {part_name(10, 1, 2): (b"x", 0), part_name(10, 2, 2): (b"", 0), uuid_checkpoint_name(10): (b"", 0)}
    assert find_segment(store).checkpoint.names == (checkpoint_name(10),)


def test_the_best_readable_checkpoint_of_a_version_is_chosen(store):
    best_first = [
        (uuid_checkpoint_name(10, "b"),),
        (uuid_checkpoint_name(10, "a", "json"),),
        tuple(part_name(10, n, 3) for n in (1, 2, 3)),
        tuple(part_name(10, n, 2) for n in (1, 2)),
        (checkpoint_name(10),),
        (checkpoint_name(5),),
    ]
    store.files |= {name: (b"x", 0) for names in best_first[:4] for name in names}
    unreadable = set()
    for names in best_first:
        assert find_segment(store, unreadable=unreadable).checkpoint.names == names
        assert sorted(find_segment(store, 10, unreadable=unreadable).checkpoint.names) == sorted(names)
        unreadable.add(names[-1])
    assert find_segment(store, unreadable=unreadable).checkpoint is None


def test_unreadable_checkpoints_are_skipped(store):
    newer, older = checkpoint_name(10), checkpoint_name(5)
    assert checkpoint_and_commits(find_segment(store, unreadable={newer})) == (5, list(range(6, 13)))
    assert checkpoint_and_commits(find_segment(store, unreadable={older, newer})) == (None, list(range(13)))
    clean_up_before(store, 5)
    assert checkpoint_and_commits(find_segment(store, unreadable={newer})) == (5, list(range(6, 13)))
    with pytest.raises(VersionGapError, match=r"5 commits are missing; the first is 0\."):
        find_segment(store, unreadable={older, newer})


def test_a_cleaned_up_log_keeps_the_versions_from_its_oldest_checkpoint_on(store):
    clean_up_before(store, 5)
    assert checkpoint_and_commits(find_segment(store)) == (10, [11, 12])
    assert checkpoint_and_commits(find_segment(store, 7)) == (5, [6, 7])
    with pytest.raises(VersionNotFoundError, match="oldest checkpoint is version 5") as caught:
        find_segment(store, 4)
    assert "Read version 5 or newer" in caught.value.remedy


def test_a_checkpoint_alone_gives_its_version(store):
    clean_up_before(store, 10)
    for version in (10, 11, 12):
        store.files.pop(commit_name(version))
    assert checkpoint_and_commits(find_segment(store)) == (10, [])
    assert paths(load(store)) == sorted(f"f{v}" for v in range(1, 11))


@pytest.mark.parametrize("version", [-1, 13, 10**19])
def test_the_error_names_a_missing_version_and_the_newest_version(store, version):
    with pytest.raises(VersionNotFoundError, match=f"no version {version}: its newest version is 12"):
        find_segment(store, version)


@pytest.mark.parametrize(
    "files", [{}, {"_delta_log/_last_checkpoint": (b'{"version":3,"size":1}', 0)}, {"a": (b"", 0)}]
)
def test_a_log_without_commits_is_not_a_table(files):
    store = new_store()
    store.files |= files
    for version in (None, 0):
        with pytest.raises(TableNotFoundError, match="no Delta table at memory://table"):
            find_segment(store, version)


def add_compactions(store, *ranges):
    store.files |= {compaction_name(*r): (b"x", 0) for r in ranges}


@pytest.mark.parametrize(
    ("ranges", "version", "read_ranges"),
    [
        ([(11, 12)], 12, [(11, 12)]),
        ([(6, 8)], 9, [(6, 8), (9, 9)]),
        ([(6, 8), (6, 9)], 9, [(6, 9)]),
        ([(6, 7), (7, 9)], 9, [(6, 6), (7, 9)]),  # reads two files; with (6, 7), it would read three
        ([(6, 7), (8, 9)], 9, [(6, 7), (8, 9)]),
        ([(4, 8), (5, 8)], 9, [(6, 6), (7, 7), (8, 8), (9, 9)]),  # both compactions begin before version 6
        ([(8, 10)], 9, [(6, 6), (7, 7), (8, 8), (9, 9)]),  # the compaction ends after the version
        ([(0, 3)], 4, [(0, 3), (4, 4)]),
        ([(7, 7), (8, 6)], 8, [(6, 6), (7, 7), (8, 8)]),  # a range of one version and a reversed range
    ],
)
def test_compactions_replace_commits_so_that_the_fewest_files_are_read(store, ranges, version, read_ranges):
    add_compactions(store, *ranges)
    segment = find_segment(store, version)
    assert version_ranges(segment) == read_ranges
    assert segment.commit_file.name == commit_name(version)
    assert [f.name for f in segment.compactions] == [compaction_name(*r) for r in read_ranges if r[0] != r[1]]


def test_a_missing_commit_within_a_compaction_is_not_a_gap(store):
    add_compactions(store, (6, 8), (7, 9))
    del store.files[commit_name(9)]
    assert version_ranges(find_segment(store, 9)) == [(6, 6), (7, 9)]
    assert find_segment(store, 9).commit_file is None
    for version in (6, 8):
        del store.files[commit_name(version)]
    with pytest.raises(VersionGapError, match=r"3 commits are missing; the first is 6\."):
        find_segment(store, 9)
    assert version_ranges(find_segment(store, 8)) == [(6, 8)]


def test_an_unreadable_or_empty_compaction_is_replaced_by_its_commits(store):
    add_compactions(store, (6, 8))
    assert version_ranges(find_segment(store, 8, unreadable={compaction_name(6, 8)})) == [(6, 6), (7, 7), (8, 8)]
    store.files[compaction_name(6, 8)] = (b"", 0)
    assert version_ranges(find_segment(store, 8)) == [(6, 6), (7, 7), (8, 8)]


def test_a_version_exists_if_a_compaction_ends_with_it(store):
    add_compactions(store, (13, 13), (14, 12))
    assert find_segment(store).version == 12  # a range of one version and a reversed range are ignored
    add_compactions(store, (12, 13))
    assert find_segment(store).version == 13


def test_the_checksum_of_the_version_comes_from_the_same_listing(store):
    store.files[checksum_name(12)] = (b"x", 0)
    requests = RequestLog(store)
    assert find_segment(store).checksum.name == checksum_name(12)
    assert find_segment(store, 11).checksum is None
    assert requests.accesses == [("read_start", "_last_checkpoint"), ("list", f"{10:020d}")] * 2


def test_other_files_in_the_log_are_ignored(store):
    for name in (
        f"{14:020d}.crc",
        "zzz",
        f"{13:020d}.json.tmp",
        f"{14:020d}.jsonx",
    ):
        store.files[f"_delta_log/{name}"] = (b"x", 0)
    assert checkpoint_and_commits(find_segment(store)) == (10, [11, 12])


def test_an_empty_newest_commit_does_not_exist_yet(store):
    """Azure's Blob Storage shows the name of a copied file before its content."""
    store.write(commit_name(13), b"")
    assert find_segment(store).version == 12
    store.write(commit_name(14), b'{"commitInfo":{}}\n')
    assert find_segment(store).version == 14
