"""Functions for tests of SCD tables: one call for a run, and a model that computes the rows from all events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalite.commands.scd import scd
from deltalite.requests import OnRerun, RunIdentity, ScdRequest
from tests.support.tables import UNUSED_SOURCE, rows, sorted_rows, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltalite.results import OperationResult


def apply_rows(
    spark: SparkSession, table: Path | str, query: str | None, *, run: str | None = None, **options: Any
) -> OperationResult:
    """Apply the rows of `query` to a history table of the key `id`. `run` is the app id."""
    options.setdefault("sources", {"source": UNUSED_SOURCE})
    options.setdefault("keys", ("id",))
    if run is not None:
        on_rerun = OnRerun(options.pop("on_rerun", "write"))
        options["identity"] = RunIdentity(app_id=run, txn_version=options.pop("generation", 0), on_rerun=on_rerun)
    return scd(spark, ScdRequest(table=str(table), query=query, **options))


@dataclass(frozen=True, order=True)
class Event:
    """A source row. `tracked` and `untracked` are None for a delete."""

    key: int
    sequence: int
    tracked: str | None
    untracked: str | None
    deletes: bool = False


EVENT_OPTIONS: Mapping[str, Any] = {
    "sequence_by": "seq",
    "delete_when": "op = 'D'",
    "exclude": ("op", "seq"),
}
"""The parameters of a run that applies the rows of `query_of`. Type 2 needs `track` too."""


def query_of(events: Iterable[Event]) -> str:
    """The query with the source rows of these events."""

    def literal(text: str | None) -> str:
        return "CAST(NULL AS STRING)" if text is None else f"'{text}'"

    lines = [
        f"{e.key}, {literal(e.tracked)}, {literal(e.untracked)}, {e.sequence}, '{'D' if e.deletes else 'U'}'"
        for e in events
    ]
    return values("id, name, note, seq, op", *lines)


def model_of_history(events: Iterable[Event]) -> list[tuple[Any, ...]]:
    """The rows of type 2: id, name, note, valid_from, valid_to, is_current.

    The model keeps the state of a key at each sequence, and cuts the sequence into ranges of equal tracked values.
    """
    result: list[tuple[Any, ...]] = []
    for key, key_events in _by_key(events).items():
        ranges: list[list[Any]] = []  # [name, note, from, to]
        for event in key_events:
            is_open = bool(ranges) and ranges[-1][3] is None
            if event.deletes:
                if is_open:
                    ranges[-1][3] = event.sequence
            elif is_open and ranges[-1][0] == event.tracked:
                ranges[-1][1] = event.untracked
            else:
                if is_open:
                    ranges[-1][3] = event.sequence
                ranges.append([event.tracked, event.untracked, event.sequence, None])
        if not ranges:
            first = key_events[0].sequence
            result.append((key, None, None, first, first, False))
        result += [(key, name, note, start, end, end is None) for name, note, start, end in ranges]
    return sorted_rows(result)


def model_of_newest(events: Iterable[Event]) -> list[tuple[Any, ...]]:
    """The rows of type 1: id, name, note, valid_from, is_current."""
    newest = [key_events[-1] for key_events in _by_key(events).values()]
    return sorted_rows((e.key, e.tracked, e.untracked, e.sequence, not e.deletes) for e in newest)


def visible_rows(table: Path | str) -> list[tuple[Any, ...]]:
    """The rows of a history table without the column `_scd_events`."""
    return sorted_rows(row[:6] for row in rows(table))


def _by_key(events: Iterable[Event]) -> Mapping[int, Sequence[Event]]:
    events_by_key: dict[int, list[Event]] = {}
    for event in sorted(set(events), key=lambda e: (e.key, e.sequence)):
        events_by_key.setdefault(event.key, []).append(event)
    return events_by_key
