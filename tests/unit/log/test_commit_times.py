"""Time travel uses the time of a commit: its in-commit timestamp, or the modification time of its file."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltalite import watch
from deltalite.errors import (
    CorruptLogError,
    InvalidRequestError,
    TableNotFoundError,
    TimestampOutOfRangeError,
    VersionGapError,
    VersionNotFoundError,
)
from deltalite.log.commit_times import (
    InCommitSettings,
    Timeline,
    in_commit_settings,
    read_in_commit_timestamp,
    rebuildable_versions,
    timed_commits,
)
from deltalite.log.listing import list_log
from deltalite.log.segment import find_segment
from deltalite.protocol.actions import Protocol
from deltalite.protocol.file_names import checkpoint_name, commit_name, compaction_name
from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from deltalite.storage.memory import MemoryLogStore
from deltalite.upkeep.checkpoint import write_checkpoint
from tests.unit.builders import (
    NOON_MS,
    PROTOCOL,
    RequestLog,
    add,
    append_files,
    commit_info,
    create,
    load,
    metadata,
    new_store,
    put_raw,
)

FEATURE_PROTOCOL = Protocol(min_reader_version=1, min_writer_version=7, writer_features=("inCommitTimestamp",))
ENABLED = {"delta.enableInCommitTimestamps": "true"}
ENABLED_AT_2 = ENABLED | {
    "delta.inCommitTimestampEnablementVersion": "2",
    "delta.inCommitTimestampEnablementTimestamp": "5000",
}


def set_file_times(store: MemoryLogStore, *times_ms: int) -> MemoryLogStore:
    """Set the modification times of the commits from version 0 on; returns the store."""
    for version, modified_ms in enumerate(times_ms):
        store.files[commit_name(version)] = (store.files[commit_name(version)][0], modified_ms)
    return store


def with_in_commit_timestamps(*times_ms: int) -> MemoryLogStore:
    """A table with these in-commit timestamps. The modification times of its commit files are later and decrease."""
    store = new_store()
    for version, time_ms in enumerate(times_ms):
        first = [FEATURE_PROTOCOL, metadata(ENABLED)] if version == 0 else [add(f"f{version}")]
        put_raw(store, version, [commit_info(inCommitTimestamp=time_ms, operation="WRITE"), *first])
    return set_file_times(store, *(10**12 - version for version in range(len(times_ms))))


def table_enabled_at_2() -> MemoryLogStore:
    """A table that enables in-commit timestamps at version 2.

    The files of commits 0 and 1 have the times 1000 and 3000; commits 2 to 4 have the timestamps 5000, 6000 and 7000.
    """
    store = new_store()
    put_raw(store, 0, [PROTOCOL, metadata()])
    put_raw(store, 1, [commit_info(operation="WRITE"), add("f1")])
    put_raw(store, 2, [commit_info(inCommitTimestamp=5000), FEATURE_PROTOCOL, metadata(ENABLED_AT_2)])
    put_raw(store, 3, [commit_info(inCommitTimestamp=6000), add("f3")])
    put_raw(store, 4, [commit_info(inCommitTimestamp=7000), add("f4")])
    return set_file_times(store, 1000, 3000, 4000, 4000, 4000)


def versions_at(store, *moments_ms: int) -> list[int]:
    return [Snapshot.load_at(store, ms).version for ms in moments_ms]


def test_file_times_select_the_newest_commit_at_or_before_the_moment():
    """If a clock jumps back, version 1 counts as one millisecond after version 0."""
    store = set_file_times(append_files(create(new_store()), 3), 5000, 4000, 9000, 9000)
    assert versions_at(store, 5000, 5001, 8999, 9000, 9001, 10_000) == [0, 1, 1, 2, 3, 3]
    for moment, problem in (
        (4999, "oldest readable version is 0, of 1970-01-01T00:00:05Z"),
        (10**15, "future"),
    ):
        with pytest.raises(TimestampOutOfRangeError, match=problem):
            Snapshot.load_at(store, moment)


def test_in_commit_timestamps_take_precedence_over_file_times():
    store = with_in_commit_timestamps(1000, 2000, 3000)
    assert versions_at(store, 1000, 1999, 2000, 2999, 3000, NOON_MS) == [0, 0, 1, 1, 2, 2]
    with pytest.raises(TimestampOutOfRangeError, match=r"version is 0, of 1970-01-01T00:00:01Z"):
        Snapshot.load_at(store, 999)
    with pytest.raises(TimestampOutOfRangeError, match="future"):
        Snapshot.load_at(store, 10**15)


def test_time_travel_reaches_an_in_commit_timestamp_ahead_of_the_clock():
    future_ms = 10**14
    store = with_in_commit_timestamps(1000, future_ms)
    assert versions_at(store, future_ms) == [1]
    with pytest.raises(TimestampOutOfRangeError, match="future"):
        Snapshot.load_at(store, future_ms + 1)


def test_a_moment_before_the_enablement_selects_a_commit_before_it():
    store = table_enabled_at_2()
    assert versions_at(store, 1000, 2999, 3000, 4999, 5000, 5999, 6000, 7000, NOON_MS) == [0, 0, 1, 1, 2, 2, 3, 4, 4]
    set_file_times(store, 8000, 9000)
    assert versions_at(store, 5000, 9000) == [2, 4]
    with pytest.raises(TimestampOutOfRangeError, match=r"version is 0, of 1970-01-01T00:00:08Z"):
        Snapshot.load_at(store, 4999)


def test_late_file_times_do_not_hide_commits_with_in_commit_timestamps():
    store = new_store()
    put_raw(store, 0, [PROTOCOL, metadata()])
    for version in range(1, 6):
        put_raw(store, version, [add(f"f{version}")])
    configuration = ENABLED_AT_2 | {"delta.inCommitTimestampEnablementVersion": "6"}
    put_raw(store, 6, [commit_info(inCommitTimestamp=5000), FEATURE_PROTOCOL, metadata(configuration)])
    put_raw(store, 7, [commit_info(inCommitTimestamp=6000), add("f7")])
    set_file_times(store, *(9000 + version for version in range(8)))
    assert versions_at(store, 5000, 5999, 6000, 9003) == [6, 6, 7, 7]


def test_a_moment_before_the_enablement_is_out_of_range_after_a_cleanup():
    store = table_enabled_at_2()
    write_checkpoint(load(store, 3), now_ms=NOON_MS)
    for version in range(3):
        store.delete(commit_name(version))
    assert versions_at(store, 6000, 7000) == [3, 4]
    for moment in (3000, 5500):
        with pytest.raises(TimestampOutOfRangeError, match=r"version is 3, of 1970-01-01T00:00:06Z"):
            Snapshot.load_at(store, moment)


@pytest.mark.parametrize(
    ("protocol", "configuration"),
    [
        (FEATURE_PROTOCOL, {}),
        (FEATURE_PROTOCOL, {"delta.enableInCommitTimestamps": "false"}),
        (PROTOCOL, ENABLED),
        (Protocol(min_reader_version=1, min_writer_version=7, writer_features=("inCommitTimestamp-preview",)), ENABLED),
    ],
)
def test_in_commit_timestamps_have_no_effect_without_the_feature_and_its_property(protocol, configuration):
    assert in_commit_settings(protocol, metadata(configuration)) is None
    assert in_commit_settings(FEATURE_PROTOCOL, metadata(ENABLED)) == InCommitSettings()


@pytest.mark.parametrize("suffix", ["", "-preview"])
def test_the_properties_name_the_version_of_the_enablement(suffix):
    protocol = Protocol(min_reader_version=1, min_writer_version=7, writer_features=(f"inCommitTimestamp{suffix}",))
    configuration = {f"{key}{suffix}": value for key, value in ENABLED_AT_2.items()}
    settings = in_commit_settings(protocol, metadata(configuration))
    assert settings == InCommitSettings(first_version=2, enabled_at_ms=5000)


def test_an_incomplete_or_invalid_enablement_is_rejected():
    for key in list(ENABLED_AT_2)[1:]:
        incomplete = {k: v for k, v in ENABLED_AT_2.items() if k != key}
        with pytest.raises(CorruptLogError, match="has only one of the properties"):
            in_commit_settings(FEATURE_PROTOCOL, metadata(incomplete))
        with pytest.raises(InvalidRequestError, match=key):
            in_commit_settings(FEATURE_PROTOCOL, metadata(ENABLED_AT_2 | {key: "two"}))


@pytest.mark.parametrize(
    "commit_info_values", [{}, *({"inCommitTimestamp": v} for v in (None, "5000", True, 5e3, -1, 10**18, []))]
)
def test_the_error_names_a_commit_without_its_timestamp(commit_info_values):
    store = with_in_commit_timestamps(1000, 2000, 3000)
    put_raw(store, 1, [commit_info(timestamp=2000, **commit_info_values), add("f1")])
    with pytest.raises(CorruptLogError, match=f"{1:020}.json has no valid inCommitTimestamp"):
        Snapshot.load_at(store, 2500)
    put_raw(store, 1, [add("f1")])
    with pytest.raises(CorruptLogError, match=f"{1:020}.json has no valid inCommitTimestamp"):
        Snapshot.load_at(store, 2500)


def test_a_search_among_many_in_commit_timestamps_opens_few_commits():
    store, count = MemoryLogStore(), 20_000
    for version in range(count):
        body = json.dumps({"commitInfo": {"inCommitTimestamp": 1000 + 10 * version}}).encode()
        store.files[commit_name(version)] = (body, 5)
    timeline = Timeline(store, InCommitSettings())
    for moment, version in ((1000, 0), (1009, 0), (101_000, 10_000), (200_989, 19_998), (10**9, count - 1)):
        requests = RequestLog(store)
        assert timeline.newest_at(moment).version == version
        assert len(requests.accesses) <= 15
    assert timeline.newest_at(999) is None
    requests = RequestLog(store)
    assert Timeline(store, None).newest_at(5000).version == 4995
    assert [operation for operation, _ in requests.accesses] == ["list"]


@pytest.mark.parametrize("position", [0, 2000])
def test_a_large_commit_is_opened_once_with_its_provenance_at_any_position(position):
    store = with_in_commit_timestamps(1000, 2000)
    actions = [add(f"{'x' * 100}{number}") for number in range(2000)]
    actions.insert(position, commit_info(inCommitTimestamp=2000))
    put_raw(store, 1, actions)
    requests = RequestLog(store)
    assert Timeline(store, InCommitSettings()).time_of(1) == 2000
    assert [operation for operation, _ in requests.accesses] == ["list", "open"]


def test_a_commit_that_vanishes_during_the_search_raises_a_typed_error():
    for padding in ("", "x" * 100_000):
        store = with_in_commit_timestamps(1000, 2000)
        put_raw(store, 1, [commit_info(inCommitTimestamp=2000, userMetadata=padding), add("f1")])
        timeline = Timeline(store, InCommitSettings())
        store.delete(commit_name(1))
        with pytest.raises(VersionGapError, match=f"{1:020}.json of .* was deleted while"):
            timeline.newest_at(2000)


def test_a_commit_before_the_oldest_checkpoint_is_not_selected():
    store = set_file_times(append_files(create(new_store()), 5), 1000, 2000, 3000, 4000, 5000, 6000)
    write_checkpoint(load(store, 3), now_ms=NOON_MS)
    assert versions_at(store, 2000, 4500) == [1, 3]
    store.delete(commit_name(0))
    assert versions_at(store, 4500, 6000) == [3, 5]
    for moment in (500, 2000, 3999):
        with pytest.raises(TimestampOutOfRangeError, match=r"oldest readable version is 3, of 1970-01-01T00:00:04Z"):
            Snapshot.load_at(store, moment)


def test_the_times_of_unselectable_commits_still_adjust_later_times():
    """A clock jumped back, so version 3 counts as later than version 2, also after a cleanup of version 0."""
    store = set_file_times(append_files(create(new_store()), 4), 1000, 2000, 9000, 4000, 10_000)
    write_checkpoint(load(store, 3), now_ms=NOON_MS)
    assert versions_at(store, 9001) == [3]
    store.delete(commit_name(0))
    assert versions_at(store, 9001, 10_000) == [3, 4]
    with pytest.raises(TimestampOutOfRangeError, match=r"version is 3, of 1970-01-01T00:00:09\.001Z"):
        Snapshot.load_at(store, 9000)


def test_a_table_with_only_a_checkpoint_has_no_commit_times():
    store = append_files(create(new_store()), 1)
    write_checkpoint(load(store), now_ms=NOON_MS)
    for version in range(2):
        store.delete(commit_name(version))
    with pytest.raises(TimestampOutOfRangeError, match=r"has no version at or before 1970-01-01T00:00:00\.005Z\."):
        Snapshot.load_at(store, 5)


@given(
    commits=st.sets(st.integers(0, 7)),
    checkpoints=st.sets(st.integers(0, 7)),
    compactions=st.sets(
        st.tuples(st.integers(0, 6), st.integers(1, 7)).filter(lambda versions: versions[0] < versions[1])
    ),
)
def test_a_version_is_readable_exactly_if_it_has_a_segment(commits, checkpoints, compactions):
    store = MemoryLogStore()
    names = [
        *map(commit_name, commits),
        *map(checkpoint_name, checkpoints),
        *(compaction_name(*c) for c in compactions),
    ]
    store.files = dict.fromkeys(names, (b"{}", 0))
    versions_with_segment = []
    for version in range(8):
        try:
            versions_with_segment.append(find_segment(store, version).version)
        except (VersionGapError, VersionNotFoundError, TableNotFoundError):
            continue
    assert rebuildable_versions(list_log(store, 0)) == versions_with_segment


def test_timed_commits_have_the_times_of_their_files():
    store = set_file_times(append_files(create(new_store()), 2), 5000, 4000, 9000)
    times = timed_commits(store)
    assert [(time.version, time.timestamp_ms) for time, _ in times] == [(0, 5000), (1, 5001), (2, 9000)]
    assert [commit.name for _, commit in times] == [commit_name(version) for version in range(3)]


def test_the_version_at_a_moment_uses_in_commit_timestamps_also_after_a_cleanup():
    store = with_in_commit_timestamps(1000, 2000, 3000)
    assert [watch.version_at(store, ms) for ms in (999, 1000, 2500, NOON_MS)] == [-1, 0, 1, 2]
    write_checkpoint(load(store, 2), now_ms=NOON_MS)
    store.delete(commit_name(0))
    assert [watch.version_at(store, ms) for ms in (1999, 2500)] == [-1, 1]


@pytest.mark.parametrize("name", ["uniform_hudi", "in_commit_timestamp_history_read"])
def test_time_travel_in_tables_of_other_engines_uses_their_in_commit_timestamps(golden, name):
    expected = json.loads((golden / "expected" / "trino" / "deltalake" / name / "meta.json").read_text())
    store = LocalLogStore(str(golden / "tables" / "trino" / "deltalake" / name))
    latest = Snapshot.load(store)
    timeline = Timeline(store, in_commit_settings(latest.protocol, latest.metadata))
    times_by_version = {int(version): time for version, time in expected["in_commit_timestamps"].items()}
    assert {version: timeline.time_of(version) for version in times_by_version} == times_by_version
    assert versions_at(store, *times_by_version.values()) == list(times_by_version)
    with pytest.raises(TimestampOutOfRangeError, match="version is 0"):
        Snapshot.load_at(store, min(times_by_version.values()) - 1)


def test_the_time_of_a_large_commit_is_read_in_bounded_memory(monkeypatch):
    """The commitInfo may follow other actions, and may be long."""
    store = with_in_commit_timestamps(1000, 2000)
    long_fields = {f"k{n}": "x" * 50_000 for n in range(5)}
    long_info = commit_info(operation="WRITE", more=long_fields, **long_fields, inCommitTimestamp=3000)
    put_raw(store, 2, [add("f" * 200_000), long_info, add("g")])
    put_raw(store, 3, [commit_info(inCommitTimestamp=4000), *(add(f"{n}" * 100) for n in range(2_000))])
    monkeypatch.setattr(store, "read", pytest.fail)
    commits = list_log(store, 0).commits
    assert [read_in_commit_timestamp(store, commits[version]) for version in (2, 3)] == [3000, 4000]
    put_raw(store, 4, [add("f" * 200_000)])
    with pytest.raises(CorruptLogError, match="has no valid inCommitTimestamp"):
        read_in_commit_timestamp(store, list_log(store, 0).commits[4])
    del store.files[commit_name(2)]
    with pytest.raises(VersionGapError):
        read_in_commit_timestamp(store, commits[2])
