"""The selection of a data file's row groups, from its footer.

A range of bytes selects each row group with its middle byte in the range. A predicate skips a row group if the
statistics prove that no row satisfies the predicate. NaN is never used as a bound, and a string bound may be truncated.
Source: the Parquet format, because the Delta protocol does not cover row groups.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import types

from deltalite.columnar.predicates.outcomes import TRUE, ColumnFacts, outcomes
from deltalite.columnar.predicates.predicate import Path, Predicate
from deltalite.protocol.schema import DataType, DecimalType, PrimitiveType

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_INTEGERS = frozenset(PrimitiveType(name) for name in ("byte", "short", "integer", "long"))
_FLOATING = frozenset(PrimitiveType(name) for name in ("float", "double"))
_TIMESTAMPS = frozenset(PrimitiveType(name) for name in ("timestamp", "timestamp_ntz"))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECONDS = {"ms": 1_000, "us": 1}
_NANOSECONDS_IN_MICROSECOND = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroups:
    """Adjacent row groups of a file, and the positions of their rows."""

    groups: range
    rows: range


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafColumn:
    """A leaf of the file that a predicate reads.

    `position` is the index of its Parquet column.
    `has_bounds` is False if the leaf's minimum and maximum are not usable, because they are in the Julian calendar.
    """

    position: int
    file_type: pa.DataType
    table_type: DataType
    has_bounds: bool


FactsOfGroup = Callable[[int, Path], ColumnFacts]


def row_groups(footer: pq.FileMetaData) -> list[RowGroups]:
    """Return the row groups of a file that have rows, each as a separate `RowGroups`."""
    groups = []
    first_row = 0
    for group in range(footer.num_row_groups):
        end_row = first_row + footer.row_group(group).num_rows
        if end_row > first_row:
            groups.append(RowGroups(groups=range(group, group + 1), rows=range(first_row, end_row)))
        first_row = end_row
    return groups


def select_by_range(
    groups: list[RowGroups], footer: pq.FileMetaData, start: int, length: int | None, file_bytes: int
) -> list[RowGroups]:
    """Return the row groups with their middle byte in the range; a byte after the file's end counts as the last byte.

    The range begins at `start`. Without `length`, the range ends with the file. `file_bytes` is the size of the file.
    """
    if start == 0 and length is None:
        return groups
    last = max(file_bytes - 1, 0)
    middles = [min(max(_middle_byte(footer.row_group(group.groups.start)), 0), last) for group in groups]
    end = last + 1 if length is None else start + length
    return [group for group, middle in zip(groups, middles, strict=True) if start <= middle < end]


def select_by_predicate(groups: list[RowGroups], predicate: Predicate, facts_of: FactsOfGroup) -> list[RowGroups]:
    """Return the row groups with a row for which a bound predicate may be TRUE; `facts_of` returns a column's facts."""
    return [group for group in groups if outcomes(predicate, partial(facts_of, group.groups.start)) & TRUE]


def join_adjacent(groups: list[RowGroups]) -> list[RowGroups]:
    """Return the row groups, which are in the file's order, with adjacent groups joined."""
    joined: list[RowGroups] = []
    for group in groups:
        if joined and joined[-1].rows.stop == group.rows.start:
            previous = joined.pop()
            group_range = range(previous.groups.start, group.groups.stop)
            joined.append(RowGroups(groups=group_range, rows=range(previous.rows.start, group.rows.stop)))
        else:
            joined.append(group)
    return joined


def facts_of_leaf(footer: pq.FileMetaData, group: int, leaf: LeafColumn) -> ColumnFacts:
    """Return the facts about a leaf in one row group. The leaf is not in a list or a map."""
    rows = footer.row_group(group).num_rows
    statistics = footer.row_group(group).column(leaf.position).statistics
    unknown = ColumnFacts(may_be_nan=leaf.table_type in _FLOATING)
    if statistics is None:
        return unknown
    nulls = statistics.null_count if statistics.has_null_count else None
    if nulls is not None and not 0 <= nulls <= rows:
        return unknown
    low, high = _bounds(statistics, leaf) if leaf.has_bounds and statistics.has_min_max else (None, None)
    return ColumnFacts(
        low=low,
        high=high,
        high_may_be_cut=isinstance(high, str),
        may_be_nan=leaf.table_type in _FLOATING,
        may_be_null=nulls is None or nulls > 0,
        may_be_value=nulls is None or nulls < rows,
    )


def _bounds(statistics: pq.Statistics, leaf: LeafColumn) -> tuple[Any, Any]:
    try:
        low, high = _bound(statistics, leaf, upper=False), _bound(statistics, leaf, upper=True)
    except (ValueError, OverflowError, pa.ArrowException):  # outside Python's calendar, or truncated within a character
        return None, None
    # Contradictory bounds come from a writer with another order of values.
    return (None, None) if low is None or high is None or low > high else (low, high)


def _bound(statistics: pq.Statistics, leaf: LeafColumn, *, upper: bool) -> Any:
    """Return the bound as a Python value that compares with literals of the column; None if no bound is certain."""
    file_type, table_type = leaf.file_type, leaf.table_type
    if types.is_timestamp(file_type):
        raw = statistics.max_raw if upper else statistics.min_raw
        return _timestamp_bound(raw, file_type, table_type, upper=upper) if isinstance(raw, int) else None
    value = statistics.max if upper else statistics.min
    if types.is_signed_integer(file_type) and (table_type in _INTEGERS or isinstance(table_type, DecimalType)):
        return value if isinstance(value, int) else None
    if types.is_float32(file_type) or types.is_float64(file_type):
        # NaN is not a bound.
        return value if table_type in _FLOATING and isinstance(value, float) and value == value else None  # noqa: PLR0124
    if types.is_decimal(file_type) and isinstance(table_type, DecimalType):
        return value if isinstance(value, Decimal) else None
    if types.is_boolean(file_type) and table_type == PrimitiveType("boolean"):
        return value if isinstance(value, bool) else None
    if types.is_date(file_type) and table_type == PrimitiveType("date"):
        return value if isinstance(value, date) and not isinstance(value, datetime) else None
    if (types.is_string(file_type) or types.is_large_string(file_type)) and table_type == PrimitiveType("string"):
        return value if isinstance(value, str) else None
    return None


def _timestamp_bound(raw: int, file_type: pa.TimestampType, table_type: DataType, *, upper: bool) -> datetime | None:
    if table_type not in _TIMESTAMPS:
        return None
    if file_type.unit == "ns":
        microseconds = -(-raw // _NANOSECONDS_IN_MICROSECOND) if upper else raw // _NANOSECONDS_IN_MICROSECOND
    else:
        microseconds = raw * _MICROSECONDS[file_type.unit]
    bound = _EPOCH + timedelta(microseconds=microseconds)
    return bound if table_type == PrimitiveType("timestamp") else bound.replace(tzinfo=None)


def _middle_byte(group: pq.RowGroupMetaData) -> int:
    if group.num_columns == 0:
        return 0
    first = group.column(0)
    begin = first.data_page_offset
    if first.dictionary_page_offset is not None and 0 < first.dictionary_page_offset < begin:
        begin = first.dictionary_page_offset
    size = sum(group.column(index).total_compressed_size for index in range(group.num_columns))
    return int(begin + size // 2)
