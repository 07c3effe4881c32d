"""A file's statistics for the log, computed from its Parquet footer without reading rows.

A column has bounds only if each of its row groups with values has bounds. Values that JSON or Delta cannot represent
(NaN, infinities, int96 timestamps, years after 9999) have no bound. A missing bound is always safe. The table's
configuration selects the columns with statistics. Parquet columns are found by position in the file's schema, because a
dotted path is ambiguous if a name contains a dot. Protocol: Per-file Statistics.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, assert_never

from pyarrow import types

from deltalite.columnar.parquet.file_columns import FileField, fields_of
from deltalite.columnar.predicates.predicate import Path, is_nan
from deltalite.columnar.statistics.string_bounds import cut_max, cut_min
from deltalite.errors import InvalidRequestError
from deltalite.protocol.column_mapping import TableSchema
from deltalite.protocol.properties import NUM_INDEXED_COLUMNS, STATS_COLUMNS, STRING_PREFIX_LENGTH
from deltalite.protocol.schema import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructType,
    leaves,
    member_at,
)

if TYPE_CHECKING:
    import pyarrow.parquet as pq


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedColumns:
    """The leaf columns with statistics, in the schema's order, and the length to which strings are truncated."""

    leaves: tuple[tuple[Path, DataType], ...]
    string_prefix_length: int


def indexed_columns(
    table: TableSchema, configuration: Mapping[str, str], *, always: Collection[Path] = ()
) -> IndexedColumns:
    """Return the columns with statistics by a table's configuration, with physical names.

    `delta.dataSkippingStatsColumns` names columns, or structs for all their leaves. Without this property, the first
    `delta.dataSkippingNumIndexedCols` leaves have statistics. Partition columns do not count. The leaves in `always`
    (paths of physical names) have statistics with any configuration.

    Raises:
        InvalidRequestError: a property is invalid, or names a column that does not exist.
    """
    column_pairs = zip(leaves(table.logical), leaves(table.physical), strict=True)
    file_leaves = [
        (path, physical_path, leaf.type)
        for (path, _), (physical_path, leaf) in column_pairs
        if physical_path[0] not in table.partition_keys
    ]
    column_list = STATS_COLUMNS.of(configuration)
    if column_list is None:
        count = NUM_INDEXED_COLUMNS.of(configuration)
        indexed = {physical_path for _, physical_path, _ in (file_leaves if count < 0 else file_leaves[:count])}
    else:
        roots = [_stats_column(column, table.logical) for column in parse_column_list(column_list)]
        indexed = {
            physical_path for path, physical_path, _ in file_leaves if any(path[: len(root)] == root for root in roots)
        }
    indexed |= set(always)
    return IndexedColumns(
        leaves=tuple(
            (physical_path, data_type) for _, physical_path, data_type in file_leaves if physical_path in indexed
        ),
        string_prefix_length=STRING_PREFIX_LENGTH.of(configuration),
    )


def parse_column_list(text: str) -> list[Path]:
    """Parse a list of paths such as ``a, b.c, `with.dot` ``; a quoted name escapes a backtick by doubling it.

    Raises:
        InvalidRequestError: a backtick is not closed, or a name is empty.
    """
    columns: list[Path] = []
    names: list[str] = []
    unparsed_text = text.strip()
    while unparsed_text:
        name, unparsed_text = _take_name(unparsed_text, text)
        names.append(name)
        if unparsed_text.startswith("."):
            unparsed_text = unparsed_text[1:]
            continue
        columns.append(tuple(names))
        names = []
        if unparsed_text and not unparsed_text.startswith(","):
            raise _column_list_error(text)
        unparsed_text = unparsed_text[1:].lstrip()
    if names:
        raise _column_list_error(text)
    return columns


def statistics_json(footer: pq.FileMetaData, indexed: IndexedColumns) -> str:
    """Return the `stats` of an `add`: numRecords, minValues, maxValues and nullCount, nested like the schema.

    Arrays and maps have no statistics, because a footer counts their elements. Booleans, binaries and variants have
    only a null count.
    """
    positions = _leaf_positions(fields_of(footer.schema.to_arrow_schema()))
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for path, data_type in indexed.leaves:
        position = positions.get(_lower_case(_stored_path(path, data_type)))
        column_stats = None if position is None else _column_stats(footer, position)
        if column_stats is None or isinstance(data_type, ArrayType | MapType):
            continue
        _put(nulls, path, column_stats.null_count)
        if column_stats.bounds is not None:
            smallest, largest = column_stats.bounds
            _put(low, path, _bound(smallest, data_type, indexed.string_prefix_length, upper=False))
            _put(high, path, _bound(largest, data_type, indexed.string_prefix_length, upper=True))
    return _to_json({"numRecords": footer.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls})


def _stored_path(path: Path, data_type: DataType) -> Path:
    """Return the path of the Parquet column that is null where the leaf is null: for a variant, its `metadata`."""
    return (*path, "metadata") if data_type == PrimitiveType("variant") else path


@dataclass(frozen=True, slots=True)
class _ColumnStats:
    """The null count of a column in a file, and its smallest and largest value.

    `bounds` is None if all values are null, or if the bounds are not certain.
    """

    null_count: int
    bounds: tuple[Any, Any] | None


def _column_stats(footer: pq.FileMetaData, position: int) -> _ColumnStats | None:
    """Return the merged statistics of a column in all row groups; None if a row group has no null count."""
    null_count, smallest, largest, has_bounds = 0, [], [], True
    for group in range(footer.num_row_groups):
        chunk = footer.row_group(group).column(position)
        if chunk.num_values == 0:
            continue
        statistics = chunk.statistics
        if statistics is None or not statistics.has_null_count:
            return None
        null_count += statistics.null_count
        if chunk.num_values == statistics.null_count:
            continue
        try:
            smallest.append(statistics.min)
            largest.append(statistics.max)
        # The bound is a date outside Python's range, or a string that was truncated within a character.
        except (ValueError, OverflowError):
            has_bounds = False
        has_bounds = has_bounds and statistics.has_min_max
    if not has_bounds or not smallest or any(is_nan(value) for value in (*smallest, *largest)):
        return _ColumnStats(null_count, None)
    return _ColumnStats(null_count, (min(smallest), max(largest)))


def _bound(value: Any, data_type: DataType, prefix_length: int, *, upper: bool) -> Any:
    """Return a bound as the statistics store it; None if they cannot represent the value."""
    match data_type:
        case PrimitiveType("byte" | "short" | "integer" | "long"):
            return value if isinstance(value, int) and not isinstance(value, bool) else None
        case PrimitiveType("float" | "double"):
            # Parquet writes a zero minimum as -0.0; adding zero removes the sign.
            return value + 0.0 if isinstance(value, float) and math.isfinite(value) else None
        case DecimalType(scale=scale):
            return _decimal(value, scale) if isinstance(value, Decimal) else None
        case PrimitiveType("string"):
            if not isinstance(value, str):
                return None
            return cut_max(value, prefix_length) if upper else cut_min(value, prefix_length)
        case PrimitiveType("date"):
            return value.isoformat() if isinstance(value, date) and not isinstance(value, datetime) else None
        case PrimitiveType("timestamp"):
            is_aware = isinstance(value, datetime) and value.utcoffset() is not None
            return _milliseconds(value.astimezone(UTC)) + "Z" if is_aware else None
        case PrimitiveType("timestamp_ntz"):
            is_naive = isinstance(value, datetime) and value.utcoffset() is None
            return _milliseconds(value) if is_naive else None
        case PrimitiveType() | ArrayType() | MapType() | StructType():
            return None
        case _:
            assert_never(data_type)


def _milliseconds(value: datetime) -> str:
    """Format a time rounded down to milliseconds, also before 1970: `2026-01-01T00:00:00.000`."""
    return value.replace(tzinfo=None).isoformat(timespec="milliseconds")


def _decimal(value: Decimal, scale: int) -> Decimal | None:
    _, _, exponent = value.as_tuple()
    return value if isinstance(exponent, int) and -exponent <= scale else None


def _leaf_positions(fields: Iterable[FileField], prefix: Path = ()) -> dict[Path, int]:
    """Return the position of the Parquet column of each leaf outside arrays and maps, by its path in lower case."""
    positions: dict[Path, int] = {}
    for field in fields:
        path = (*prefix, field.name.lower())
        if types.is_struct(field.type):
            positions |= _leaf_positions(field.parts, path)
        elif not types.is_nested(field.type):
            positions[path] = field.leaves.start
    return positions


def _put(values: dict[str, Any], path: Path, value: Any) -> None:
    if value is None:
        return
    for name in path[:-1]:
        values = values.setdefault(name, {})
    values[path[-1]] = value


def _to_json(value: Any) -> str:
    """Serialize to compact JSON, with all digits of a Decimal, which `json` would reject or round."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_to_json(key)}:{_to_json(item)}" for key, item in value.items()) + "}"
    return format(value, "f") if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)


def _lower_case(path: Path) -> Path:
    return tuple(name.lower() for name in path)


def _stats_column(column: Path, schema: StructType) -> Path:
    resolved = member_at(schema, column)
    if resolved is None:
        raise InvalidRequestError(
            f"The table property {STATS_COLUMNS.key} names the column '{'.'.join(column)}', which does not exist.",
            remedy=f"The table's columns are: {', '.join(schema.names)}.",
        )
    return resolved[0]


def _take_name(text: str, column_list: str) -> tuple[str, str]:
    """Return the first name of `text` (without quotes), and the text after it.

    Raises:
        InvalidRequestError: the name is invalid; the message has the whole `column_list`.
    """
    if not text.startswith("`"):
        end = min((text.index(separator) for separator in ".," if separator in text), default=len(text))
        name, text_after_name = text[:end].strip(), text[end:]
    else:
        end = 1
        while text[end : end + 2] == "``" or (end < len(text) and text[end] != "`"):
            end += 2 if text[end : end + 2] == "``" else 1
        if end >= len(text):
            raise _column_list_error(column_list)
        name, text_after_name = text[1:end].replace("``", "`"), text[end + 1 :].lstrip()
    if not name or ("`" in name and not text.startswith("`")):
        raise _column_list_error(column_list)
    return name, text_after_name


def _column_list_error(text: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"The table property {STATS_COLUMNS.key} is {text!r}, which is not a list of columns.",
        remedy="Separate the columns by commas, and put names with dots or commas in backticks.",
    )
