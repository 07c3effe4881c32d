"""In-commit timestamps increase, whatever the clocks of the writers show."""

from __future__ import annotations

import dataclasses
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from deltalite.errors import CorruptLogError, MetadataChangedException, StorageError
from deltalite.protocol.actions import Protocol
from deltalite.protocol.file_names import commit_name
from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from deltalite.txn.commit import Committed, commit
from tests.unit.builders import NOON_MS, add, add_rival, commit_info, create, metadata, new_store, proposal, remove

TIMED_PROTOCOL = Protocol(
    min_reader_version=1, min_writer_version=7, writer_features=("appendOnly", "inCommitTimestamp")
)
ENABLED = {"delta.enableInCommitTimestamps": "true"}
ENABLEMENT_KEYS = ("delta.inCommitTimestampEnablementVersion", "delta.inCommitTimestampEnablementTimestamp")


def commit_at(store, read_version, *actions, base=None, now_ms=NOON_MS, **options):
    """Commit actions while the clock shows `now_ms`; returns the outcome."""
    current = proposal(read_version, *actions, base=base, **options)
    outcome = commit(store, current, clock_ms=lambda: now_ms, pause=lambda _s: None)
    assert isinstance(outcome, Committed)
    return outcome


def timed_table(now_ms=NOON_MS):
    store = new_store()
    commit_at(store, -1, TIMED_PROTOCOL, metadata(ENABLED), now_ms=now_ms)
    return store


def base_of(store):
    snapshot = Snapshot.load(store)
    return snapshot.protocol, snapshot.metadata


def actions_of(store, version):
    """The actions of a commit as dictionaries, in order."""
    return [json.loads(line) for line in store.files[commit_name(version)][0].splitlines()]


def time_of(store, version):
    (first, *_) = actions_of(store, version)
    return first["commitInfo"]["inCommitTimestamp"]


def test_a_table_without_the_feature_has_no_in_commit_timestamps():
    store = create(new_store(), configuration=ENABLED)  # the property has no effect without the feature
    outcome = commit_at(store, 0, add("a"), base=base_of(store))
    assert "inCommitTimestamp" not in actions_of(store, 1)[0]["commitInfo"]
    assert outcome.timestamp_ms == actions_of(store, 1)[0]["commitInfo"]["timestamp"] == NOON_MS


@pytest.mark.parametrize(
    ("now_ms", "timestamp_ms"),
    [(NOON_MS + 5, NOON_MS + 5), (NOON_MS, NOON_MS + 1), (NOON_MS - 9000, NOON_MS + 1)],
)
def test_the_timestamp_is_the_time_of_the_clock_or_just_after_the_previous_commit(now_ms, timestamp_ms):
    store = timed_table()
    outcome = commit_at(store, 0, add("a"), base=base_of(store), now_ms=now_ms)
    assert time_of(store, 1) == outcome.timestamp_ms == timestamp_ms
    assert actions_of(store, 1)[0]["commitInfo"]["timestamp"] == timestamp_ms
    assert Snapshot.load_at(store, timestamp_ms).version == 1
    assert Snapshot.load_at(store, timestamp_ms - 1).version == 0


def test_version_0_with_a_timestamp_records_no_enablement():
    store = timed_table()
    assert time_of(store, 0) == NOON_MS
    assert not set(ENABLEMENT_KEYS) & set(Snapshot.load(store).configuration)


def test_the_timestamp_after_lost_races_is_later_than_that_of_the_last_winning_commit():
    store = timed_table()
    winning_times = [NOON_MS + 10_000, NOON_MS + 50_000]
    add_rival(
        store,
        *(
            [commit_info(operation="WRITE", inCommitTimestamp=t, isBlindAppend=True), add(f"w{t}")]
            for t in winning_times
        ),
    )
    outcome = commit_at(store, 0, add("a"), base=base_of(store))
    assert outcome == Committed(version=3, timestamp_ms=NOON_MS + 50_001)
    assert [time_of(store, v) for v in range(4)] == sorted({time_of(store, v) for v in range(4)})


def test_the_error_names_a_winning_commit_without_a_timestamp():
    store = timed_table()
    add_rival(store, [commit_info(operation="WRITE"), add("w")])
    with pytest.raises(CorruptLogError, match=r"0000001\.json"):
        commit_at(store, 0, add("a"), base=base_of(store))
    assert commit_name(2) not in store.files


def test_a_commit_after_a_winning_enablement_has_a_timestamp():
    store = create(new_store(), configuration={})
    base = base_of(store)
    enablement = {ENABLEMENT_KEYS[0]: "1", ENABLEMENT_KEYS[1]: str(NOON_MS + 7000)}
    add_rival(
        store,
        [
            commit_info(operation="SET", inCommitTimestamp=NOON_MS + 7000),
            TIMED_UPGRADE,
            metadata({**ENABLED, **enablement}),
        ],
    )
    outcome = commit_at(store, 0, add("a"), base=base)
    assert outcome.version == 2 and time_of(store, 2) == NOON_MS + 7001


TIMED_UPGRADE = dataclasses.replace(TIMED_PROTOCOL, writer_features=("appendOnly", "invariants", "inCommitTimestamp"))


def test_the_enabling_commit_records_the_enablement_and_is_later_than_the_previous_file():
    store = create(new_store())
    file_ms = store.files[commit_name(0)][1]
    outcome = commit_at(store, 0, TIMED_UPGRADE, metadata(ENABLED), base=base_of(store), now_ms=file_ms - 500)
    assert outcome.timestamp_ms == time_of(store, 1) == file_ms + 1
    configuration = Snapshot.load(store).configuration
    assert (configuration[ENABLEMENT_KEYS[0]], configuration[ENABLEMENT_KEYS[1]]) == ("1", str(file_ms + 1))
    assert Snapshot.load_at(store, file_ms).version == 0


def test_the_recorded_enablement_has_the_version_that_the_commit_gets():
    store = create(new_store())
    base = base_of(store)
    add_rival(store, [commit_info(operation="WRITE", isBlindAppend=True), add("w")])
    outcome = commit_at(store, 0, TIMED_UPGRADE, metadata(ENABLED), base=base)
    properties = Snapshot.load(store).configuration
    assert outcome.version == 2 and (properties[ENABLEMENT_KEYS[0]], properties[ENABLEMENT_KEYS[1]]) == (
        "2",
        str(outcome.timestamp_ms),
    )
    assert outcome.timestamp_ms > store.files[commit_name(1)][1]


def test_a_later_metadata_change_keeps_the_recorded_enablement():
    store = create(new_store())
    commit_at(store, 0, TIMED_UPGRADE, metadata(ENABLED), base=base_of(store))
    before = Snapshot.load(store)
    changed_metadata = dataclasses.replace(before.metadata, description="later")
    commit_at(store, 1, changed_metadata, base=base_of(store))
    assert Snapshot.load(store).configuration == before.configuration


def test_a_commit_whose_put_was_not_answered_returns_its_timestamp():
    store = timed_table(NOON_MS + 60_000)
    state = {"has_failed": False}

    def after(operation, _name):
        if operation == "write_if_absent" and not state["has_failed"]:
            state["has_failed"] = True
            raise StorageError("No answer.", remedy="Wait.")

    base = base_of(store)
    store.after = after
    outcome = commit_at(store, 0, add("a"), base=base)
    assert outcome == Committed(version=1, timestamp_ms=NOON_MS + 60_001) and time_of(store, 1) == NOON_MS + 60_001


def test_racing_writers_with_one_clock_get_different_timestamps(tmp_path):
    store = LocalLogStore(str(tmp_path / "t"))
    commit_at(store, -1, TIMED_PROTOCOL, metadata(ENABLED))
    base = base_of(store)

    def append(writer):
        return [commit_at(store, 0, add(f"{writer}-{n}"), base=base) for n in range(5)]

    with ThreadPoolExecutor(8) as pool:
        commits = [outcome for outcomes in pool.map(append, range(8)) for outcome in outcomes]
    times = sorted((outcome.version, outcome.timestamp_ms) for outcome in commits)
    assert times == [(version, NOON_MS + version) for version in range(1, 41)]
    assert Snapshot.load_at(store, NOON_MS + 17).version == 17


def test_a_metadata_change_conflicts_with_a_winning_enablement():
    store = create(new_store())
    base = base_of(store)
    add_rival(store, [commit_info(operation="SET", inCommitTimestamp=NOON_MS), TIMED_UPGRADE, metadata(ENABLED)])
    with pytest.raises(MetadataChangedException):
        commit_at(store, 0, metadata({"mine": "x"}), remove("f"), base=base)
