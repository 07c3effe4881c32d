"""The history of a table: the provenance of its commits, newest first.

Each entry is a commit's provenance with Spark's names, plus `version` and `timestamp`. `timestamp` replaces the
writer's timestamp by the commit time: time travel to this time returns the version. A commit without provenance is an
entry too.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from deltalite.log.commit_infos import commit_infos
from deltalite.log.commit_times import InCommitSettings
from deltalite.storage.log_store import LogStore


def read_history(
    store: LogStore, *, up_to_version: int, in_commit: InCommitSettings | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the entries from `up_to_version` (inclusive) back to the oldest commit in the log.

    `timestamp` is a datetime in UTC: the in-commit timestamp if `in_commit` covers the commit, else the time of the
    commit's file. `in_commit` are the `in_commit_settings` of the snapshot.

    Raises:
        CorruptLogError: a commit lacks its required in-commit timestamp, or a line before its provenance is malformed.
        StorageError: the log cannot be read.
    """
    for commit in commit_infos(store, up_to_version=up_to_version, in_commit=in_commit):
        timestamp = datetime.fromtimestamp(commit.timestamp_ms / 1000, tz=UTC)
        yield {**commit.info, "version": commit.version, "timestamp": timestamp}
