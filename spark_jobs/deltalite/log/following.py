"""Following a log: what has come since a place in it, commit by commit, at the price of two requests where nothing has.

A place has a mark of its version's commit, by which a table that was made again under its address is told from the one
that was followed, whatever versions it has come to. Two requests tell that nothing has come: the next commit by its
name, and one's own, since a log that still holds it has lost nothing behind it. Where the mark is not known, since the
log did not hold the commit when it was looked for, the second is a listing from there on; a third takes the mark once
the commit is there. A third is a listing too where one's own commit is gone. What cannot be told apart: a table that
was made again before its first commit was seen by us.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from deltalite.conditions import CommitSummary, Place
from deltalite.errors import VersionGapError
from deltalite.log.action_files import read_actions
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
from deltalite.storage.log_store import LogStore

# What is asked for of a commit before it is known how long it is: most are shorter, and so are one request.
_START_BYTES = 64 * 1024
_MARKED_BYTES = 4 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit, and the place behind it."""

    summary: CommitSummary
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Log cleanup has taken away the commits from `first` to `last`, both inclusive, before they were seen."""

    first: int
    last: int
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Remade:
    """Another table is under the address now; it is followed from its beginning, where `place` is."""

    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """The commit of a place that had no mark is there now: `place` has it."""

    place: Place


Step = Commit | Gap | Remade | Marked


def place_at(store: LogStore, version: int) -> Place:
    """The place behind a version, with its mark."""
    return Place(version=version, mark=_mark(_start(store, version)) if version >= 0 else None)


def follow(store: LogStore, place: Place) -> Iterator[Step]:
    """What has come behind `place`, in order, read as it is asked for.

    1. The next commit is there, and so is one's own, or that has just been cleaned up: commits.
    2. One's own is another one: the table was made again.
    3. Neither is there: the listing tells whether log cleanup has gone past, the table was made again, or is gone.
    4. One's own was never seen: the listing tells whether it is there now, or cleanup has gone past.

    Raises:
        CorruptLogError: a commit is malformed.
        StorageError, StoragePermissionError: storage failed to answer, or refused.
    """
    following = _start(store, place.version + 1)
    step = _before_commits(store, place, following)
    if step is not None:
        yield step
        if isinstance(step, Marked):  # nothing had come behind it
            return
        place = step.place
        following = _start(store, place.version + 1)
    while following is not None:
        place = replace(place, version=place.version + 1, mark=_mark(following))
        try:
            summary = _summary(store, place.version, following)
        except VersionGapError:  # gone since its start was read; the next look sees why
            return
        yield Commit(summary=summary, place=place)
        following = _start(store, place.version + 1)


def _before_commits(store: LogStore, place: Place, following: bytes | None) -> Gap | Remade | Marked | None:
    """What comes before the next commit, where something does."""
    if not place.mark:
        return None if following is not None else _unmarked(store, place)
    own = _start(store, place.version)
    if own is not None:
        return None if _mark(own) == place.mark else _remade()
    return None if following is not None else _missing(store, place)


def _missing(store: LogStore, place: Place) -> Gap | Remade | None:
    """Why a commit is not there; None for one that is still to come, and a log that is gone or changes meanwhile."""
    versions = list(_versions_from(store, 0))
    newer = next((version for version in versions if version > place.version), None)
    if newer is not None:
        return _gap(place, newer)
    is_other_table = versions and place.version not in versions
    return _remade() if is_other_table else None


def _unmarked(store: LogStore, place: Place) -> Gap | Marked | None:
    """What the log has of a place whose commit was never seen, behind which nothing has come."""
    first = next(_versions_from(store, max(place.version, 0)), None)
    if first is None:
        return None
    if first > place.version:
        return _gap(place, first)
    mark = _mark(_start(store, place.version))
    return Marked(place=replace(place, mark=mark)) if mark else None


def _versions_from(store: LogStore, version: int) -> Iterator[int]:
    """The versions that the log has commits of, from one on, in order."""
    for stored in store.list_from(first_name_of(version)):
        parsed = parse_log_name(stored.name)
        if parsed is not None and parsed.kind is LogFileKind.COMMIT:
            yield parsed.version


def _gap(place: Place, newer: int) -> Gap | None:
    """What is missing behind a place before a newer version; None where that is the next one, which has just come."""
    if newer == place.version + 1:
        return None
    behind = replace(place, version=newer - 1, mark=None)
    return Gap(first=place.version + 1, last=behind.version, place=behind)


def _remade() -> Remade:
    return Remade(place=Place(version=-1, remade=True))


def _start(store: LogStore, version: int) -> bytes | None:
    """The first bytes of a commit, None where there is none."""
    return store.read_start(commit_name(version), _START_BYTES)


def _mark(start: bytes | None) -> str:
    return "" if start is None else hashlib.sha256(start[:_MARKED_BYTES]).hexdigest()[:32]


def _summary(store: LogStore, version: int, start: bytes) -> CommitSummary:
    """The summary of a commit; one that is longer than its start is read in blocks, as it may be very large."""
    name = commit_name(version)
    is_whole = len(start) < _START_BYTES
    return summarize(version, iter_raw_actions(start, name) if is_whole else read_actions(store, name))


def summarize(version: int, actions: Iterable[tuple[str, Mapping[str, Any]]]) -> CommitSummary:
    """What a condition may ask of a commit, from the (kind, body) pairs of its actions.

    Raises:
        CorruptLogError: an action is malformed.
    """
    info: Mapping[str, Any] | None = None
    table_id: str | None = None
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
            case Metadata(id=table_id):
                pass
            case Protocol() | DomainMetadata() | None:
                pass
    return CommitSummary(
        version=version,
        timestamp_ms=_when(info or {}),
        operation=_text((info or {}).get("operation")),
        data_changed=data_changed,
        app_ids=frozenset(app_ids),
        partitions=tuple(partitions.values()),
        table_id=table_id,
    )


def _when(info: Mapping[str, Any]) -> int:
    """Provenance is free-form: a writer may give no time, or one of another kind."""
    timestamp = info.get("timestamp")
    return timestamp if isinstance(timestamp, int) else 0


def _text(operation: Any) -> str | None:
    return operation if isinstance(operation, str) else None
