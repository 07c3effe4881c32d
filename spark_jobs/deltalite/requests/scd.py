"""The request of an SCD task: a table with the newest row (type 1) or the history (type 2) of each key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from deltalite.requests.base import CommitRequest, Fault, convert_to_enum, repeated_name
from deltalite.requests.deduplicate import Deduplicate, deduplicate_of
from deltalite.requests.incremental import target_faults
from deltalite.requests.quarantine import rows_quarantine_faults
from deltalite.requests.rows import RowsRequest
from deltalite.requests.source import Source, query_faults, sources_of

NEWEST_ROWS, HISTORY = 1, 2
"""The values of `scd_type`."""


class OnSameSequence(StrEnum):
    """The behavior for a row that differs from an earlier row of the same key and sequence."""

    FAIL = "fail"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScdRequest(RowsRequest):
    """A request to apply the rows of `sources`, or of the `query` over them, to a table of type 1 or 2 (`scd_type`).

    `sequence_by` (SQL) orders the rows of a key. A row for which `delete_when` (SQL) is true deletes its key.
    `valid_from`, `valid_to`, `current` and `events` name the columns that the table has in addition to those of the
    source. A table of type 1 has only `valid_from` and `current`. Audits of level `quarantine` reject source rows,
    which go to the table `quarantine`. See `DeltaScdOperator` for the meaning of each parameter.
    """

    kind: ClassVar[str] = "scd"
    incidental_fields: ClassVar[frozenset[str]] = CommitRequest.incidental_fields | {"partition_by", "properties"}

    sources: Mapping[str, Source]
    keys: tuple[str, ...]
    sequence_by: str
    scd_type: int = HISTORY
    query: str | None = None
    query_params: Mapping[str, object] = field(default_factory=dict)
    deduplicate: Deduplicate | None = None
    track: tuple[str, ...] | None = None
    delete_when: str | None = None
    exclude: tuple[str, ...] = ()
    on_same_sequence: OnSameSequence = OnSameSequence.FAIL
    valid_from: str = "valid_from"
    valid_to: str = "valid_to"
    current: str = "is_current"
    events: str = "_scd_events"
    merge_schema: bool = False
    partition_by: tuple[str, ...] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    quarantine: str | None = None

    def __post_init__(self) -> None:
        convert_to_enum(self, "on_same_sequence", OnSameSequence)
        RowsRequest.__post_init__(self)

    @property
    def operation(self) -> str:
        """The name of the operation in the table's history: an SCD task is a merge."""
        return "MERGE"

    @property
    def added_columns(self) -> tuple[str, ...]:
        """The names of the columns that the table has in addition to those of the source."""
        if self.scd_type == NEWEST_ROWS:
            return (self.valid_from, self.current)
        return (self.valid_from, self.valid_to, self.current, self.events)

    def faults(self) -> Iterator[Fault]:
        """Yield the faults of the request, each with its remedy, the most important first."""
        yield from RowsRequest.faults(self)
        yield from query_faults(self.sources, self.query, self.query_params)
        yield from target_faults(self.sources, self.properties)
        if self.scd_type not in (NEWEST_ROWS, HISTORY):
            yield f"scd_type is {self.scd_type}.", "Give 1 for the newest row of each key, or 2 for its history."
        if not self.keys:
            yield "The request has no keys.", "Give the columns that identify a row: keys=['customer']."
        if not self.sequence_by.strip():
            yield "sequence_by is empty.", "Give the column or SQL expression that orders the rows of a key."
        if self.delete_when is not None and not self.delete_when.strip():
            yield "delete_when is empty.", "Give a predicate, or leave it out if no row deletes its key."
        if self.track is not None and self.scd_type == NEWEST_ROWS:
            yield "track needs scd_type=2.", "Leave it out: type 1 has no history."
        yield from self._column_faults()

    def _quarantine_faults(self) -> Iterator[Fault]:
        yield from rows_quarantine_faults(self)

    def _column_faults(self) -> Iterator[Fault]:
        """Yield the faults of the lists of columns and of the added columns."""
        for name in ("keys", "track", "exclude", "partition_by"):
            columns = getattr(self, name) or ()
            repeated_column = repeated_name(columns)
            if repeated_column is not None:
                yield f"{name} names '{repeated_column}' twice.", "Name each column once."
            if not all(column.strip() for column in columns):
                yield f"{name} has an empty text.", "Correct or remove it."
        repeated_column = repeated_name(self.added_columns)
        if repeated_column is not None or not all(column.strip() for column in self.added_columns):
            yield (
                f"The added columns are {', '.join(map(repr, self.added_columns))}.",
                "Give valid_from, valid_to, current and events different names.",
            )
        for other in ("track", "exclude"):
            common_column = _common_name(self.keys, getattr(self, other) or ())
            if common_column is not None:
                yield f"'{common_column}' is in keys and in {other}.", f"Leave it out of {other}."
        common_column = _common_name(self.track or (), self.exclude)
        if common_column is not None:
            yield f"'{common_column}' is in track and in exclude.", "Keep one of them."
        for other in ("keys", "track"):
            common_column = _common_name(getattr(self, other) or (), self.added_columns)
            if common_column is not None:
                yield (
                    f"'{common_column}' is in {other}, and is a column that the operation adds.",
                    "Give the added column another name with valid_from, valid_to, current or events.",
                )

    @classmethod
    def _convert_values(cls, body: dict[str, Any]) -> dict[str, Any]:
        body = super(ScdRequest, cls)._convert_values(body)  # slots=True makes a new class, so plain super() fails
        body["sources"] = sources_of(body["sources"])
        body["deduplicate"] = deduplicate_of(body.get("deduplicate"))
        for name in ("keys", "track", "exclude", "partition_by"):
            if body.get(name) is not None:
                body[name] = tuple(body[name])
        return body


def _common_name(first: tuple[str, ...], second: tuple[str, ...]) -> str | None:
    """Return the first name that is in both tuples, ignoring case; None if no name is."""
    names = {name.lower() for name in second}
    return next((name for name in first if name.lower() in names), None)
