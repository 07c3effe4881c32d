"""When each commit was made, as time travel sees it.

A commit's time is the modification time of its file, made strictly increasing: clocks jump and files are copied, and
two versions must never share a time. Protocol: Commit timestamps (Action Reconciliation); delta-spark's
`monotonizeCommitTimestamps`.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltalite.protocol.file_names import LogFileKind, first_name_of, parse_log_name
from deltalite.storage.log_store import LogStore


@dataclass(frozen=True, slots=True)
class CommitTime:
    """A version and its time in milliseconds UTC."""

    version: int
    timestamp_ms: int


def commit_times(store: LogStore, first_version: int = 0) -> list[CommitTime]:
    """The commits that the log still holds from `first_version` on, ascending in version and in time."""
    times: list[CommitTime] = []
    for stored in store.list_from(first_name_of(first_version)):
        parsed = parse_log_name(stored.name)
        if parsed is None or parsed.kind is not LogFileKind.COMMIT:
            continue
        earliest = times[-1].timestamp_ms + 1 if times else stored.modified_ms
        times.append(CommitTime(parsed.version, max(stored.modified_ms, earliest)))
    return times


def newest_at(times: list[CommitTime], timestamp_ms: int) -> CommitTime | None:
    """The newest commit at or before the moment, or None where the first is later."""
    return next((t for t in reversed(times) if t.timestamp_ms <= timestamp_ms), None)
