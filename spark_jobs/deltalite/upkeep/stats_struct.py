"""Statistics as a struct (`stats_parsed`), parsed from the JSON in the log.

The struct has the indexed columns of the table, by their physical names. Arrow parses the texts of many files at once.
If Arrow rejects a text, that text and a few around it are parsed value by value, with the rules of data skipping; all
others are still parsed at once. An invalid bound becomes null, which is always safe. A text that is not a JSON object
becomes a null struct. Protocol: Checkpoints (`stats_parsed`), Per-file Statistics.
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
from deltalite.protocol.schema import DataType, DecimalType, PrimitiveType

_BLOCK_ROWS = 20_000
_FEW_ROWS = 32
_UNBOUNDED = frozenset({"boolean", "binary", "variant", "void"})
TIMES: Mapping[pa.DataType, str] = {
    pa.timestamp("us", tz="UTC"): r"^\d{4}-\d\d-\d\d[T ][\d:.]+(Z|[+-]\d\d:?\d\d)$",
    pa.timestamp("us"): r"^\d{4}-\d\d-\d\d[T ][\d:.]+$",
    pa.date32(): r"^\d{4}-\d\d-\d\d$",
}
"""The valid texts of time bounds: an instant has a time zone, and a time without a time zone has none."""
COUNTS = frozenset({"numRecords", "nullCount"})
_ALL = "stats"


class StatsStruct:
    """The struct of a table's statistics: its Arrow `type`, and `parse`. `leaves` are its columns."""

    def __init__(self, leaves: Sequence[tuple[Path, DataType]], *, with_tight_bounds: bool = False) -> None:
        self._bounded = [(path, leaf) for path, leaf in leaves if _has_bounds(leaf)]
        bounds = _tree([(path, type_to_arrow(leaf)) for path, leaf in self._bounded])
        counts = _tree([(path, pa.int64()) for path, _ in leaves])
        members: dict[str, pa.DataType | None] = {
            "numRecords": pa.int64(),
            "tightBounds": pa.bool_() if with_tight_bounds else None,
            "minValues": bounds,
            "maxValues": bounds,
            "nullCount": counts,
        }
        self.type: pa.StructType = pa.struct([(name, kind) for name, kind in members.items() if kind is not None])
        self._count_paths = [path for path, _ in leaves]

    def parse(self, texts: pa.ChunkedArray) -> pa.ChunkedArray:
        """Convert each text to a struct; null if there is no text, or it is not a JSON object."""
        all_texts = texts.combine_chunks() if texts.num_chunks != 1 else texts.chunk(0)
        blocks = [self._parse_block(all_texts.slice(at, _BLOCK_ROWS)) for at in range(0, len(all_texts), _BLOCK_ROWS)]
        return pa.chunked_array(blocks, self.type)

    def _parse_block(self, texts: pa.StringArray) -> pa.StructArray:
        try:
            return self._parse_at_once(texts)
        except pa.ArrowInvalid:  # a few invalid texts must not slow down all others
            if len(texts) <= _FEW_ROWS:
                return pa.array([self._parse_one(text) for text in texts.to_pylist()], self.type)
            half = len(texts) // 2
            return pa.concat_arrays([self._parse_block(texts.slice(0, half)), self._parse_block(texts.slice(half))])

    def _parse_at_once(self, texts: pa.StringArray) -> pa.StructArray:
        """Parse all texts with Arrow. Raises `ArrowInvalid` if one is not a JSON object or a value has a wrong type."""
        lines = pc.binary_join_element_wise(f'{{"{_ALL}":', pc.fill_null(texts, "null"), "}", "")
        joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines), "\n")
        read = pa_json.read_json(
            io.BytesIO(joined[0].as_buffer()),
            read_options=pa_json.ReadOptions(use_threads=False, block_size=max(1, joined[0].as_buffer().size)),
            parse_options=pa_json.ParseOptions(
                explicit_schema=pa.schema([(_ALL, with_texts(self.type))]),
                newlines_in_values=True,
                unexpected_field_behavior="ignore",
            ),
        )
        if read.num_rows != len(texts):
            raise pa.ArrowInvalid("a text holds more than one value")
        parsed = read.column(_ALL).combine_chunks()
        children = [
            _leaf_by_leaf(parsed.field(i), f.type, _valid_counts if f.name in COUNTS else _valid_bounds)
            for i, f in enumerate(self.type)
        ]
        return pa.StructArray.from_arrays(children, fields=list(self.type), mask=pc.is_null(parsed))

    def _parse_one(self, text: str | None) -> dict[str, Any] | None:
        stats = parse_stats(text)
        if stats is None:
            return None
        statistics: dict[str, Any] = {"numRecords": stats.num_records, "tightBounds": stats.tight_bounds}
        for name, values in (("minValues", stats.min_values), ("maxValues", stats.max_values)):
            statistics[name] = _nested((path, _bound(value_at(values, path), leaf)) for path, leaf in self._bounded)
        null_counts = ((path, count_of(value_at(stats.null_counts, path))) for path in self._count_paths)
        statistics["nullCount"] = _nested(null_counts)
        return statistics


def _has_bounds(leaf: DataType) -> bool:
    return isinstance(leaf, DecimalType) or (isinstance(leaf, PrimitiveType) and leaf.name not in _UNBOUNDED)


def _tree(leaves: list[tuple[Path, pa.DataType]]) -> pa.StructType | None:
    """Return the leaves as nested structs, in order, or None."""
    children: dict[str, list[tuple[Path, pa.DataType]]] = {}
    for path, kind in leaves:
        children.setdefault(path[0], []).append((path[1:], kind))
    fields = [
        pa.field(name, subtrees[0][1] if subtrees[0][0] == () else _tree(subtrees))
        for name, subtrees in children.items()
    ]
    return pa.struct(fields) if fields else None


def with_texts(kind: pa.DataType) -> pa.DataType:
    """Return the type for the JSON reader, with texts instead of times, which are checked as text first."""
    if pa.types.is_struct(kind):
        return pa.struct([f.with_type(with_texts(f.type)) for f in kind])
    return pa.string() if kind in TIMES else kind


def _leaf_by_leaf(
    values: pa.Array, target: pa.DataType, convert: Callable[[pa.Array, pa.DataType], pa.Array]
) -> pa.Array:
    if not pa.types.is_struct(target):
        return convert(values, target)
    children = [_leaf_by_leaf(values.field(i), f.type, convert) for i, f in enumerate(target)]
    return pa.StructArray.from_arrays(children, fields=list(target), mask=pc.is_null(values))


def _valid_counts(values: pa.Array, _target: pa.DataType) -> pa.Array:
    return values_where(pc.greater_equal(values, 0), values)


def _valid_bounds(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Convert bounds to the type of their column; invalid ones become null."""
    if target in TIMES:
        return values_where(pc.match_substring_regex(values, TIMES[target]), values).cast(target)
    if pa.types.is_decimal(target):  # Arrow accepts more digits than the type has
        largest = Decimal((0, (9,) * target.precision, -target.scale))
        return values_where(pc.less_equal(pc.abs(values), pa.scalar(largest, target)), values)
    if pa.types.is_floating(target):  # values too large for single precision have become infinite
        return values_where(pc.is_finite(values), values)
    return values


def _bound(raw: Any, leaf: DataType) -> Any:
    """Return the bound as a Python value that fits the column, or None."""
    try:
        value = bound_value(raw, leaf)
        scalar = pa.scalar(value, type_to_arrow(leaf))
    except (ValueError, ArithmeticError, TypeError):  # Arrow's errors are subclasses of these
        return None
    return None if pa.types.is_floating(scalar.type) and not math.isfinite(scalar.as_py() or 0) else value


def _nested(values: Iterable[tuple[Path, Any]]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for path, value in values:
        inner = nested
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
        inner[path[-1]] = value
    return nested
