"""Converts the commits of a watched table into asset events. This module reads no storage.

An event announces all versions since the previous event, including versions whose commits do not
match the watch condition. So consecutive events leave no version out. Airflow stores the watch
position between two polls. If a restart happens after an event was sent and before its position was
stored, the event is sent again. If log cleanup deletes commits before the watcher reads them, the
watcher announces them too, because they may match. The events of a recreated table begin at the
table's first version.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from airflow_provider_deltalite.rendered import parse_record
from airflow_provider_deltalite.saved_position import saved_log_position
from deltalite.conditions import CommitCondition, CommitSummary, LogPosition
from deltalite.errors import InvalidRequestError

if TYPE_CHECKING:
    from deltalite.watch import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchPosition:
    """The last position that a watcher has read, and the last version that it has announced (-1: none)."""

    log_position: LogPosition
    announced_version: int
    table_id: str | None = None

    def __post_init__(self) -> None:
        if not -1 <= self.announced_version <= self.log_position.version:
            raise InvalidRequestError(
                f"announced is {self.announced_version}, and the last version that was read is "
                f"{self.log_position.version}.",
                remedy="Give a version that was read, or -1 for none.",
            )

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values. Do not rename the keys: running deployments have stored them."""
        return {"place": self.log_position.as_dict(), "announced": self.announced_version, "table_id": self.table_id}

    @classmethod
    def from_dict(cls, values: object) -> Self:
        """Return the position that `as_dict` has converted to `values`.

        Raises:
            InvalidRequestError: the values are not a watch position of this release.
        """
        saved_values = parse_record("position", values, _SavedWatchPosition)
        log_position = saved_log_position("position.place", saved_values.place)
        try:
            return cls(
                log_position=log_position,
                announced_version=saved_values.announced,
                table_id=saved_values.table_id,
            )
        except InvalidRequestError as error:
            raise InvalidRequestError(f"position: {error.problem}", remedy=error.remedy) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _SavedWatchPosition:
    """The JSON values of a watch position, with the keys that Airflow has stored."""

    place: Mapping[str, object]
    announced: int
    table_id: str | None = None


def position_and_event_after(
    position: WatchPosition, steps: Iterable[Step], condition: CommitCondition, table: str
) -> tuple[WatchPosition, dict[str, Any] | None]:
    """Return the position after `steps`, and the event that announces them.

    Steps before a recreation of the table do not count. The event is None if no commit matches and log cleanup
    has deleted none of the commits.
    """
    from deltalite.watch import Commit, Gap, Recreated  # loads pyarrow, which DAG parsing must not load

    log_position, announced_version, table_id = position.log_position, position.announced_version, position.table_id
    recreated = log_position.recreated
    matching_commits: list[CommitSummary] = []
    last_deleted_version = -1  # none
    for step in steps:
        log_position = step.position
        match step:
            case Commit(summary=summary):
                table_id = summary.table_id or table_id
                if condition.holds_for(summary):
                    matching_commits.append(summary)
            case Gap(last=last):
                last_deleted_version = last
            case Recreated():
                announced_version, table_id, recreated = -1, None, True
                matching_commits, last_deleted_version = [], -1
    has_gap = last_deleted_version >= 0
    if not matching_commits and not has_gap:
        next_position = WatchPosition(
            log_position=replace(log_position, recreated=recreated),
            announced_version=announced_version,
            table_id=table_id,
        )
        return next_position, None
    version = max(last_deleted_version, matching_commits[-1].version if matching_commits else -1)
    event = {
        "table": table,
        "table_id": table_id,
        "from_version": announced_version + 1,
        "version": version,
        "operations": sorted({commit.operation for commit in matching_commits if commit.operation is not None}),
        "data_changed": has_gap or any(commit.data_changed for commit in matching_commits),
        "commit_timestamp": matching_commits[-1].timestamp_ms if matching_commits else None,
        "reset": recreated,
        "gap": has_gap,
        "partitions": None if has_gap else _changed_partitions(matching_commits),
    }
    next_position = WatchPosition(
        log_position=replace(log_position, recreated=False), announced_version=version, table_id=table_id
    )
    return next_position, event


def _changed_partitions(commits: Iterable[CommitSummary]) -> list[Mapping[str, str | None]] | None:
    """Return the partition values of the commits that change rows.

    The result is None if one of these commits does not name all its partitions, or names none. A commit of a table
    without partition columns names one partition, `{}`.
    """
    partitions: dict[Hashable, Mapping[str, str | None]] = {}
    for commit in commits:
        if not commit.data_changed:
            continue
        if not (commit.is_complete and commit.knows_partitions and commit.partitions):
            return None
        partitions.update((frozenset(values.items()), values) for values in commit.partitions)
    return list(partitions.values())
