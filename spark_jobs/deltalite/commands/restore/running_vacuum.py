"""The check for a running vacuum that may delete files that a restore adds back.

A vacuum records its start, its retention and its end in the log (`VACUUM START`, `VACUUM END`). It does not delete
files that were removed within its retention, so a restore may add these files back.

- A vacuum without an end counts as dead 24 hours after its start.
- An end does not name its start. If one vacuum has no end, this vacuum and all later ones count as running.
- A vacuum that records nothing cannot be detected. By default, delta-spark records no vacuum on S3.
- delta-rs compares paths only and ignores deletion vectors. Its vacuum deletes a recently removed file if the same file
  without its vector was removed long ago. It also deletes vector files.

delta-spark: DeltaOperations.VacuumStart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import takewhile

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.errors import ConcurrentWriteException
from deltalite.log.commit_infos import TimedCommitInfo, newest_commit_infos
from deltalite.log.commit_times import in_commit_settings
from deltalite.log.file_table import key_column, without_rows
from deltalite.protocol.properties import DAY_MS, HOUR_MS
from deltalite.snapshot import Snapshot
from deltalite.txn.winners import VACUUM_END, VACUUM_START

# Most tables get fewer commits in a day, even from a stream. Reading so many commits takes a minute or two.
_MAX_COMMITS = 20_000
# The largest expected difference between the clock of a vacuum and the times in the log.
_MAX_CLOCK_DIFFERENCE_MS = HOUR_MS
_DELTA_RS = "delta-rs"


def refuse_during_vacuum(base: Snapshot, restored: pa.Table, *, now_ms: int) -> None:
    """Refuse a restore while a running vacuum may delete a file of `restored` (`path`, `deletionVector`).

    Raises:
        ConcurrentWriteException: a vacuum may delete such a file. The message names the vacuum's version and a file.
    """
    vacuums = list(_running_vacuums(base, now_ms)) if restored.num_rows else []
    if not vacuums:
        return
    protected_since_ms = [time_ms for time_ms in map(_protected_since_ms, vacuums) if time_ms is not None]
    unprotected = restored
    if len(protected_since_ms) == len(vacuums):
        knows_vectors = not any(str(vacuum.info.get("engineInfo")).startswith(_DELTA_RS) for vacuum in vacuums)
        is_protected = _removed_since(base, restored, max(protected_since_ms), knows_vectors=knows_vectors)
        unprotected = without_rows(restored, is_protected)
    if unprotected.num_rows:
        raise ConcurrentWriteException(
            f"Cannot restore {base.store.root} now: a vacuum began in version {vacuums[-1].version} and has not "
            f"ended. It may delete {unprotected.num_rows} of the files to restore, such as {unprotected['path'][0]}.",
            remedy="Run the task again when the vacuum has ended, or 24 hours after its start if it was killed.",
        )


def _running_vacuums(base: Snapshot, now_ms: int) -> Iterator[TimedCommitInfo]:
    """Yield the VACUUM START commits that may have no end, newest first."""
    unmatched_ends, starts = 0, list[TimedCommitInfo]()
    for commit in _commits_since(base, now_ms - DAY_MS):
        unmatched_ends += commit.info.get("operation") == VACUUM_END
        if commit.info.get("operation") != VACUUM_START:
            continue
        starts.append(commit)
        if unmatched_ends:
            unmatched_ends -= 1
        else:
            yield from starts
            starts.clear()


def _commits_since(base: Snapshot, since_ms: int) -> Iterator[TimedCommitInfo]:
    """Yield the commits since a time, newest first.

    Stop earlier if the log no longer has a commit, or after `_MAX_COMMITS` commits.
    """
    in_commit = in_commit_settings(base.protocol, base.metadata)
    commits = newest_commit_infos(base.store, up_to_version=base.version, in_commit=in_commit, max_commits=_MAX_COMMITS)
    return takewhile(lambda commit: commit.timestamp_ms >= since_ms, commits)


def _protected_since_ms(start: TimedCommitInfo) -> int | None:
    """Return the time since which a vacuum keeps removed files, or None if its VACUUM START has no retention.

    A retention longer than the table's is ignored, because some writers do not honour it.
    """
    parameters = start.info.get("operationParameters")
    if not isinstance(parameters, Mapping):
        return None
    default_ms = _milliseconds(parameters.get("defaultRetentionMillis"))
    specified_ms = _milliseconds(parameters.get("specifiedRetentionMillis", default_ms))
    if default_ms is None or specified_ms is None:
        return None
    return start.timestamp_ms - min(default_ms, specified_ms) + _MAX_CLOCK_DIFFERENCE_MS


def _milliseconds(value: object) -> int | None:
    """Return milliseconds from a number or from its text, because writers log both. Return None for other values."""
    text = str(value)
    return int(text) if text.isascii() and text.isdecimal() else None


def _removed_since(base: Snapshot, restored: pa.Table, since_ms: int, *, knows_vectors: bool) -> pa.ChunkedArray:
    """Return, for each file, whether its tombstone is from this time or later, so that a vacuum keeps the file.

    A vacuum that ignores deletion vectors keeps such a file under two conditions: the file has no vector, and no older
    tombstone has the same path.
    """
    tombstones = base.tombstones(["path", "deletionTimestamp", "deletionVector"])
    is_recent = pc.fill_null(pc.greater_equal(tombstones["deletionTimestamp"], since_ms), False)
    has_recent_tombstone = pc.is_in(key_column(restored), value_set=key_column(tombstones.filter(is_recent)))
    if knows_vectors:
        return has_recent_tombstone
    older_tombstones = tombstones.filter(pc.invert(is_recent))
    has_older_tombstone = pc.is_in(_path_keys(restored), value_set=_path_keys(older_tombstones))
    has_no_vector = pc.is_null(restored["deletionVector"])
    return pc.and_(has_recent_tombstone, pc.and_not(has_no_vector, has_older_tombstone))


def _path_keys(files: pa.Table) -> pa.ChunkedArray:
    """Return the keys of the files without their deletion vectors."""
    vectors = files.schema.field("deletionVector")
    return key_column(pa.table({"path": files["path"], "deletionVector": pa.nulls(files.num_rows, vectors.type)}))
