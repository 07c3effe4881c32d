"""Reads a log from a position on, commit by commit. A poll without a new commit takes two requests.

A position holds a digest of the commit of its version. A recreated table at the same address has another digest. The
first request reads the next commit by its name, and the second request reads the commit of the position. If the log
still holds the position's commit, log cleanup has deleted no later commit. If neither commit exists, a third request
lists the log.

A position has no digest if the log did not hold the commit when the position was taken. Then the second request lists
the log from the position on, and a third request reads the digest once the commit exists. If a table is recreated
before its first commit was read, this module cannot distinguish the two tables.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from deltalite.conditions import MADE_BY, MADE_BY_TIMES, CommitCondition, CommitSummary, LogPosition
from deltalite.errors import VersionGapError, encodable_text
from deltalite.log.bounded_actions import WHOLE_LINE_BYTES, read_bounded_actions
from deltalite.protocol.actions import (
    AddCDCFile,
    AddFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
    iter_raw_actions,
    parse_action,
)
from deltalite.protocol.file_names import LogFileKind, commit_name, first_name_of, parse_log_name
from deltalite.requests import RunProvenance
from deltalite.requests.provenance import parse_time
from deltalite.storage.log_store import LogStore

T = TypeVar("T")

# The bytes of the first read of a commit. Most commits are shorter, so one request reads them whole.
_START_BYTES = WHOLE_LINE_BYTES
_DIGESTED_BYTES = 4 * 1024
# The limits of a summary: a commit may have any number of app ids and partitions, of any length.
_MAX_APP_IDS = 1_000
_MAX_PARTITIONS = 10_000
_MAX_TOTAL_LENGTH = 512 * 1024
_LONGEST_OPERATION = 1_000
_LONGEST_PROVENANCE = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit, and the position after it."""

    summary: CommitSummary
    position: LogPosition


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Log cleanup has deleted the commits from `first` to `last`, both inclusive, before they were read."""

    first: int
    last: int
    position: LogPosition


@dataclass(frozen=True, slots=True, kw_only=True)
class Recreated:
    """The table was dropped and created again; `position` is the start of the new table."""

    position: LogPosition


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestFound:
    """The commit of a position without a digest exists now; `position` has its digest."""

    position: LogPosition


Step = Commit | Gap | Recreated | DigestFound


def position_at(store: LogStore, version: int) -> LogPosition:
    """Return the position after a version, with the digest of its commit if the log holds the commit."""
    return LogPosition(version=version, commit_digest=_digest(_read_start(store, version)) if version >= 0 else None)


def is_newest(store: LogStore, position: LogPosition) -> bool:
    """Whether the log still holds the commit of the position, and no commit after it.

    Sends at most two requests, unless a commit is empty. A position without a digest gives False, and so does a deleted
    log.

    Raises:
        StorageError, StoragePermissionError: storage failed to answer, or denied access.
    """
    if not position.commit_digest or _read_start(store, position.version + 1) is not None:
        return False
    return _digest(_read_start(store, position.version)) == position.commit_digest


def follow(store: LogStore, position: LogPosition, condition: CommitCondition | None = None) -> Iterator[Step]:
    """Yield the steps after `position`, in order.

    1. The position's commit has another digest: the table was recreated.
    2. Otherwise, the next commit exists: yield commits. This is done even if the position has no digest, or if log
       cleanup has just deleted the position's commit.
    3. Neither commit exists: the listing shows whether log cleanup deleted them, or the table was recreated or dropped.
    4. The position has no digest, and no next commit exists: the listing shows whether the position's commit exists
       now, or was deleted.

    With a condition, the summaries hold the app ids and partitions that the condition names; see `summarize`.

    Raises:
        CorruptLogError: a commit is malformed.
        StorageError, StoragePermissionError: storage failed to answer, or denied access.
    """
    next_start = _read_start(store, position.version + 1)
    step = _step_before_commits(store, position, next_start)
    if step is not None:
        yield step
        if isinstance(step, DigestFound):  # no commit follows the position yet
            return
        position = step.position
        next_start = _read_start(store, position.version + 1)
    while next_start is not None:
        position = replace(position, version=position.version + 1, commit_digest=_digest(next_start))
        try:
            summary = _summary(store, position.version, next_start, condition)
        except VersionGapError:  # the commit was deleted after its start was read; the next poll finds the reason
            return
        yield Commit(summary=summary, position=position)
        next_start = _read_start(store, position.version + 1)


def _step_before_commits(
    store: LogStore, position: LogPosition, next_start: bytes | None
) -> Gap | Recreated | DigestFound | None:
    """Return the step before the next commit, if there is one; `next_start` holds the first bytes of that commit."""
    if not position.commit_digest:
        return None if next_start is not None else _step_without_digest(store, position)
    start = _read_start(store, position.version)
    if start is not None:
        return None if _digest(start) == position.commit_digest else _recreated_step()
    return None if next_start is not None else _step_without_commits(store, position)


def _step_without_commits(store: LogStore, position: LogPosition) -> Gap | Recreated | None:
    """Return the step of a position whose commit and next commit are missing; None if the cause is unknown yet."""
    versions = list(_versions_from(store, 0))
    newer_version = next((version for version in versions if version > position.version), None)
    if newer_version is not None:
        return _gap_before(position, newer_version)
    is_recreated = versions and position.version not in versions
    return _recreated_step() if is_recreated else None


def _step_without_digest(store: LogStore, position: LogPosition) -> Gap | DigestFound | None:
    """Look up the commit of a position that has no digest and no commit after it."""
    first_version = next(_versions_from(store, max(position.version, 0)), None)
    if first_version is None:
        return None
    if first_version > position.version:
        return _gap_before(position, first_version)
    digest = _digest(_read_start(store, position.version))
    return DigestFound(position=replace(position, commit_digest=digest)) if digest else None


def _versions_from(store: LogStore, version: int) -> Iterator[int]:
    """Yield the versions of the commits in the log, from `version` on, in order."""
    for stored in store.list_from(first_name_of(version)):
        parsed = parse_log_name(stored.name)
        if parsed is not None and parsed.kind is LogFileKind.COMMIT:
            yield parsed.version


def _gap_before(position: LogPosition, newer_version: int) -> Gap | None:
    """Return the gap between a position and a newer version; None if the newer version directly follows."""
    if newer_version == position.version + 1:
        return None
    position_after_gap = replace(position, version=newer_version - 1, commit_digest=None)
    return Gap(first=position.version + 1, last=position_after_gap.version, position=position_after_gap)


def _recreated_step() -> Recreated:
    return Recreated(position=LogPosition(version=-1, recreated=True))


def _read_start(store: LogStore, version: int) -> bytes | None:
    """Return the first bytes of a commit, None if it does not exist.

    An empty commit does not exist yet, because some storages show the name of a file before its content. If a later
    commit follows, the empty commit will stay empty, and counts as a commit without actions.
    """
    start = store.read_start(commit_name(version), _START_BYTES)
    if start == b"" and store.read_start(commit_name(version + 1), 1) is None:
        return None
    return start


def _digest(start: bytes | None) -> str:
    """Return the digest of a commit's first bytes; an empty text for a missing commit."""
    return "" if start is None else hashlib.sha256(start[:_DIGESTED_BYTES]).hexdigest()[:32]


def summary_at(store: LogStore, version: int, condition: CommitCondition) -> CommitSummary:
    """Return the summary of a commit for a condition.

    Raises:
        VersionGapError: the commit does not exist.
        CorruptLogError: the commit is malformed.
        StorageError, StoragePermissionError: storage failed to answer, or denied access.
    """
    return summarize(version, read_bounded_actions(store, commit_name(version)), condition)


def _summary(store: LogStore, version: int, start: bytes, condition: CommitCondition | None) -> CommitSummary:
    """Return the summary of a commit; a commit longer than `start` is read in chunks, because it may be very large."""
    name = commit_name(version)
    is_whole = len(start) < _START_BYTES
    actions = iter_raw_actions(start, name) if is_whole else read_bounded_actions(store, name)
    return summarize(version, actions, condition)


def summarize(
    version: int, actions: Iterable[tuple[str, Mapping[str, Any]]], condition: CommitCondition | None = None
) -> CommitSummary:
    """Summarize the (kind, body) pairs of a commit's actions for conditions, in bounded memory.

    With a condition, the summary holds only the app ids and partitions that the condition names, and is always
    complete. Without a condition, the summary holds as many app ids and partitions as the limits allow.

    A trigger sends the operation, the table id and the time of the summary to Airflow. A value that Airflow cannot
    encode would end the triggerer. Unusual characters of the operation and the table id are therefore escaped, and a
    time of more than 64 bits counts as missing.

    Raises:
        CorruptLogError: an action is malformed.
    """
    info: Mapping[str, Any] | None = None
    run: Mapping[str, str] = {}
    table_id: str | None = None
    data_changed = False
    knows_partitions = True
    app_ids = _Bounded[str](_MAX_APP_IDS)
    partitions = _Bounded[Mapping[str, str | None]](_MAX_PARTITIONS)
    for kind, body in actions:
        match parse_action(kind, body, commit_name(version)):
            case CommitInfo(values=values):
                if info is None:
                    info = {key: values.get(key) for key in ("operation", "timestamp")}
                    run = _run_texts(values.get("userMetadata"))
            case SetTransaction(app_id=app_id):
                if condition is None or condition.names_app_id(app_id):
                    app_ids.add(app_id, app_id, len(app_id))
            case AddFile() | RemoveFile() | AddCDCFile() as file:
                data_changed = data_changed or (file.data_change and not isinstance(file, AddCDCFile))
                partition = file.partition_values
                knows_partitions = knows_partitions and (partition is not None or not file.data_change)
                if partition is not None and (condition is None or condition.names_partition(partition)):
                    length = sum(len(name) + len(value or "") for name, value in partition.items())
                    partitions.add(frozenset(partition.items()), partition, length)
            case Metadata(id=raw_id):
                table_id = encodable_text(raw_id)
            case Protocol() | DomainMetadata() | None:
                pass
    return CommitSummary(
        version=version,
        timestamp_ms=_timestamp_ms(info or {}),
        operation=_operation_text((info or {}).get("operation")),
        data_changed=data_changed,
        app_ids=frozenset(app_ids.items.values()),
        partitions=tuple(partitions.items.values()),
        table_id=table_id,
        knows_partitions=knows_partitions,
        is_complete=condition is not None or (app_ids.is_complete and partitions.is_complete),
        run=run,
    )


class _Bounded(Generic[T]):
    """Distinct values in order, up to a limit for their number and total length; the first value is always kept."""

    def __init__(self, max_items: int) -> None:
        self.items: dict[Hashable, T] = {}
        self.is_complete = True
        self._max_items = max_items
        self._total_length = 0

    def add(self, key: Hashable, value: T, length: int) -> None:
        """Keep the value, or record that a value was left out. `length` counts towards the total length."""
        if key in self.items:
            return
        if self.items and (len(self.items) >= self._max_items or self._total_length + length > _MAX_TOTAL_LENGTH):
            self.is_complete = False
            return
        self.items[key] = value
        self._total_length += length


def _run_texts(text: object) -> dict[str, str]:
    """Return the DAG run's properties in a commit's `userMetadata`, with times in UTC.

    The result is empty if the metadata is not a text, or is very long.
    """
    if not isinstance(text, str) or len(text) > _LONGEST_PROVENANCE:
        return {}
    run = RunProvenance.from_text(text)
    values = {name: getattr(run, name) for name in MADE_BY}
    times = {name: time.isoformat() for name in MADE_BY_TIMES if (time := parse_time(values[name])) is not None}
    texts = {name: str(value) for name, value in values.items() if value is not None and name not in MADE_BY_TIMES}
    return texts | times


def _timestamp_ms(info: Mapping[str, Any]) -> int:
    """Return the commit's time; 0 if `timestamp` in the free-form provenance is not an integer of 64 bits."""
    timestamp = info.get("timestamp")
    return timestamp if type(timestamp) is int and -(2**63) <= timestamp < 2**63 else 0


def _operation_text(operation: Any) -> str | None:
    return encodable_text(operation[:_LONGEST_OPERATION]) if isinstance(operation, str) else None
