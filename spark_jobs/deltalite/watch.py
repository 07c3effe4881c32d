"""Watching a log grow: what sensors and triggers ask, cheaply.

A poll asks for the next commit by name, and for the checkpoint hint where there is none: two requests where nothing
is new, whatever the length of the log; it lists only where log cleanup has overtaken it. A table that does not exist
yet is version -1 and no error. `find_run` tells what an earlier try of a run committed, `find_checkpoint` whether a
checkpoint has been written.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from deltalite.conditions import CommitCondition, CommitSummary
from deltalite.errors import TableNotFoundError, VersionGapError
from deltalite.log.action_files import read_actions
from deltalite.log.commit_times import Timeline, in_commit_times
from deltalite.log.last_checkpoint import read_last_checkpoint
from deltalite.log.segment import find_segment
from deltalite.log.state import LogState
from deltalite.protocol.actions import (
    AddCDCFile,
    AddFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
    parse_action,
)
from deltalite.protocol.file_names import LogFileKind, commit_name, first_name_of, parse_log_name
from deltalite.results import OperationResult, checkpoint_result
from deltalite.storage.log_store import LogStore
from deltalite.txn.find_run import find_run

_log = logging.getLogger(__name__)

__all__ = ["PollResult", "find_checkpoint", "find_run", "latest_version", "poll", "summarize", "version_at"]


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


def find_checkpoint(store: LogStore, *, from_version: int) -> OperationResult | None:
    """What a checkpoint task came to: the newest checkpoint, where it is of `from_version` or a newer one."""
    try:
        checkpoint = find_segment(store).checkpoint
    except TableNotFoundError:
        return None
    if checkpoint is None or checkpoint.version < from_version:
        return None
    return checkpoint_result(store.root, checkpoint.version, was_there=False, metrics={})


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
        summary = _summary_of(store, cursor + 1)
        if summary is None:
            oldest = _oldest_beyond_a_cleanup(store, cursor)
            if oldest is None:
                return PollResult(cursor=cursor, match=None)
            cursor = oldest - 1
            continue
        cursor += 1
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


def _summary_of(store: LogStore, version: int) -> CommitSummary | None:
    """The summary of a commit, None where there is none yet. It is read in blocks: a commit may be very large."""
    try:
        return summarize(version, read_actions(store, commit_name(version)))
    except VersionGapError:
        return None


def summarize(version: int, actions: Iterable[tuple[str, Mapping[str, Any]]]) -> CommitSummary:
    """What a condition may ask of a commit, from the (kind, body) pairs of its actions.

    Raises:
        CorruptLogError: an action is malformed.
    """
    info: Mapping[str, Any] | None = None
    data_changed = False
    app_ids: set[str] = set()
    partitions: dict[frozenset[tuple[str, str | None]], Mapping[str, str | None]] = {}
    for kind, body in actions:
        match parse_action(kind, body, commit_name(version)):
            case CommitInfo(values=values):
                info = values if info is None else info
            case SetTransaction(app_id=app_id):
                app_ids.add(app_id)
            case AddFile() | RemoveFile() | AddCDCFile() as file:
                data_changed = data_changed or (file.data_change and not isinstance(file, AddCDCFile))
                if file.partition_values is not None:
                    partitions.setdefault(frozenset(file.partition_values.items()), file.partition_values)
            case Protocol() | Metadata() | DomainMetadata() | None:
                pass
    return CommitSummary(
        version=version,
        timestamp_ms=_when((info or {}).get("timestamp")),
        operation=_text((info or {}).get("operation")),
        data_changed=data_changed,
        app_ids=frozenset(app_ids),
        partitions=tuple(partitions.values()),
    )


def _when(timestamp: Any) -> int:
    """Provenance is free-form: a writer may give no time, or one of another kind."""
    return timestamp if isinstance(timestamp, int) else 0


def _text(operation: Any) -> str | None:
    return operation if isinstance(operation, str) else None
