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
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from deltalite.conditions import MADE_BY, MADE_BY_TIMES, CommitCondition, CommitSummary, Place
from deltalite.errors import VersionGapError
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

# What is asked for of a commit before it is known how long it is: most are shorter, and so are one request.
_START_BYTES = WHOLE_LINE_BYTES
_MARKED_BYTES = 4 * 1024
# What a summary holds of a commit that may have any number of app ids and partitions, of any length.
_MOST_APP_IDS = 1_000
_MOST_PARTITIONS = 10_000
_MOST_TEXT = 512 * 1024
_LONGEST_OPERATION = 1_000
_LONGEST_PROVENANCE = 20_000


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


def follow(store: LogStore, place: Place, condition: CommitCondition | None = None) -> Iterator[Step]:
    """What has come behind `place`, in order, read as it is asked for; the summaries are made for `condition`.

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
            summary = _summary(store, place.version, following, condition)
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


def summary_at(store: LogStore, version: int, condition: CommitCondition) -> CommitSummary:
    """The summary of a commit, made for a condition.

    Raises:
        VersionGapError: the commit is not there.
        CorruptLogError: it is malformed.
        StorageError, StoragePermissionError: storage failed to answer, or refused.
    """
    return summarize(version, read_bounded_actions(store, commit_name(version)), condition)


def _summary(store: LogStore, version: int, start: bytes, condition: CommitCondition | None) -> CommitSummary:
    """The summary of a commit; one that is longer than its start is read in chunks, as it may be very large."""
    name = commit_name(version)
    is_whole = len(start) < _START_BYTES
    actions = iter_raw_actions(start, name) if is_whole else read_bounded_actions(store, name)
    return summarize(version, actions, condition)


def summarize(
    version: int, actions: Iterable[tuple[str, Mapping[str, Any]]], condition: CommitCondition | None = None
) -> CommitSummary:
    """What a condition may ask of a commit, from the (kind, body) pairs of its actions, in bounded memory.

    Made for a condition, it holds only the app ids and partitions that the condition names, and is always complete.
    Without one it holds as many as the bounds allow.

    Raises:
        CorruptLogError: an action is malformed.
    """
    info: Mapping[str, Any] | None = None
    run: Mapping[str, str] = {}
    table_id: str | None = None
    data_changed = False
    app_ids = _Bounded[str](_MOST_APP_IDS)
    partitions = _Bounded[Mapping[str, str | None]](_MOST_PARTITIONS)
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
                if touched is not None and (condition is None or condition.names_partition(touched)):
                    length = sum(len(name) + len(value or "") for name, value in touched.items())
                    partitions.add(frozenset(touched.items()), touched, length)
            case Metadata(id=table_id):
                pass
            case Protocol() | DomainMetadata() | None:
                pass
    return CommitSummary(
        version=version,
        timestamp_ms=_when(info or {}),
        operation=_text((info or {}).get("operation")),
        data_changed=data_changed,
        app_ids=frozenset(app_ids.items.values()),
        partitions=tuple(partitions.items.values()),
        table_id=table_id,
        is_complete=condition is not None or (app_ids.is_complete and partitions.is_complete),
        run=run,
    )


class _Bounded(Generic[T]):
    """Distinct values in their order, up to a number of them and of their characters; one is always taken."""

    def __init__(self, most: int) -> None:
        self.items: dict[Hashable, T] = {}
        self.is_complete = True
        self._most = most
        self._text = 0

    def add(self, key: Hashable, value: T, length: int) -> None:
        """Hold the value, or remember that one was left out."""
        if key in self.items:
            return
        if self.items and (len(self.items) >= self._most or self._text + length > _MOST_TEXT):
            self.is_complete = False
            return
        self.items[key] = value
        self._text += length


def _run(text: object) -> dict[str, str]:
    """What a commit says about the Airflow run that made it, with times in UTC; a text of any length is no run."""
    if not isinstance(text, str) or len(text) > _LONGEST_PROVENANCE:
        return {}
    run = RunProvenance.from_text(text)
    values = {name: getattr(run, name) for name in MADE_BY}
    times = {name: time.isoformat() for name in MADE_BY_TIMES if (time := moment(values[name])) is not None}
    texts = {name: str(value) for name, value in values.items() if value is not None and name not in MADE_BY_TIMES}
    return texts | times


def _when(info: Mapping[str, Any]) -> int:
    """Provenance is free-form: a writer may give no time, or one of another kind."""
    timestamp = info.get("timestamp")
    return timestamp if isinstance(timestamp, int) else 0


def _text(operation: Any) -> str | None:
    return operation[:_LONGEST_OPERATION] if isinstance(operation, str) else None
