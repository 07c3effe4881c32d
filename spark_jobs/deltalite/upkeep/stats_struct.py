"""Statistics as a struct (`stats_parsed`), parsed from the JSON in the log.

The struct contains the indexed columns of the table, by their physical names. Arrow parses the texts of many files at
once. If Arrow rejects a text, Python parses this text and a few others value by value, with the rules of data skipping.
Arrow still parses all other texts. An invalid bound becomes null, which is always safe. A text that is not a JSON
object becomes a null struct. Protocol: Checkpoints (`stats_parsed`), Per-file Statistics.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from deltalite.columnar.predicates.predicate import Path
from deltalite.columnar.skipping.file_facts import bound_value, count_of, parse_stats, value_at
from deltalite.columnar.skipping.stats_columns import values_where
from deltalite.protocol.arrow_schema import type_to_arrow
from deltalite.protocol.clustering import has_bounds
from deltalite.protocol.schema import DataType

_BLOCK_ROWS = 20_000
_MAX_ROWS_ONE_BY_ONE = 32
TIME_PATTERNS: Mapping[pa.DataType, str] = {
    pa.timestamp("us", tz="UTC"): r"^\d{4}-\d\d-\d\d[T ][\d:.]+(Z|[+-]\d\d:?\d\d)$",
    pa.timestamp("us"): r"^\d{4}-\d\d-\d\d[T ][\d:.]+$",
    pa.date32(): r"^\d{4}-\d\d-\d\d$",
}
"""The patterns of valid time bounds, by type. Only the text of a timestamp with a time zone has a time zone."""
COUNT_FIELDS = frozenset({"numRecords", "nullCount"})
_ROOT_FIELD = "stats"


class StatsStruct:
    """The struct of a table's statistics: its Arrow `type`, and `parse`.

    `leaves` are the columns with statistics, by their paths. `with_tight_bounds` adds the field `tightBounds`.
    """

    def __init__(self, leaves: Sequence[tuple[Path, DataType]], *, with_tight_bounds: bool = False) -> None:
        self._leaves_with_bounds = [(path, leaf) for path, leaf in leaves if has_bounds(leaf)]
        bounds = _nested_type([(path, type_to_arrow(leaf)) for path, leaf in self._leaves_with_bounds])
        counts = _nested_type([(path, pa.int64()) for path, _ in leaves])
        members: dict[str, pa.DataType | None] = {
            "numRecords": pa.int64(),
            "tightBounds": pa.bool_() if with_tight_bounds else None,
            "minValues": bounds,
            "maxValues": bounds,
            "nullCount": counts,
        }
        self.type: pa.StructType = pa.struct(
            [(name, data_type) for name, data_type in members.items() if data_type is not None]
        )
        self._count_paths = [path for path, _ in leaves]

    def parse(self, texts: pa.ChunkedArray) -> pa.ChunkedArray:
        """Convert each text to a struct; null if there is no text, or it is not a JSON object."""
        all_texts = texts.combine_chunks() if texts.num_chunks != 1 else texts.chunk(0)
        blocks = [
            self._parse_block(all_texts.slice(start, _BLOCK_ROWS)) for start in range(0, len(all_texts), _BLOCK_ROWS)
        ]
        return pa.chunked_array(blocks, self.type)

    def _parse_block(self, texts: pa.StringArray) -> pa.StructArray:
        try:
            return self._parse_at_once(texts)
        except pa.ArrowInvalid:  # A few invalid texts must not slow down all others.
            if len(texts) <= _MAX_ROWS_ONE_BY_ONE:
                return pa.array([self._parse_one(text) for text in texts.to_pylist()], self.type)
            half = len(texts) // 2
            return pa.concat_arrays([self._parse_block(texts.slice(0, half)), self._parse_block(texts.slice(half))])

    def _parse_at_once(self, texts: pa.StringArray) -> pa.StructArray:
        """Parse all texts with Arrow.

        Raises:
            ArrowInvalid: a text is not a JSON object, or a value has a wrong type.
        """
        lines = pc.binary_join_element_wise(f'{{"{_ROOT_FIELD}":', pc.fill_null(texts, "null"), "}", "")
        joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines), "\n")
        json_table = pa_json.read_json(
            io.BytesIO(joined[0].as_buffer()),
            read_options=pa_json.ReadOptions(use_threads=False, block_size=max(1, joined[0].as_buffer().size)),
            parse_options=pa_json.ParseOptions(
                explicit_schema=pa.schema([(_ROOT_FIELD, with_texts_for_times(self.type))]),
                newlines_in_values=True,
                unexpected_field_behavior="ignore",
            ),
        )
        if json_table.num_rows != len(texts):
            raise pa.ArrowInvalid("a text holds more than one value")
        structs = json_table.column(_ROOT_FIELD).combine_chunks()
        children = [
            _convert_leaves(structs.field(i), f.type, _valid_counts if f.name in COUNT_FIELDS else _valid_bounds)
            for i, f in enumerate(self.type)
        ]
        return pa.StructArray.from_arrays(children, fields=list(self.type), mask=pc.is_null(structs))

    def _parse_one(self, text: str | None) -> dict[str, Any] | None:
        stats = parse_stats(text)
        if stats is None:
            return None
        statistics: dict[str, Any] = {"numRecords": stats.num_records, "tightBounds": stats.tight_bounds}
        for name, values in (("minValues", stats.min_values), ("maxValues", stats.max_values)):
            bounds = ((path, _bound(value_at(values, path), leaf)) for path, leaf in self._leaves_with_bounds)
            statistics[name] = _nested_dict(bounds)
        null_counts = ((path, count_of(value_at(stats.null_counts, path))) for path in self._count_paths)
        statistics["nullCount"] = _nested_dict(null_counts)
        return statistics


def _nested_type(leaves: list[tuple[Path, pa.DataType]]) -> pa.StructType | None:
    """Return a type with the leaves in nested structs, in order; None if there are no leaves."""
    children: dict[str, list[tuple[Path, pa.DataType]]] = {}
    for path, data_type in leaves:
        children.setdefault(path[0], []).append((path[1:], data_type))
    fields = [
        pa.field(name, subtrees[0][1] if subtrees[0][0] == () else _nested_type(subtrees))
        for name, subtrees in children.items()
    ]
    return pa.struct(fields) if fields else None


def with_texts_for_times(data_type: pa.DataType) -> pa.DataType:
    """Return the type for the JSON reader, with texts instead of times, because times are first checked as texts."""
    if pa.types.is_struct(data_type):
        return pa.struct([f.with_type(with_texts_for_times(f.type)) for f in data_type])
    return pa.string() if data_type in TIME_PATTERNS else data_type


def _convert_leaves(
    values: pa.Array, target: pa.DataType, convert: Callable[[pa.Array, pa.DataType], pa.Array]
) -> pa.Array:
    """Convert each leaf of nested structs to its type in `target`."""
    if not pa.types.is_struct(target):
        return convert(values, target)
    children = [_convert_leaves(values.field(i), f.type, convert) for i, f in enumerate(target)]
    return pa.StructArray.from_arrays(children, fields=list(target), mask=pc.is_null(values))


def _valid_counts(values: pa.Array, _target: pa.DataType) -> pa.Array:
    """Return the counts with null instead of negative counts."""
    return values_where(pc.greater_equal(values, 0), values)


def _valid_bounds(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Convert bounds to the type of their column; an invalid bound becomes null."""
    if target in TIME_PATTERNS:
        return values_where(pc.match_substring_regex(values, TIME_PATTERNS[target]), values).cast(target)
    if pa.types.is_decimal(target):  # Arrow accepts more digits than the type allows.
        largest = Decimal((0, (9,) * target.precision, -target.scale))
        return values_where(pc.less_equal(pc.abs(values), pa.scalar(largest, target)), values)
    if pa.types.is_floating(target):  # Values too large for single precision have become infinite.
        return values_where(pc.is_finite(values), values)
    return values


def _bound(raw: Any, leaf: DataType) -> Any:
    """Return the bound as a Python value that fits the column, or None."""
    try:
        value = bound_value(raw, leaf)
        scalar = pa.scalar(value, type_to_arrow(leaf))
    except (ValueError, ArithmeticError, TypeError):  # Arrow's errors are subclasses of these.
        return None
    return None if pa.types.is_floating(scalar.type) and not math.isfinite(scalar.as_py() or 0) else value


def _nested_dict(values: Iterable[tuple[Path, Any]]) -> dict[str, Any]:
    """Return the values in nested dictionaries, one level for each name of a path."""
    root: dict[str, Any] = {}
    for path, value in values:
        parent = root
        for name in path[:-1]:
            parent = parent.setdefault(name, {})
        parent[path[-1]] = value
    return root
