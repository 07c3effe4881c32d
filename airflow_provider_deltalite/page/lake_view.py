"""The list of tables as values for its template: a row for each table, whatever the state of its read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from airflow_provider_deltalite.page.freshness import Freshness, FreshnessWord, Schedule, freshness_of
from airflow_provider_deltalite.page.known_tables import KnownTable
from airflow_provider_deltalite.page.reading import Result, State
from airflow_provider_deltalite.page.spans import span_text
from deltalite.inspection.commit_entries import CommitEntry
from deltalite.inspection.overview import TableMeasures, TableOverview
from deltalite.inspection.table_rows import Outcome

PAGE_SIZE = 100
_MISSING = "TableNotFoundError"


class Health(StrEnum):
    """The state of a table, the most urgent first."""

    FAILED = "failed"
    SLOW = "no answer"
    DUE = "due"
    MEASURING = "not measured yet"
    WAITING = "not read yet"
    HEALTHY = "healthy"
    MISSING = "no table"


_RANKS = {health: rank for rank, health in enumerate(Health)}
_FRESHNESS_RANKS = {
    word: rank for rank, word in enumerate((FreshnessWord.LATE, FreshnessWord.UNKNOWN, FreshnessWord.FRESH))
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeRow:
    """A row of the list. A value is None if it is unknown; `reason` explains the health."""

    table: KnownTable
    health: Health
    reason: str
    size_bytes: int | None = None
    rows: int | None = None
    files: int | None = None
    version: int | None = None
    commit: CommitEntry | None = None
    freshness: Freshness | None = None


def lake_row(
    table: KnownTable,
    result: Result[TableOverview],
    measures: Result[TableMeasures] | None = None,
    *,
    schedules: Mapping[str, Schedule],
    now: datetime,
) -> LakeRow:
    """Return the row of a table.

    Args:
        table: the table, as the user may see it.
        result: the read of its overview.
        measures: the read of its measures, if the overview lacks them.
        schedules: the schedules of DAGs by their ids.
        now: the time, for the freshness.
    """
    overview = result.value
    health, reason = health_of(result, measures)
    if overview is None:
        return LakeRow(table=table, health=health, reason=reason)
    return LakeRow(
        table=table,
        health=health,
        reason=reason,
        size_bytes=overview.size_bytes,
        rows=overview.live_rows,
        files=overview.files,
        version=overview.version,
        commit=overview.last_commit,
        freshness=freshness_of_overview(table, overview, schedules, now),
    )


def freshness_of_overview(
    table: KnownTable, overview: TableOverview, schedules: Mapping[str, Schedule], now: datetime
) -> Freshness:
    """Return the freshness of a table at a time."""
    last_commit = overview.last_commit
    return freshness_of(
        table,
        schedules,
        last_commit_ms=None if last_commit is None else last_commit.timestamp_ms,
        usual_gap_ms=overview.usual_gap_ms,
        now=now,
    )


def health_of(result: Result[Any], measures: Result[TableMeasures] | None = None) -> tuple[Health, str]:
    """Return the health of a table and its reason.

    1. The read of the overview failed: no table, or failed.
    2. The read of the overview has not ended: no answer, or not read yet.
    3. The read of the measures failed: failed.
    4. The read of the measures has not ended: not measured yet.
    5. A step of the maintenance is due: due.
    6. Otherwise: healthy.

    `result` is the read of an overview. In the cases 1 and 2, it may also be a failed or unfinished read of other
    values, because these cases need no overview.
    """
    if result.error is not None:
        is_missing = result.error.kind == _MISSING
        return (Health.MISSING if is_missing else Health.FAILED), result.error.text
    if result.state is not State.FRESH or result.value is None:
        age = "" if result.value is None else f" The values are {result.age_seconds:.0f} s old."
        if result.state is State.SLOW:
            span = f"after {span_text(result.running_seconds)}" if result.running_seconds >= 1 else "yet"
            return Health.SLOW, f"The read of the table has not ended {span}.{age}"
        return Health.WAITING, f"Other tables of this storage are read first. Reload the page.{age}"
    if result.value.measures is None and measures is not None and measures.error is not None:
        return Health.FAILED, measures.error.text
    known_measures = known_measures_of(result.value, measures)
    if known_measures is None:
        return Health.MEASURING, "The table has many files, so the API server measures it in the background."
    due = [f"{step.step}: {step.reason}" for step in known_measures.steps if step.outcome is Outcome.DUE]
    return (Health.DUE, "; ".join(due)) if due else (Health.HEALTHY, "No maintenance is due.")


def known_measures_of(overview: TableOverview | None, measures: Result[TableMeasures] | None) -> TableMeasures | None:
    """Return the measures of an overview, or of the separate read; None if neither has them."""
    if overview is not None and overview.measures is not None:
        return overview.measures
    return None if measures is None else measures.value


_SORT_KEYS: dict[str, Callable[[LakeRow], Any]] = {
    "name": lambda row: row.table.name,
    "size": lambda row: row.size_bytes,
    "rows": lambda row: row.rows,
    "files": lambda row: row.files,
    "commit": lambda row: None if row.commit is None else row.commit.timestamp_ms,
    "freshness": lambda row: None if row.freshness is None else -_FRESHNESS_RANKS[row.freshness.word],
    "health": lambda row: -_RANKS[row.health],
}
SORTS = tuple(_SORT_KEYS)
DEFAULT_SORT = "health"


def sorted_rows(rows: Iterable[LakeRow], sort: str, *, is_ascending: bool) -> list[LakeRow]:
    """Return the rows in an order. Rows without a value come last, and rows with equal values by name."""
    by_name = sorted(rows, key=lambda row: (row.table.name.lower(), row.table.address))
    if sort == "name":
        return by_name if is_ascending else by_name[::-1]
    value_of = _SORT_KEYS[sort]
    rows_with_value = [row for row in by_name if value_of(row) is not None]
    rows_with_value.sort(key=value_of, reverse=not is_ascending)
    return rows_with_value + [row for row in by_name if value_of(row) is None]


def matching_tables(tables: Iterable[KnownTable], search: str) -> list[KnownTable]:
    """Return the tables whose address or DAGs contain every word of the search, ignoring case."""
    words = search.lower().split()
    return [
        table
        for table in tables
        if all(word in f"{table.address} {' '.join(sorted(table.dag_ids))}".lower() for word in words)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeView:
    """The list of tables.

    - `rows`: the rows of this page of the list.
    - `assets_without_table`: assets that look like tables, at whose address there is no table.
    - `counts`: the number of tables by health.
    """

    rows: Sequence[LakeRow]
    assets_without_table: Sequence[LakeRow]
    counts: dict[str, int]
    total: int
    page: int
    pages: int


def lake_view(rows: Sequence[LakeRow], sort: str, *, is_ascending: bool, page: int) -> LakeView:
    """Return a page of the list; `page` begins at 1."""
    shown = [row for row in rows if row.health is not Health.MISSING or row.table.is_root]
    missing = [row for row in rows if row.health is Health.MISSING and row.table.asset_ids and not row.table.is_root]
    ordered = sorted_rows(shown, sort, is_ascending=is_ascending)
    pages = max(1, -(-len(ordered) // PAGE_SIZE))
    page = min(max(1, page), pages)
    counts = {health.value: sum(row.health is health for row in shown) for health in Health}
    return LakeView(
        rows=ordered[(page - 1) * PAGE_SIZE : page * PAGE_SIZE],
        assets_without_table=sorted_rows(missing, "name", is_ascending=True),
        counts={name: count for name, count in counts.items() if count},
        total=len(shown),
        page=page,
        pages=pages,
    )
