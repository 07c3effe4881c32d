"""The history of a table: who did what, newest first.

Each entry is a commit's provenance as its writer gave it, with Spark's names, plus `version` and `timestamp`, which
replaces the writer's own: it is the time that time travel goes by, so travelling to it gives the version. A commit
without provenance is an entry too. Protocol: Commit Provenance Information.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from deltalite.log.commit_times import commit_times
from deltalite.protocol.actions import CommitInfo, iter_raw_actions
from deltalite.protocol.file_names import commit_name
from deltalite.storage.log_store import LogStore


def read_history(store: LogStore, *, up_to_version: int) -> Iterator[dict[str, Any]]:
    """Entries from `up_to_version` (inclusive) back to the oldest commit the log holds.

    `timestamp` is a datetime in UTC: the commit's time, as `commit_times` has it.
    """
    for time in reversed(commit_times(store)):
        if time.version > up_to_version:
            continue
        name = commit_name(time.version)
        data = store.read(name)
        if data is None:
            return
        info = next((body for kind, body in iter_raw_actions(data, name) if kind == CommitInfo.action), {})
        yield {**info, "version": time.version, "timestamp": datetime.fromtimestamp(time.timestamp_ms / 1000, tz=UTC)}
