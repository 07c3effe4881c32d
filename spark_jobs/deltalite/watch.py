"""Watching a log grow: what sensors and triggers ask, cheaply.

A poll that sees nothing is two requests, whatever the length of the log (`log/following.py` says which, and where a
listing is a third). A table that does not exist yet is version -1 and no error. `find_run` tells what an earlier try of
a run committed, `find_checkpoint` whether a checkpoint has been written, `columns_at` what a version's columns are.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from deltalite.conditions import CommitCondition, CommitSummary, Place
from deltalite.errors import DeltaLiteError, TableNotFoundError, VersionGapError
from deltalite.log.commit_times import Timeline, in_commit_times
from deltalite.log.following import Commit, Gap, Marked, Remade, Step, follow, place_at, summarize, summary_at
from deltalite.log.segment import find_segment
from deltalite.log.state import LogState
from deltalite.log.table_id import read_bounded_metadata, read_table_id
from deltalite.protocol.schema import StructField, StructType
from deltalite.protocol.touched_partitions import partition_names, partition_values_of_name
from deltalite.results import OperationResult, checkpoint_result
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore
from deltalite.txn.find_run import find_run

_log = logging.getLogger(__name__)

__all__ = [
    "Column",
    "Commit",
    "Gap",
    "Marked",
    "PollResult",
    "Remade",
    "Step",
    "columns_at",
    "complete_for",
    "find_checkpoint",
    "find_run",
    "follow",
    "latest_version",
    "partition_values_of_name",
    "place_at",
    "poll",
    "summarize",
    "table_id",
    "touched_partitions",
    "version_at",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PollResult:
    """`place` is the last one looked at; `match` the first commit behind the old place that counts, or None.

    Where `place` says that the table was made again, `match` is of the new one.
    """

    place: Place
    match: CommitSummary | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table, or a member of a struct: its type as Spark's SQL spells it, and its comment."""

    name: str
    type: str
    comment: str | None = None
    members: tuple[Column, ...] = field(default_factory=tuple)


def columns_at(store: LogStore, version: int) -> tuple[Column, ...]:
    """The columns of a version, in their order; cheap where the version has a checksum file.

    Raises: as `Snapshot.load`.
    """
    return tuple(_column(one) for one in Snapshot.load(store, version).schema)


def _column(one: StructField) -> Column:
    comment = one.metadata.get("comment")
    members = tuple(_column(member) for member in one.type) if isinstance(one.type, StructType) else ()
    return Column(
        name=one.name,
        type="struct" if members else str(one.type),
        comment=comment if isinstance(comment, str) else None,
        members=members,
    )


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


def poll(store: LogStore, place: Place, condition: CommitCondition) -> PollResult:
    """Look at the commits behind a place, up to the first one that the condition holds for.

    Commits that log cleanup has taken away cannot be looked at any more: the look goes on at the oldest that is there.
    It goes on at the beginning of a table that was made again.

    Raises:
        CorruptLogError: a commit is malformed.
        StorageError, StoragePermissionError: storage failed to answer, or refused.
    """
    for step in follow(store, place, condition):
        place = step.place
        match step:
            case Commit(summary=summary):
                if condition.holds_for(summary):
                    return PollResult(place=place, match=summary)
            case Gap(first=first, last=last):
                _log.warning(
                    "%s no longer holds versions %s to %s; waiting goes on behind them.", store.root, first, last
                )
            case Remade():
                _log.warning("Another table was made at %s; waiting goes on at its beginning.", store.root)
    return PollResult(place=place, match=None)


def complete_for(store: LogStore, steps: Sequence[Step], condition: CommitCondition) -> tuple[Step, ...]:
    """The steps with summaries that answer the condition: a commit that is too large for its summary is read again.

    A commit that log cleanup has taken away since is a gap.

    Raises: as `poll`.
    """
    return tuple(_complete(store, step, condition) for step in steps)


def _complete(store: LogStore, step: Step, condition: CommitCondition) -> Step:
    if not isinstance(step, Commit) or step.summary.is_complete or not condition.needs_complete_summary:
        return step
    version = step.place.version
    try:
        return Commit(summary=summary_at(store, version, condition), place=step.place)
    except VersionGapError:
        return Gap(first=version, last=version, place=step.place)


def table_id(store: LogStore) -> str | None:
    """The table's own id, None where there is no table."""
    return read_table_id(store)


def touched_partitions(
    store: LogStore, partitions: Sequence[Mapping[str, str | None]] | None
) -> tuple[str, ...] | None:
    """Name partitions that summaries of commits hold, as `partition_names` does; None stands for unknown partitions.

    The names need the table's metadata, which is read in bounded memory; the result is None if it cannot be read.
    """
    if partitions is None:
        return None
    try:
        metadata = read_bounded_metadata(store)
    except DeltaLiteError as error:
        _log.warning("Could not read the metadata of %s; its events name no partitions: %s", store.root, error)
        return None
    return None if metadata is None else partition_names(metadata, partitions)
