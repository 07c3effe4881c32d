"""The history of a table: the provenance of its commits, newest first.

Each entry is a commit's provenance with Spark's names, plus `version` and `timestamp`. `timestamp` replaces the
writer's timestamp by the commit time: time travel to this time returns the version. A commit without provenance is an
entry too. Each commit is read only up to its provenance, which comes first. Protocol: Commit Provenance Information.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from deltalite.errors import VersionGapError
from deltalite.log.commit_times import InCommitTimes, commit_times, in_commit_timestamp
from deltalite.log.replay import read_commit_info
from deltalite.storage.log_store import LogStore


def read_history(
    store: LogStore, *, up_to_version: int, in_commit: InCommitTimes | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the entries from `up_to_version` (inclusive) back to the oldest commit in the log.

    `timestamp` is a datetime in UTC: the in-commit timestamp if `in_commit` covers the commit, else the time of the
    commit's file. `in_commit` is the result of `in_commit_times` for the snapshot's protocol and metadata.

    Raises:
        CorruptLogError: a commit lacks its required in-commit timestamp, or a line before its provenance is malformed.
    """
    for time, commit in reversed(commit_times(store)):
        if time.version > up_to_version:
            continue
        try:
            info = read_commit_info(store, commit) or {}
        except VersionGapError:  # log cleanup deleted the commit, and all older ones before it
            return
        has_in_commit = in_commit is not None and in_commit.covers(time.version)
        timestamp_ms = in_commit_timestamp(info, commit.name) if has_in_commit else time.timestamp_ms
        yield {**info, "version": time.version, "timestamp": datetime.fromtimestamp(timestamp_ms / 1000, tz=UTC)}
