"""The history of a table: who did what, newest first.

Each entry is a commit's provenance as its writer gave it, with Spark's names, plus `version` and `timestamp`, which
replaces the writer's own: it is the time that time travel goes by, so travelling to it gives the version. A commit
without provenance is an entry too. A commit is read no further than its provenance, which stands first. Protocol:
Commit Provenance Information.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from deltalite.errors import VersionGapError
from deltalite.log.commit_times import InCommitTimes, commit_times, required_time
from deltalite.log.replay import read_commit_info
from deltalite.storage.log_store import LogStore


def read_history(
    store: LogStore, *, up_to_version: int, in_commit: InCommitTimes | None = None
) -> Iterator[dict[str, Any]]:
    """Entries from `up_to_version` (inclusive) back to the oldest commit the log holds.

    `timestamp` is a datetime in UTC: the time of the commit's file, or the commit's own where `in_commit` covers it
    (`in_commit_times` of the snapshot's protocol and metadata).

    Raises:
        CorruptLogError: while reading, for a commit that should carry its time and does not.
    """
    for time, commit in reversed(commit_times(store)):
        if time.version > up_to_version:
            continue
        try:
            info = read_commit_info(store, commit) or {}
        except VersionGapError:  # log cleanup has come by, and takes the older ones first
            return
        carried = in_commit is not None and in_commit.cover(time.version)
        timestamp_ms = required_time(info, commit.name) if carried else time.timestamp_ms
        yield {**info, "version": time.version, "timestamp": datetime.fromtimestamp(timestamp_ms / 1000, tz=UTC)}
