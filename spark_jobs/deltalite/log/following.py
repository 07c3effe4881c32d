"""Reads a log from a position on, commit by commit. A poll without a new commit takes two requests.

A position holds a digest of its version's commit. The digest of a recreated table at the same address differs. The
first request reads the next commit by its name, the second the commit of the position. If the log still holds the
latter, it has lost no later commit; otherwise a third request lists the log.

A position has no digest if the log did not hold the commit at the time. Then the second request lists the log from the
position on, and a third one reads the digest once the commit exists. A table that was recreated before its first commit
was read cannot be distinguished from its predecessor.
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
from deltalite.requests.provenance import moment
from deltalite.storage.log_store import LogStore

T = TypeVar("T")

# The bytes of the first read of a commit. Most commits are shorter, so one request reads them whole.
_START_BYTES = WHOLE_LINE_BYTES
_DIGESTED_BYTES = 4 * 1024
# The limits of a summary: a commit may have any number of app ids and partitions, of any length.
_MAX_APP_IDS = 1_000
_MAX_PARTITIONS = 10_000
_MAX_TEXT = 512 * 1024
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
    """Return the position after a version, with the digest of its commit."""
    return LogPosition(version=version, commit_digest=_digest(_start(store, version)) if version >= 0 else None)


def follow(store: LogStore, position: LogPosition, condition: CommitCondition | None = None) -> Iterator[Step]:
    """Yield the steps after `position`, in order; the caller's loop reads them one by one.

    1. The next commit exists, and the commit of the position does too or was just cleaned up: yield commits.
    2. The commit of the position has another digest: the table was recreated.
    3. Neither exists: the listing shows whether log cleanup deleted them, or the table was recreated or dropped.
    4. The commit of the position was never read: the listing shows whether it exists now, or was deleted.

    With a condition, the summaries are made for it, see `summarize`.

    Raises:
        CorruptLogError: a commit is malformed.
        StorageError, StoragePermissionError: storage failed to answer, or denied access.
    """
    following = _start(store, position.version + 1)
    step = _before_commits(store, position, following)
    if step is not None:
        yield step
        if isinstance(step, DigestFound):  # there was no commit after it
            return
        position = step.position
        following = _start(store, position.version + 1)
    while following is not None:
        position = replace(position, version=position.version + 1, commit_digest=_digest(following))
        try:
            summary = _summary(store, position.version, following, condition)
        except VersionGapError:  # deleted since its start was read; the next poll finds the reason
            return
        yield Commit(summary=summary, position=position)
        following = _start(store, position.version + 1)


def _before_commits(
    store: LogStore, position: LogPosition, following: bytes | None
) -> Gap | Recreated | DigestFound | None:
    """Return the step before the next commit, if there is one."""
    if not position.commit_digest:
        return None if following is not None else _without_digest(store, position)
    start = _start(store, position.version)
    if start is not None:
        return None if _digest(start) == position.commit_digest else _recreated()
    return None if following is not None else _missing(store, position)


def _missing(store: LogStore, position: LogPosition) -> Gap | Recreated | None:
    """Find out why a commit is missing; None if it is still to come, or if the log is gone or changing."""
    versions = list(_versions_from(store, 0))
    newer = next((version for version in versions if version > position.version), None)
    if newer is not None:
        return _gap(position, newer)
    is_other_table = versions and position.version not in versions
    return _recreated() if is_other_table else None


def _without_digest(store: LogStore, position: LogPosition) -> Gap | DigestFound | None:
    """Look up the commit of a position that has no digest and no commit after it."""
    first = next(_versions_from(store, max(position.version, 0)), None)
    if first is None:
        return None
    if first > position.version:
        return _gap(position, first)
    digest = _digest(_start(store, position.version))
    return DigestFound(position=replace(position, commit_digest=digest)) if digest else None


def _versions_from(store: LogStore, version: int) -> Iterator[int]:
    """Yield the versions of the commits in the log, from `version` on, in order."""
    for stored in store.list_from(first_name_of(version)):
        parsed = parse_log_name(stored.name)
        if parsed is not None and parsed.kind is LogFileKind.COMMIT:
            yield parsed.version


def _gap(position: LogPosition, newer: int) -> Gap | None:
    """Return the gap between a position and a newer version; None if that is the next version, which is new."""
    if newer == position.version + 1:
        return None
    after = replace(position, version=newer - 1, commit_digest=None)
    return Gap(first=position.version + 1, last=after.version, position=after)


def _recreated() -> Recreated:
    return Recreated(position=LogPosition(version=-1, recreated=True))


def _start(store: LogStore, version: int) -> bytes | None:
    """Return the first bytes of a commit, None if it does not exist."""
    return store.read_start(commit_name(version), _START_BYTES)


def _digest(start: bytes | None) -> str:
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
    complete. Without one it holds as many as the limits allow.

    A trigger sends texts and numbers of the summary to Airflow. One that Airflow cannot encode would end the triggerer,
    so unusual characters are escaped, and a time of more than 64 bits counts as missing.

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
                    run = _run(values.get("userMetadata"))
            case SetTransaction(app_id=app_id):
                if condition is None or condition.names_app_id(app_id):
                    app_ids.add(app_id, app_id, len(app_id))
            case AddFile() | RemoveFile() | AddCDCFile() as file:
                data_changed = data_changed or (file.data_change and not isinstance(file, AddCDCFile))
                touched = file.partition_values
                knows_partitions = knows_partitions and (touched is not None or not file.data_change)
                if touched is not None and (condition is None or condition.names_partition(touched)):
                    length = sum(len(name) + len(value or "") for name, value in touched.items())
                    partitions.add(frozenset(touched.items()), touched, length)
            case Metadata(id=raw_id):
                table_id = encodable_text(raw_id)
            case Protocol() | DomainMetadata() | None:
                pass
    return CommitSummary(
        version=version,
        timestamp_ms=_timestamp_ms(info or {}),
        operation=_text((info or {}).get("operation")),
        data_changed=data_changed,
        app_ids=frozenset(app_ids.items.values()),
        partitions=tuple(partitions.items.values()),
        table_id=table_id,
        knows_partitions=knows_partitions,
        is_complete=condition is not None or (app_ids.is_complete and partitions.is_complete),
        run=run,
    )


class _Bounded(Generic[T]):
    """Distinct values in order, up to a limit for their number and total length; the first one is always kept."""

    def __init__(self, most: int) -> None:
        self.items: dict[Hashable, T] = {}
        self.is_complete = True
        self._most = most
        self._text = 0

    def add(self, key: Hashable, value: T, length: int) -> None:
        """Keep the value, or record that one was left out."""
        if key in self.items:
            return
        if self.items and (len(self.items) >= self._most or self._text + length > _MAX_TEXT):
            self.is_complete = False
            return
        self.items[key] = value
        self._text += length


def _run(text: object) -> dict[str, str]:
    """Return the DAG run properties in a commit's provenance, with times in UTC; empty for too long a text."""
    if not isinstance(text, str) or len(text) > _LONGEST_PROVENANCE:
        return {}
    run = RunProvenance.from_text(text)
    values = {name: getattr(run, name) for name in MADE_BY}
    times = {name: time.isoformat() for name in MADE_BY_TIMES if (time := moment(values[name])) is not None}
    texts = {name: str(value) for name, value in values.items() if value is not None and name not in MADE_BY_TIMES}
    return texts | times


def _timestamp_ms(info: Mapping[str, Any]) -> int:
    """Return the commit's time, or 0: provenance is free-form, so it may be missing, of another type or too large."""
    timestamp = info.get("timestamp")
    return timestamp if type(timestamp) is int and -(2**63) <= timestamp < 2**63 else 0


def _text(operation: Any) -> str | None:
    return encodable_text(operation[:_LONGEST_OPERATION]) if isinstance(operation, str) else None
