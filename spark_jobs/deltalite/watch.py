"""Watching a log grow: what sensors and triggers ask, cheaply.

A poll asks for the next commit by name, and for the checkpoint hint where there is none: two requests where nothing
is new, whatever the length of the log; it lists only where log cleanup has overtaken it. A table that does not exist
yet is version -1 and no error. `find_run` tells what an earlier try of a run committed.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from deltalite.conditions import CommitCondition, CommitSummary
from deltalite.errors import TableNotFoundError
from deltalite.log.commit_times import Timeline, in_commit_times
from deltalite.log.last_checkpoint import read_last_checkpoint
from deltalite.log.segment import find_segment
from deltalite.log.state import LogState
from deltalite.protocol.actions import AddCDCFile, AddFile, CommitInfo, RemoveFile, SetTransaction, parse_commit
from deltalite.protocol.file_names import LogFileKind, commit_name, first_name_of, parse_log_name
from deltalite.storage.log_store import LogStore
from deltalite.txn.find_run import find_run

_log = logging.getLogger(__name__)

__all__ = ["PollResult", "find_run", "latest_version", "poll", "summarize", "version_at"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PollResult:
    """`cursor` is the last version looked at; `match` the first one after the old cursor that counts, or None."""

    cursor: int
    match: CommitSummary | None


def latest_version(store: LogStore) -> int:
    """The newest version, -1 where there is no table yet."""
    try:
        return find_segment(store).version
    except TableNotFoundError:
        return -1


def version_at(store: LogStore, timestamp_ms: int) -> int:
    """The newest version committed at or before a moment (milliseconds UTC), -1 where there was none."""
    try:
        latest = LogState.open(store)
    except TableNotFoundError:
        return -1
    timeline = Timeline(store, in_commit_times(latest.protocol, latest.metadata), rebuildable_only=False)
    found = timeline.newest_at(timestamp_ms)
    return -1 if found is None else found.version


def poll(store: LogStore, after_version: int, condition: CommitCondition) -> PollResult:
    """Look at the commits above `after_version` (exclusive), up to the first one that the condition holds for.

    Commits that log cleanup has taken away cannot be looked at any more: the look goes on at the oldest that is there.
    """
    cursor = after_version
    while True:
        data = store.read(commit_name(cursor + 1))
        if data is None:
            oldest = _oldest_beyond_a_cleanup(store, cursor)
            if oldest is None:
                return PollResult(cursor=cursor, match=None)
            cursor = oldest - 1
            continue
        cursor += 1
        summary = summarize(cursor, data)
        if condition.holds_for(summary):
            return PollResult(cursor=cursor, match=summary)


def _oldest_beyond_a_cleanup(store: LogStore, cursor: int) -> int | None:
    """The oldest commit above the cursor where the next one is missing; None where the table has not moved on.

    The checkpoint hint tells the two apart in one request: commits are only cleaned up behind a checkpoint.
    """
    hint = read_last_checkpoint(store)
    if hint is None or hint.version <= cursor:
        return None
    for stored in store.list_from(first_name_of(cursor + 1)):
        parsed = parse_log_name(stored.name)
        if parsed is not None and parsed.kind is LogFileKind.COMMIT:
            if parsed.version > cursor + 1:
                _log.warning(
                    "%s no longer holds versions %s to %s; waiting goes on behind them.",
                    store.root,
                    cursor + 1,
                    parsed.version - 1,
                )
            return parsed.version
    return None


def summarize(version: int, data: bytes) -> CommitSummary:
    """What a condition may ask of a commit file. Raises `CorruptLogError` where it is malformed."""
    actions = parse_commit(data, commit_name(version))
    info = next((a.values for a in actions if isinstance(a, CommitInfo)), {})
    changing = [a for a in actions if isinstance(a, AddFile | RemoveFile) and a.data_change]
    files = [a for a in actions if isinstance(a, AddFile | RemoveFile | AddCDCFile)]
    return CommitSummary(
        version=version,
        timestamp_ms=_when(info.get("timestamp")),
        operation=_text(info.get("operation")),
        data_changed=bool(changing),
        app_ids=frozenset(a.app_id for a in actions if isinstance(a, SetTransaction)),
        partitions=tuple(dict(f.partition_values) for f in files if f.partition_values is not None),
    )


def _when(timestamp: Any) -> int:
    """Provenance is free-form: a writer may give no time, or one of another kind."""
    return timestamp if isinstance(timestamp, int) else 0


def _text(operation: Any) -> str | None:
    return operation if isinstance(operation, str) else None
