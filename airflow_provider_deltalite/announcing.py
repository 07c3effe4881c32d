"""What a watched table's commits come to as events: a range of versions for each look, decided on values.

An event says the versions since the one before it, so consecutive events leave no version out, whatever lies between
them that does not count. The position is what has to be kept between two looks, and over a restart: then an event that
was sent, and whose position was not kept yet, is sent again. Commits that log cleanup took away unseen may have
counted, so they are announced. A table that was made again is announced from its first version.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from airflow_provider_deltalite.rendered import record
from deltalite.conditions import CommitCondition, CommitSummary, Place
from deltalite.errors import InvalidRequestError

if TYPE_CHECKING:
    from deltalite.watch import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far a table was looked at, and the last version of the last event, which is not beyond it."""

    place: Place
    announced: int
    table_id: str | None = None

    def __post_init__(self) -> None:
        if not -1 <= self.announced <= self.place.version:
            raise InvalidRequestError(
                f"announced is {self.announced}, and the table was looked at up to version {self.place.version}.",
                remedy="Give a version, or -1 for none, up to which the table was looked at.",
            )

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"place": self.place.as_dict(), "announced": self.announced, "table_id": self.table_id}

    @classmethod
    def from_dict(cls, values: object) -> Self:
        """The inverse of `as_dict`, for values that may be anybody's.

        Raises:
            InvalidRequestError: they are no position.
        """
        return record("position", values, cls)


def advance(
    position: Position, steps: Iterable[Step], condition: CommitCondition, table: str
) -> tuple[Position, dict[str, Any] | None]:
    """The position behind `steps`, and the event that they come to, None where nothing in them counts."""
    from deltalite.watch import Commit, Gap, Remade  # loads pyarrow, which parsing a DAG must not

    place, announced, table_id, reset = position.place, position.announced, position.table_id, position.place.remade
    counted: list[CommitSummary] = []
    lost: int | None = None
    for step in steps:
        place = step.place
        match step:
            case Commit(summary=summary):
                table_id = summary.table_id or table_id
                if condition.holds_for(summary):
                    counted.append(summary)
            case Gap(last=last):
                lost = last
            case Remade():
                announced, table_id, reset, counted, lost = -1, None, True, [], None
    if not counted and lost is None:
        return Position(place=replace(place, remade=reset), announced=announced, table_id=table_id), None
    version = max(lost if lost is not None else -1, counted[-1].version if counted else -1)
    event = {
        "table": table,
        "table_id": table_id,
        "from_version": announced + 1,
        "version": version,
        "operations": sorted({commit.operation for commit in counted if commit.operation is not None}),
        "data_changed": lost is not None or any(commit.data_changed for commit in counted),
        "commit_timestamp": counted[-1].timestamp_ms if counted else None,
        "reset": reset,
        "gap": lost is not None,
        "partitions": None if lost is not None else _changed_partitions(counted),
    }
    return Position(place=replace(place, remade=False), announced=version, table_id=table_id), event


def _changed_partitions(commits: Iterable[CommitSummary]) -> list[Mapping[str, str | None]] | None:
    """The partition values of the commits that change rows, without repeats; None if a commit does not tell them all.

    A file of a table without partitions has no values, so a commit of such a table has one partition, `{}`.
    """
    partitions: dict[Hashable, Mapping[str, str | None]] = {}
    for commit in commits:
        if not commit.data_changed:
            continue
        if not commit.is_complete or not commit.partitions:
            return None
        partitions.update((frozenset(values.items()), values) for values in commit.partitions)
    return list(partitions.values())
