"""The check for a running vacuum that may delete files that a restore adds back.

A vacuum records its begin and its end in the log (`VACUUM START`, `VACUUM END`), and its retention. It does not delete
files that were removed inside its retention, so those may be added back.

- A vacuum that began long ago without an end counts as dead.
- An end does not name its begin. If an end is missing, every vacuum that began since then counts as running.
- A vacuum that records nothing cannot be detected. This is delta-spark's default on S3.
- delta-rs compares paths only and ignores deletion vectors. Its vacuum deletes a recently removed file if the same file
  without its vector was removed long ago. It also deletes vector files.

delta-spark: DeltaOperations.VacuumStart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.errors import ConcurrentWriteException, VersionGapError
from deltalite.log.commit_times import commit_times, in_commit_times, in_commit_timestamp
from deltalite.log.file_table import key_column, without_rows
from deltalite.log.replay import read_commit_info
from deltalite.protocol.properties import DAY_MS, HOUR_MS
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore, StoredFile
from deltalite.txn.winners import VACUUM_END, VACUUM_START

# More commits than most tables get in a day, even from a stream. Reading them takes a minute or two.
_MAX_COMMITS = 20_000
_READERS, _COMMITS_AT_ONCE = 8, 64
# The largest expected difference between the clock of a vacuum and the times in the log.
_CLOCKS_DIFFER_MS = HOUR_MS
_DELTA_RS = "delta-rs"


def refuse_beside_vacuum(base: Snapshot, restored: pa.Table, *, now_ms: int) -> None:
    """Refuse a restore while a running vacuum may delete a file of `restored` (`path`, `deletionVector`).

    Raises:
        ConcurrentWriteException: a vacuum may delete one; the message names its version and a file.
    """
    vacuums = list(_running_vacuums(base, now_ms)) if restored.num_rows else []
    if not vacuums:
        return
    moments_ms = [moment for moment in map(_kept_since_ms, vacuums) if moment is not None]
    exposed = restored
    if len(moments_ms) == len(vacuums):
        knows_vectors = not any(str(vacuum.get("engineInfo")).startswith(_DELTA_RS) for vacuum in vacuums)
        is_kept = _removed_since(base, restored, max(moments_ms), knows_vectors=knows_vectors)
        exposed = without_rows(restored, is_kept)
    if exposed.num_rows:
        raise ConcurrentWriteException(
            f"Cannot restore {base.store.root} now: a vacuum began in version {vacuums[-1]['version']} and has not "
            f"ended. It may be deleting {exposed.num_rows} of the files to restore, such as {exposed['path'][0]}.",
            remedy="Run the task again when the vacuum has ended. If the vacuum was killed, wait until 24 hours after "
            "its begin.",
        )


def _running_vacuums(base: Snapshot, now_ms: int) -> Iterator[Mapping[str, Any]]:
    """Yield the VACUUM START entries that may have no end, newest first, with `version` and `timestamp_ms`."""
    unmatched_ends, starts = 0, list[Mapping[str, Any]]()
    for entry in _commits_since(base, now_ms - DAY_MS):
        unmatched_ends += entry.get("operation") == VACUUM_END
        if entry.get("operation") != VACUUM_START:
            continue
        starts.append(entry)
        if unmatched_ends:
            unmatched_ends -= 1
        else:
            yield from starts
            starts.clear()


def _commits_since(base: Snapshot, moment_ms: int) -> Iterator[Mapping[str, Any]]:
    """Yield the provenance of the commits since a moment, newest first, as far back as the log has them."""
    store, in_commit = base.store, in_commit_times(base.protocol, base.metadata)
    commits = [(time, commit) for time, commit in commit_times(store) if time.version <= base.version]
    newest_first = commits[: -_MAX_COMMITS - 1 : -1]
    with ThreadPoolExecutor(max_workers=_READERS, thread_name_prefix="commits") as pool:
        for start in range(0, len(newest_first), _COMMITS_AT_ONCE):
            batch = newest_first[start : start + _COMMITS_AT_ONCE]
            provenances = pool.map(lambda timed_commit: _provenance(store, timed_commit[1]), batch)
            for (time, commit), info in zip(batch, provenances, strict=True):
                if info is None:  # log cleanup deletes the oldest commits first, so all older ones are gone
                    return
                has_in_commit_time = in_commit is not None and in_commit.cover(time.version)
                timestamp_ms = in_commit_timestamp(info, commit.name) if has_in_commit_time else time.timestamp_ms
                if timestamp_ms < moment_ms:
                    return
                yield {**info, "version": time.version, "timestamp_ms": timestamp_ms}


def _provenance(store: LogStore, commit: StoredFile) -> Mapping[str, Any] | None:
    """Return the `commitInfo` of a commit, or None if the commit is gone."""
    try:
        return read_commit_info(store, commit) or {}
    except VersionGapError:
        return None


def _kept_since_ms(start: Mapping[str, Any]) -> int | None:
    """Return the moment since which a vacuum keeps removed files, or None if its entry does not have it.

    A retention longer than the table's is ignored, because some writers do not honour it.
    """
    parameters = start.get("operationParameters")
    if not isinstance(parameters, Mapping):
        return None
    default_ms = _milliseconds(parameters.get("defaultRetentionMillis"))
    specified_ms = _milliseconds(parameters.get("specifiedRetentionMillis", default_ms))
    if default_ms is None or specified_ms is None:
        return None
    return int(start["timestamp_ms"]) - min(default_ms, specified_ms) + _CLOCKS_DIFFER_MS


def _milliseconds(value: object) -> int | None:
    """Return the milliseconds of a number or of its text, as different writers log it; None for anything else."""
    text = str(value)
    return int(text) if text.isascii() and text.isdecimal() else None


def _removed_since(base: Snapshot, restored: pa.Table, moment_ms: int, *, knows_vectors: bool) -> pa.ChunkedArray:
    """Return, for each file, whether its tombstone is from this moment or later, so that a vacuum keeps it.

    For a vacuum that ignores deletion vectors, the file also must have no vector, and no older tombstone of its path.
    """
    tombstones = base.tombstones(["path", "deletionTimestamp", "deletionVector"])
    is_young = pc.fill_null(pc.greater_equal(tombstones["deletionTimestamp"], moment_ms), False)
    is_kept = pc.is_in(key_column(restored), value_set=key_column(tombstones.filter(is_young)))
    if knows_vectors:
        return is_kept
    was_old = pc.is_in(_paths(restored), value_set=_paths(tombstones.filter(pc.invert(is_young))))
    return pc.and_(is_kept, pc.and_not(pc.is_null(restored["deletionVector"]), was_old))


def _paths(files: pa.Table) -> pa.ChunkedArray:
    """Return the keys of the files without their deletion vectors."""
    vectors = files.schema.field("deletionVector")
    return key_column(pa.table({"path": files["path"], "deletionVector": pa.nulls(files.num_rows, vectors.type)}))
