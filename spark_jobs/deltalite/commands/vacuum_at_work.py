"""Whether a vacuum may be deleting files that are to come back: they may be there now, and not a moment later.

A vacuum says in the log when it begins and when it ends (`VACUUM START`, `VACUUM END`), and what it keeps: what was
removed inside its retention is not on its list, so it may come back. One that began long ago without an end has died.
An end does not say which beginning it belongs to, so where one is missing, all that began since then count. A vacuum
that says nothing, as delta-spark's on S3 does by default, cannot be seen. delta-rs goes by paths and knows no vectors:
its vacuum deletes a file that was removed lately, where the same file without its vector was removed long ago, and the
files of vectors. delta-spark: DeltaOperations.VacuumStart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.errors import ConcurrentWriteException, VersionGapError
from deltalite.log.commit_times import commit_times, in_commit_times, required_time
from deltalite.log.file_table import key_column, without_rows
from deltalite.log.replay import read_commit_info
from deltalite.protocol.properties import DAY_MS, HOUR_MS
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore, StoredFile
from deltalite.txn.winners import VACUUM_END, VACUUM_START

# A stream commits every few seconds: so many are more than most tables get in a day, and are read in a minute or two.
_MOST_COMMITS = 20_000
_READERS, _COMMITS_AT_ONCE = 8, 64
# A vacuum counts by its own clock, and the log may have the time of another.
_CLOCKS_DIFFER_MS = HOUR_MS
_DELTA_RS = "delta-rs"


def refuse_beside_vacuum(base: Snapshot, back: pa.Table, *, now_ms: int) -> None:
    """Return where no vacuum is at work that may have a file of `back` (`path`, `deletionVector`) on its list.

    Raises:
        ConcurrentWriteException: naming the version in which one has begun, and a file.
    """
    vacuums = list(_at_work(base, now_ms)) if back.num_rows else []
    if not vacuums:
        return
    kept_since_ms = [_kept_since_ms(vacuum) for vacuum in vacuums]
    known = [moment for moment in kept_since_ms if moment is not None]
    knows_vectors = not any(str(vacuum.get("engineInfo")).startswith(_DELTA_RS) for vacuum in vacuums)
    kept = _removed_since(base, back, max(known), knows_vectors=knows_vectors) if len(known) == len(vacuums) else None
    exposed = back if kept is None else without_rows(back, kept)
    if exposed.num_rows:
        raise ConcurrentWriteException(
            f"A vacuum of {base.store.root} began in version {vacuums[-1]['version']} and has not ended: it may be "
            f"deleting {exposed.num_rows} of the files that are to come back, such as {exposed['path'][0]}.",
            remedy="Run the task again when the vacuum has ended; one that was killed is waited for for a day.",
        )


def _at_work(base: Snapshot, now_ms: int) -> Iterator[Mapping[str, Any]]:
    """How the vacuums began that may not have ended, with `version` and `timestamp_ms`; the newest first."""
    ended, doubtful = 0, list[Mapping[str, Any]]()
    for entry in _commits_since(base, now_ms - DAY_MS):
        ended += entry.get("operation") == VACUUM_END
        if entry.get("operation") != VACUUM_START:
            continue
        doubtful.append(entry)
        if ended:
            ended -= 1
        else:
            yield from doubtful
            doubtful.clear()


def _commits_since(base: Snapshot, moment_ms: int) -> Iterator[Mapping[str, Any]]:
    """The provenance of the commits from a moment on, as far as the log has them, the newest first."""
    store, in_commit = base.store, in_commit_times(base.protocol, base.metadata)
    found = [(time, commit) for time, commit in commit_times(store) if time.version <= base.version]
    newest_first = found[: -_MOST_COMMITS - 1 : -1]
    with ThreadPoolExecutor(max_workers=_READERS, thread_name_prefix="commits") as pool:
        for at in range(0, len(newest_first), _COMMITS_AT_ONCE):
            some = newest_first[at : at + _COMMITS_AT_ONCE]
            reads = pool.map(lambda one: _provenance(store, one[1]), some)
            for (time, commit), info in zip(some, reads, strict=True):
                if info is None:  # log cleanup has come by, and takes the older ones first
                    return
                carried = in_commit is not None and in_commit.cover(time.version)
                timestamp_ms = required_time(info, commit.name) if carried else time.timestamp_ms
                if timestamp_ms < moment_ms:
                    return
                yield {**info, "version": time.version, "timestamp_ms": timestamp_ms}


def _provenance(store: LogStore, commit: StoredFile) -> Mapping[str, Any] | None:
    """What a commit says of itself, None where it is gone."""
    try:
        return read_commit_info(store, commit) or {}
    except VersionGapError:
        return None


def _kept_since_ms(start: Mapping[str, Any]) -> int | None:
    """The moment since when a vacuum keeps what was removed; None where it does not say it.

    A retention that is longer than the table's does not count, since not all writers honour it.
    """
    said = start.get("operationParameters")
    if not isinstance(said, Mapping):
        return None
    default_ms = _milliseconds(said.get("defaultRetentionMillis"))
    specified_ms = _milliseconds(said.get("specifiedRetentionMillis", default_ms))
    if default_ms is None or specified_ms is None:
        return None
    return int(start["timestamp_ms"]) - min(default_ms, specified_ms) + _CLOCKS_DIFFER_MS


def _milliseconds(said: object) -> int | None:
    """A number, or its text as writers put it into a log."""
    text = str(said)
    return int(text) if text.isascii() and text.isdecimal() else None


def _removed_since(base: Snapshot, back: pa.Table, moment_ms: int, *, knows_vectors: bool) -> pa.ChunkedArray:
    """For each file whether it was removed at this moment or later, as the log remembers, and so is on no list.

    For who knows no vectors it has none, and its path was not removed before either.
    """
    tombstones = base.tombstones(["path", "deletionTimestamp", "deletionVector"])
    is_young = pc.fill_null(pc.greater_equal(tombstones["deletionTimestamp"], moment_ms), False)
    found = pc.is_in(key_column(back), value_set=key_column(tombstones.filter(is_young)))
    if knows_vectors:
        return found
    was_old = pc.is_in(_paths(back), value_set=_paths(tombstones.filter(pc.invert(is_young))))
    return pc.and_(found, pc.and_not(pc.is_null(back["deletionVector"]), was_old))


def _paths(files: pa.Table) -> pa.ChunkedArray:
    """The identities of files as if they had no deletion vectors."""
    vectors = files.schema.field("deletionVector")
    return key_column(pa.table({"path": files["path"], "deletionVector": pa.nulls(files.num_rows, vectors.type)}))
