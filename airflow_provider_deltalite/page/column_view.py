"""The columns of a table with their statistics, as values for the templates.

The smallest and largest values are values of rows, so only users who may see rows see them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from airflow_provider_deltalite.page.reading import Result, State
from airflow_provider_deltalite.page.rendering import number
from deltalite.inspection.column_bounds import Bound
from deltalite.inspection.column_statistics import MAX_COLUMNS, ColumnStatistics
from deltalite.inspection.columns import ColumnRow
from deltalite.inspection.overview import TableOverview

_UNKNOWN = "\N{EN DASH}"
_PENDING = "…"
Statistics = tuple[ColumnStatistics | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnLine:
    """A column with the texts of its statistics; `low` and `high` have no values for a user who may not see rows."""

    column: ColumnRow
    nulls: str
    low: str = ""
    high: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnsView:
    """The columns of a table.

    - `shows_values`: whether the user may see the smallest and largest values.
    - `is_pending`: whether the read of the statistics has not ended.
    - `problem`: why the statistics could not be read; empty without a problem.
    - `limit`: the number of columns with statistics if the table has more; otherwise None.
    """

    lines: Sequence[ColumnLine]
    shows_values: bool
    is_pending: bool
    problem: str = ""
    limit: int | None = None


def columns_view(overview: TableOverview, result: Result[Statistics] | None, *, shows_values: bool) -> ColumnsView:
    """Return the columns, with their statistics if the read has ended. `result` is None before the read begins."""
    error = None if result is None else result.error
    statistics = None if result is None or result.state is not State.FRESH else result.value
    is_pending = statistics is None and error is None
    # The overview and the statistics each cover only the first columns of a wide table.
    rows = zip_longest(overview.columns, (statistics or ())[: len(overview.columns)])
    return ColumnsView(
        lines=[_line(column, values, is_pending=is_pending, shows_values=shows_values) for column, values in rows],
        shows_values=shows_values,
        is_pending=is_pending,
        problem="" if error is None else error.text,
        limit=MAX_COLUMNS if overview.column_count > MAX_COLUMNS else None,
    )


def _line(
    column: ColumnRow, statistics: ColumnStatistics | None, *, is_pending: bool, shows_values: bool
) -> ColumnLine:
    if statistics is None:
        text = _PENDING if is_pending else _UNKNOWN
        return ColumnLine(column=column, nulls=text, low=text, high=text)
    is_bound = statistics.nulls is not None and not statistics.are_nulls_exact
    return ColumnLine(
        column=column,
        nulls=f"at most {number(statistics.nulls)}" if is_bound else number(statistics.nulls),
        low=_bound_text(statistics.low, "at least") if shows_values else "",
        high=_bound_text(statistics.high, "at most") if shows_values else "",
    )


def _bound_text(bound: Bound | None, relation: str) -> str:
    if bound is None:
        return _UNKNOWN
    return bound.text if bound.is_exact else f"{relation} {bound.text}"
