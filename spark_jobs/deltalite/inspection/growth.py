"""The number of files, bytes and rows of a table at each of its newest versions, for a plot.

The totals of the newest version are known from its snapshot. The files that each commit adds and removes then give the
totals of the version before, so one read of the newest commits is enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import pyarrow.compute as pc

from deltalite.columnar.skipping.record_counts import num_records
from deltalite.errors import VersionGapError
from deltalite.inspection.commit_effort import CommitEffort, effort_of
from deltalite.inspection.log_size import commit_bytes_after_checkpoint
from deltalite.inspection.versions import Range, ranges_of
from deltalite.log.action_files import read_actions
from deltalite.log.commit_times import (
    CommitTime,
    InCommitSettings,
    file_times,
    in_commit_settings,
    in_commit_timestamp,
    rebuildable_versions,
)
from deltalite.log.file_table import ADD_TYPES, deleted_rows_by_file, key_column, table_of
from deltalite.log.listing import list_log
from deltalite.protocol.actions import AddFile, CommitInfo, RemoveFile
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore, StoredFile

MAX_COMMITS = 500
MAX_BYTES = 32 * 1024 * 1024
_THREADS = 8
_OPTIMIZE = "OPTIMIZE"
_TYPES = {name: ADD_TYPES[name] for name in ("path", "size", "stats", "deletionVector")}


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthPoint:
    """The totals of a version.

    - `timestamp_ms`: the commit time, in milliseconds UTC.
    - `size_bytes`: None if the log does not have the size of a file that a later commit removed.
    - `rows`: the rows that are not soft-deleted; None if the log does not have the rows of such a file.
    - `deleted_rows`: the soft-deleted rows; None if the log contradicts their number.
    """

    version: int
    timestamp_ms: int
    files: int
    size_bytes: int | None
    rows: int | None
    deleted_rows: int | None = 0
    effort: CommitEffort = field(default_factory=CommitEffort)


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """The newest versions of a table.

    - `points`: their totals, oldest first.
    - `log_bytes`: the bytes of the commits after the newest checkpoint at or before the version of each point. A value
      is None if the log cannot rebuild the version.
    - `checkpoints`: the versions among the points that have a checkpoint.
    - `optimizes`: the versions among the points that an optimize committed.
    - `readable`: the versions that the log can rebuild, as ranges. These may be older than the points.
    """

    points: tuple[GrowthPoint, ...]
    log_bytes: tuple[int | None, ...] = ()
    checkpoints: tuple[int, ...] = ()
    optimizes: tuple[int, ...] = ()
    readable: tuple[Range, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The files, bytes, live rows and soft-deleted rows of a version. A number is None if it is unknown."""

    files: int
    size_bytes: int | None
    rows: int | None
    deleted_rows: int | None = 0


def read_growth(snapshot: Snapshot, totals: Totals, *, earlier: Growth | None = None) -> Growth:
    """Read the totals of the newest versions from at most `MAX_COMMITS` commits of at most `MAX_BYTES` in total.

    Args:
        snapshot: the newest version.
        totals: the totals of this version.
        earlier: an earlier result for the same table. Only commits after its last point are then read. A result that
            has a later version than the snapshot is ignored.

    Raises:
        CorruptLogError: a commit is malformed.
        StorageError: the log cannot be read.
    """
    store, listing = snapshot.store, list_log(snapshot.store, 0)
    times = file_times((version, listing.commits[version]) for version in sorted(listing.commits))
    if earlier is not None and (not earlier.points or earlier.points[-1].version > snapshot.version):
        earlier = None
    last_known = -1 if earlier is None else earlier.points[-1].version
    commits = [(time, listing.commits[time.version]) for time in times if last_known < time.version <= snapshot.version]
    changes = _read_changes(store, in_commit_settings(snapshot.protocol, snapshot.metadata), _newest_commits(commits))
    points = _points(changes, totals)
    if earlier is not None and (not points or points[0].version == last_known + 1):
        points = [*earlier.points, *points]
    points = points[-MAX_COMMITS:]
    versions = {point.version for point in points}
    checkpoints = {checkpoint.version for checkpoint in listing.checkpoints} & versions
    earlier_optimizes = () if earlier is None else earlier.optimizes
    optimizes = {*earlier_optimizes, *(change.version for change in changes if change.is_optimize)} & versions
    log_bytes = commit_bytes_after_checkpoint(listing)
    return Growth(
        points=tuple(points),
        log_bytes=tuple(log_bytes.get(point.version) for point in points),
        checkpoints=tuple(sorted(checkpoints)),
        optimizes=tuple(sorted(optimizes)),
        readable=ranges_of(version for version in rebuildable_versions(listing) if version <= snapshot.version),
    )


class _File(NamedTuple):
    """A file that a commit adds or removes. `size_bytes` and `rows` are None if the action lacks them."""

    key: str
    size_bytes: int | None
    rows: int | None
    deleted_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """The files that a commit adds and removes, and its effort."""

    version: int
    timestamp_ms: int
    is_optimize: bool
    effort: CommitEffort
    added: Sequence[_File]
    removed: Sequence[_File]


def _newest_commits(commits: Sequence[tuple[CommitTime, StoredFile]]) -> list[tuple[CommitTime, StoredFile]]:
    """Return the newest commits within the limits and without a gap, oldest first."""
    newest: list[tuple[CommitTime, StoredFile]] = []
    size_bytes = 0
    for time, file in reversed(commits[-MAX_COMMITS:]):
        size_bytes += file.size_bytes
        if size_bytes > MAX_BYTES or (newest and time.version != newest[-1][0].version - 1):
            break
        newest.append((time, file))
    return newest[::-1]


def _read_changes(
    store: LogStore, in_commit: InCommitSettings | None, commits: Sequence[tuple[CommitTime, StoredFile]]
) -> list[_Change]:
    """Return the changes of the commits after the last commit that log cleanup has deleted, oldest first."""
    with ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="growth") as pool:
        changes = list(pool.map(partial(_read_change, store, in_commit), commits))
    last_missing = max((number for number, change in enumerate(changes) if change is None), default=-1)
    return [change for change in changes[last_missing + 1 :] if change is not None]


def _read_change(
    store: LogStore, in_commit: InCommitSettings | None, commit: tuple[CommitTime, StoredFile]
) -> _Change | None:
    """Read the change of a commit. Return None if log cleanup has deleted the commit."""
    time, file = commit
    bodies: dict[str, list[dict[str, Any]]] = {AddFile.action: [], RemoveFile.action: [], CommitInfo.action: []}
    try:
        for kind, body in read_actions(store, file.name, file.size_bytes):
            if kind in bodies:
                bodies[kind].append(body)
    except VersionGapError:
        return None
    timestamp_ms = time.timestamp_ms
    info = next(iter(bodies[CommitInfo.action]), None)
    if in_commit is not None and in_commit.covers(time.version):
        timestamp_ms = in_commit_timestamp(info, file.name)
    added = list(_files(bodies[AddFile.action], AddFile, file.name))
    removed = list(_files(bodies[RemoveFile.action], RemoveFile, file.name))
    if not removed and not any(body.get("dataChange") for body in bodies[AddFile.action]):
        added = []  # The commit changes no rows. It only adds row ids or statistics to files of the table.
    info = info or {}
    return _Change(
        version=time.version,
        timestamp_ms=timestamp_ms,
        is_optimize=info.get("operation") == _OPTIMIZE,
        effort=effort_of(time.version, info),
        added=added,
        removed=removed,
    )


def _files(bodies: Sequence[Mapping[str, Any]], cls: type[AddFile | RemoveFile], source: str) -> Iterator[_File]:
    if not bodies:
        return
    files = table_of(bodies, _TYPES, cls, source).combine_chunks()
    deleted = deleted_rows_by_file(files)
    columns = (key_column(files), files["size"], pc.subtract(num_records(files["stats"]), deleted), deleted)
    yield from map(_File, *(column.to_pylist() for column in columns))


def _points(changes: Sequence[_Change], newest: Totals) -> list[GrowthPoint]:
    """Return the totals after each change, oldest first. `newest` are the totals after the last change."""
    points: list[GrowthPoint] = []
    files, size_bytes, rows, deleted_rows = newest.files, newest.size_bytes, newest.rows, newest.deleted_rows
    for change, removed in zip(reversed(changes), reversed(list(_removed_files(changes))), strict=True):
        point = GrowthPoint(
            version=change.version,
            timestamp_ms=change.timestamp_ms,
            files=files,
            size_bytes=size_bytes,
            rows=rows,
            deleted_rows=deleted_rows,
            effort=change.effort,
        )
        points.append(point)
        files = max(0, files - len(change.added) + len(removed))
        size_bytes = _total_before(size_bytes, [f.size_bytes for f in change.added], [f.size_bytes for f in removed])
        rows = _total_before(rows, [f.rows for f in change.added], [f.rows for f in removed])
        added_deleted, removed_deleted = ([f.deleted_rows for f in side] for side in (change.added, removed))
        deleted_rows = _total_before(deleted_rows, added_deleted, removed_deleted)
    return points[::-1]


def _removed_files(changes: Iterable[_Change]) -> Iterator[list[_File]]:
    """Yield the removed files of each change. Missing numbers come from the change that added the file, if any."""
    added: dict[str, _File] = {}
    for change in changes:
        yield [_with_missing_numbers(file, added.get(file.key)) for file in change.removed]
        added.update((file.key, file) for file in change.added)


def _with_missing_numbers(file: _File, added: _File | None) -> _File:
    if added is None:
        return file
    return _File(
        key=file.key,
        size_bytes=added.size_bytes if file.size_bytes is None else file.size_bytes,
        rows=added.rows if file.rows is None else file.rows,
        deleted_rows=file.deleted_rows,
    )


def _total_before(total: int | None, added: Sequence[int | None], removed: Sequence[int | None]) -> int | None:
    """Return the total before a change; None if a number is unknown, or if the log contradicts the total."""
    if total is None or None in added or None in removed:
        return None
    before = total - sum(filter(None, added)) + sum(filter(None, removed))
    return before if before >= 0 else None
