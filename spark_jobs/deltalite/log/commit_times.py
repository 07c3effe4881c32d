"""The commit times that time travel uses.

A commit's time is the modification time of its file. Clocks jump and people copy files, but two versions must never
share a time. This module therefore adjusts the times so that they increase strictly. The commit that enables in-commit
timestamps, and each later commit, has its in-commit timestamp as its time. Writers make sure that in-commit timestamps
increase, so a binary search opens few commits. A time at or after the enablement selects a commit with an in-commit
timestamp. An earlier time selects a commit before the enablement. Protocol: In-Commit Timestamps; delta-spark's
`monotonizeCommitTimestamps` and `getActiveCommitAtTime`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deltalite.errors import CorruptLogError
from deltalite.log.action_files import read_actions
from deltalite.log.bounded_actions import read_bounded_actions
from deltalite.log.listing import Listing, list_log
from deltalite.protocol.actions import CommitInfo, Metadata, Protocol
from deltalite.protocol.features import supported_features
from deltalite.protocol.file_names import commit_name
from deltalite.protocol.properties import (
    ENABLE_IN_COMMIT_TIMESTAMPS,
    ICT_ENABLEMENT_TIMESTAMP,
    ICT_ENABLEMENT_VERSION,
    Property,
)
from deltalite.storage.log_store import LogStore, StoredFile

_FEATURE = "inCommitTimestamp"
_TIME_KEY = "inCommitTimestamp"
# Delta 3.2 has a preview of the feature with the same rules. The preview's feature and properties have this suffix.
_PREVIEW = "-preview"
_LARGE_COMMIT_BYTES = 64 * 1024
# The end of the year 9999, the latest time that a datetime can hold.
_LATEST_MS = 253_402_300_799_999


@dataclass(frozen=True, slots=True)
class CommitTime:
    """A version and its time in milliseconds UTC."""

    version: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InCommitSettings:
    """The versions with an in-commit timestamp: `first_version` and all later versions.

    `enabled_at_ms` is the time of the commit `first_version` (milliseconds UTC), or None if all commits have in-commit
    timestamps.
    """

    first_version: int = 0
    enabled_at_ms: int | None = None

    def covers(self, version: int) -> bool:
        """Whether the commit of `version` has an in-commit timestamp."""
        return version >= self.first_version


def in_commit_settings(protocol: Protocol, metadata: Metadata) -> InCommitSettings | None:
    """Return the in-commit timestamp settings of a table; None if the modification times of files apply.

    Raises:
        CorruptLogError: the table has only one of the two enablement properties.
        InvalidRequestError: a property is invalid.
    """
    for suffix in ("", _PREVIEW):
        enablement = Property(ENABLE_IN_COMMIT_TIMESTAMPS.key + suffix, False, ENABLE_IN_COMMIT_TIMESTAMPS.parse)
        if f"{_FEATURE}{suffix}" not in supported_features(protocol) or not enablement.of(metadata.configuration):
            continue
        version = _integer_property(metadata, f"{ICT_ENABLEMENT_VERSION}{suffix}")
        time = _integer_property(metadata, f"{ICT_ENABLEMENT_TIMESTAMP}{suffix}")
        if version is None and time is None:
            return InCommitSettings()
        if version is None or time is None:
            raise CorruptLogError(
                "The table has only one of the properties delta.inCommitTimestampEnablementVersion and "
                "delta.inCommitTimestampEnablementTimestamp, but needs both.",
                remedy="Read by version, or repair the table's properties.",
            )
        return InCommitSettings(first_version=version, enabled_at_ms=time)
    return None


def _integer_property(metadata: Metadata, key: str) -> int | None:
    table_property: Property[int | None] = Property(key, None, int)
    return table_property.of(metadata.configuration)


def in_commit_timestamp(info: Mapping[str, Any] | None, name: str) -> int:
    """Return the in-commit timestamp in a commit's provenance; `name` is the commit's file.

    Raises:
        CorruptLogError: the commit has no valid in-commit timestamp.
    """
    time = (info or {}).get(_TIME_KEY)
    if not isinstance(time, int) or isinstance(time, bool) or not 0 <= time <= _LATEST_MS:
        raise CorruptLogError(
            f"{name} has no valid inCommitTimestamp, but in-commit timestamps are enabled.",
            remedy="Read by version, or repair the commit with the engine that wrote it.",
        )
    return time


def file_times(commits: Iterable[tuple[int, StoredFile]]) -> list[CommitTime]:
    """Return the modification times of commits in version order, adjusted to increase strictly."""
    times: list[CommitTime] = []
    for version, file in commits:
        earliest = times[-1].timestamp_ms + 1 if times else file.modified_ms
        times.append(CommitTime(version, max(file.modified_ms, earliest)))
    return times


def timed_commits(store: LogStore) -> list[tuple[CommitTime, StoredFile]]:
    """Return the commits in the log with the times of their files, in ascending order."""
    commits = list_log(store, 0).commits
    return [(time, commits[time.version]) for time in file_times((v, commits[v]) for v in sorted(commits))]


def rebuildable_versions(listing: Listing) -> list[int]:
    """Return the versions that the listed files can rebuild without a gap, in ascending order.

    A compaction with a checkpoint at one of its versions does not count, because a segment cannot use it either.
    """
    checkpoints = sorted(checkpoint.version for checkpoint in listing.checkpoints)
    steps = [(version, version) for version in listing.commits]
    steps += [(compaction.first_version, compaction.last_version) for compaction in listing.compactions]
    versions = set(checkpoints)
    for first, last in sorted(steps, key=lambda step: step[1]):
        crosses_no_checkpoint = bisect_left(checkpoints, first) == bisect_right(checkpoints, last)
        if crosses_no_checkpoint and (first == 0 or first - 1 in versions):
            versions.add(last)
    return sorted(versions)


class Timeline:
    """The commits of a table in the order of their times, from one listing of the log.

    By default these are only the commits of versions that can be rebuilt. Each in-commit timestamp is read on demand,
    once.
    """

    def __init__(self, store: LogStore, in_commit: InCommitSettings | None, *, rebuildable_only: bool = True) -> None:
        listing = list_log(store, 0)
        candidates = rebuildable_versions(listing) if rebuildable_only else sorted(listing.commits)
        # A version has no time if only its checkpoint is left.
        self.versions: Sequence[int] = [version for version in candidates if version in listing.commits]
        self._store = store
        self._commits = listing.commits
        self._in_commit = in_commit
        # Commits that cannot be rebuilt count too, so that log cleanup does not change the times of later commits.
        adjusted_times = file_times((version, listing.commits[version]) for version in sorted(listing.commits))
        self._times = {
            time.version: time.timestamp_ms
            for time in adjusted_times
            if in_commit is None or not in_commit.covers(time.version)
        }

    def time_of(self, version: int) -> int:
        """Return the time of a commit, in milliseconds UTC.

        Raises:
            CorruptLogError: the commit lacks its required in-commit timestamp.
            VersionGapError: the commit was deleted since the listing.
        """
        if version not in self._times:
            self._times[version] = read_in_commit_timestamp(self._store, self._commits[version])
        return self._times[version]

    def newest_at(self, timestamp_ms: int) -> CommitTime | None:
        """Return the newest commit at or before a time, or None.

        Raises:
            CorruptLogError, VersionGapError: see `time_of`.
        """
        candidates = self._candidates(timestamp_ms)
        index = bisect_right(candidates, timestamp_ms, key=self.time_of) - 1
        return None if index < 0 else CommitTime(candidates[index], self.time_of(candidates[index]))

    def _candidates(self, timestamp_ms: int) -> Sequence[int]:
        """Return the versions to search for a time: those before the enablement, or those with in-commit timestamps."""
        if self._in_commit is None or self._in_commit.enabled_at_ms is None:
            return self.versions
        has_in_commit = timestamp_ms >= self._in_commit.enabled_at_ms
        return [version for version in self.versions if self._in_commit.covers(version) is has_in_commit]


def commit_file(store: LogStore, version: int) -> StoredFile | None:
    """Return the commit of a version from a listing of the log, None if it does not exist."""
    file = next(iter(store.list_from(commit_name(version))), None)
    return file if file is not None and file.name == commit_name(version) else None


def read_in_commit_timestamp(store: LogStore, commit: StoredFile) -> int:
    """Return the in-commit timestamp of a commit. A large commit is read in small chunks, up to its provenance.

    Raises:
        CorruptLogError: the commit has no valid in-commit timestamp.
        VersionGapError: the commit was deleted since the listing.
    """
    if commit.size_bytes > _LARGE_COMMIT_BYTES:
        actions = read_bounded_actions(store, commit.name)
    else:
        actions = read_actions(store, commit.name, commit.size_bytes)
    info = next((body for kind, body in actions if kind == CommitInfo.action), None)
    return in_commit_timestamp(info, commit.name)
