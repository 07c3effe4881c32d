"""Reads of a growing log, for sensors and triggers.

A poll of a table without new commits takes two requests, whatever the length of the log. `log/following.py` describes
these requests, and the cases in which a third request lists the log. A table that does not exist has version -1, which
is not an error.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from deltalite.conditions import CommitCondition, CommitSummary, LogPosition
from deltalite.errors import DeltaLiteError, TableNotFoundError, VersionGapError, encodable_text
from deltalite.log.commit_times import Timeline, in_commit_settings
from deltalite.log.following import (
    Commit,
    DigestFound,
    Gap,
    Recreated,
    Step,
    follow,
    position_at,
    summarize,
    summary_at,
)
from deltalite.log.segment import find_segment
from deltalite.log.state import LogState
from deltalite.log.table_id import read_bounded_metadata, read_table_id
from deltalite.protocol.schema import StructField, StructType
from deltalite.protocol.touched_partitions import partition_names, partition_values_of_name
from deltalite.requests import CommitRequest, Source
from deltalite.results import FlowRange, OperationResult, checkpoint_result
from deltalite.snapshot import Snapshot
from deltalite.storage.locations import canonical_address, parse_location
from deltalite.storage.log_store import LogStore
from deltalite.txn import flows, quarantine
from deltalite.txn.find_run import earlier_result, find_run, newest_snapshot
from deltalite.txn.flows import FlowId, flow_name

_log = logging.getLogger(__name__)

__all__ = [
    "Column",
    "Commit",
    "DigestFound",
    "Gap",
    "PollResult",
    "Recreated",
    "Snapshot",
    "Step",
    "columns_at",
    "earlier_result",
    "find_checkpoint",
    "find_run",
    "follow",
    "latest_version",
    "may_have_uncommitted_rows",
    "newest_snapshot",
    "partition_values_of_name",
    "poll",
    "position_at",
    "result_without_new_versions",
    "summarize",
    "table_id",
    "touched_partitions",
    "version_at",
    "with_complete_summaries",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PollResult:
    """The outcome of a poll: the last position that was read, and the first commit that satisfies the condition.

    `match` is None if no commit satisfies the condition. If `position` says that the table was recreated, `match` is a
    commit of the new table.
    """

    position: LogPosition
    match: CommitSummary | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table, or a field of a struct, with its type in Spark SQL and its comment.

    The type of a struct is only `struct`; `members` are its fields. `members` is empty for another type.
    """

    name: str
    type: str
    comment: str | None = None
    members: tuple[Column, ...] = field(default_factory=tuple)


def columns_at(store: LogStore, version: int) -> tuple[Column, ...]:
    """Return the columns of a version, in order. The call is cheap if the version has a checksum file.

    Raises: as `Snapshot.load`.
    """
    return tuple(_column(column) for column in Snapshot.load(store, version).schema)


def _column(column: StructField) -> Column:
    comment = column.metadata.get("comment")
    members = tuple(_column(member) for member in column.type) if isinstance(column.type, StructType) else ()
    return Column(
        name=column.name,
        type="struct" if members else str(column.type),
        comment=comment if isinstance(comment, str) else None,
        members=members,
    )


def latest_version(store: LogStore) -> int:
    """Return the newest version, -1 if there is no table."""
    try:
        return find_segment(store).version
    except TableNotFoundError:
        return -1


def find_checkpoint(store: LogStore, *, from_version: int) -> OperationResult | None:
    """Return the newest checkpoint as the result of a checkpoint task.

    Returns None if there is no table or no checkpoint, or if the checkpoint is older than `from_version`.
    """
    try:
        checkpoint = find_segment(store).checkpoint
    except TableNotFoundError:
        return None
    if checkpoint is None or checkpoint.version < from_version:
        return None
    return checkpoint_result(store.root, checkpoint.version, existed=False, metrics={})


def result_without_new_versions(
    base: Snapshot, request: CommitRequest, source_stores: Mapping[str, LogStore]
) -> OperationResult | None:
    """Return the result of a request if none of its incremental sources has a new version; None otherwise.

    `base` is the newest snapshot of the table. `source_stores` has the store of each incremental source, by its name.
    The result is None too if a source was recreated or lost versions.

    Raises: as `Snapshot.load`.
    """
    sources: Mapping[str, Source] = getattr(request, "sources", {})
    ranges: dict[str, FlowRange] = {}
    for name, source_store in source_stores.items():
        source = Snapshot.load(source_store)
        flow_id = FlowId(name=flow_name(sources[name]), source_table_id=source.metadata.id)
        offset = base.transactions.get(flow_id.app_id)
        if offset is None or offset.version != source.version:
            return None
        ranges[name] = FlowRange(
            flow=flow_id.name,
            source_table_id=flow_id.source_table_id,
            after_version=source.version,
            to_version=source.version,
        )
    return flows.result_without_new_versions(request, base, ranges)


def may_have_uncommitted_rows(base: Snapshot, request: CommitRequest, quarantine_store: LogStore) -> bool:
    """Whether an earlier attempt of the run may have put rows into the quarantine. The job then removes these rows.

    `base` is the newest snapshot of the table.

    Raises: as `Snapshot.load`.
    """
    if request.identity is None:
        return False
    return quarantine.may_have_uncommitted_rows(
        newest_snapshot(quarantine_store),
        base,
        run_app_id=request.identity.app_id,
        target_address=canonical_address(parse_location(request.table)),
    )


def version_at(store: LogStore, timestamp_ms: int) -> int:
    """Return the newest version committed at or before a time (milliseconds UTC), -1 if there was none."""
    try:
        latest = LogState.open(store)
    except TableNotFoundError:
        return -1
    timeline = Timeline(store, in_commit_settings(latest.protocol, latest.metadata), rebuildable_only=False)
    newest = timeline.newest_at(timestamp_ms)
    return -1 if newest is None else newest.version


def poll(store: LogStore, position: LogPosition, condition: CommitCondition) -> PollResult:
    """Read the commits after a position, up to the first one that satisfies the condition.

    If log cleanup has deleted commits, the poll continues at the oldest remaining commit. If the table was recreated,
    the poll continues at the beginning of the new table.

    Raises:
        CorruptLogError: a commit is malformed.
        StorageError, StoragePermissionError: storage failed to answer, or denied access.
    """
    for step in follow(store, position, condition):
        position = step.position
        match step:
            case Commit(summary=summary):
                if condition.holds_for(summary):
                    return PollResult(position=position, match=summary)
            case Gap(first=first, last=last):
                _log.warning(
                    "Skipping versions %s to %s of %s: log cleanup has deleted them. The wait continues after them.",
                    first,
                    last,
                    store.root,
                )
            case Recreated():
                _log.warning("Continuing the wait at the first version of %s: the table was recreated.", store.root)
    return PollResult(position=position, match=None)


def with_complete_summaries(store: LogStore, steps: Sequence[Step], condition: CommitCondition) -> tuple[Step, ...]:
    """Return the steps with summaries that are complete for the condition. Reads a commit again if necessary.

    If log cleanup has deleted the commit meanwhile, the step becomes a `Gap`.

    Raises: as `poll`.
    """
    return tuple(_with_complete_summary(store, step, condition) for step in steps)


def _with_complete_summary(store: LogStore, step: Step, condition: CommitCondition) -> Step:
    if not isinstance(step, Commit) or step.summary.is_complete or not condition.needs_complete_summary:
        return step
    version = step.position.version
    try:
        return Commit(summary=summary_at(store, version, condition), position=step.position)
    except VersionGapError:
        return Gap(first=version, last=version, position=step.position)


def table_id(store: LogStore) -> str | None:
    """Return the table's id, None if there is no table or no readable id; see `read_table_id`."""
    stored_id = read_table_id(store)
    return None if stored_id is None else encodable_text(stored_id)


def touched_partitions(
    store: LogStore, partitions: Sequence[Mapping[str, str | None]] | None
) -> tuple[str, ...] | None:
    """Return the names of the partitions in commit summaries; see `partition_names`.

    `partitions` is None if the partitions are unknown. The result is then None too, or empty if the table is not
    partitioned. The names depend on the table's metadata, which is read in bounded memory. The result is None if the
    metadata cannot be read or there is no table.
    """
    try:
        metadata = read_bounded_metadata(store)
    except DeltaLiteError as error:
        _log.warning("Could not read the metadata of %s, so its events name no partitions: %s", store.root, error)
        return None
    if metadata is None or partitions is None:
        return None if metadata is None or metadata.partition_columns else ()
    return partition_names(metadata, partitions)
