"""The facts about columns of many files, parsed from their statistics at once.

Arrow's JSON reader parses statistics in their usual form, with the same result as `file_facts.py` for each file. It
rejects other forms: text that is not a JSON object, a bound of another type than its column, a number that Arrow cannot
hold. `facts_of_files` then returns None, and the caller tries fewer files. Only columns of the types that `bound_type`
supports are parsed here. Protocol: Per-file Statistics.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from deltalite.columnar.predicates.masks import Masks
from deltalite.columnar.predicates.outcomes import ANY
from deltalite.columnar.predicates.predicate import Path
from deltalite.columnar.skipping.fact_columns import FactColumn
from deltalite.columnar.skipping.file_facts import (
    CUT_FROM_TIMESTAMPS,
    FLOATING,
    ROUNDING_OF_DOUBLE,
    SATURATED,
    SHORTEST_CUT,
    known_beginning,
    may_be_rounded,
)
from deltalite.protocol.schema import DataType, DecimalType, PrimitiveType

_STRING = PrimitiveType("string")
_FLOAT = PrimitiveType("float")
_PRIMITIVES: Mapping[DataType, tuple[pa.DataType, pa.DataType]] = {
    **{PrimitiveType(name): (pa.int64(), pa.int64()) for name in ("byte", "short", "integer", "long")},
    **dict.fromkeys(FLOATING, (pa.float64(), pa.float64())),
    _STRING: (pa.string(), pa.string()),
    PrimitiveType("boolean"): (pa.bool_(), pa.bool_()),
    PrimitiveType("date"): (pa.string(), pa.date32()),
    PrimitiveType("timestamp"): (pa.string(), pa.timestamp("us", "UTC")),
    PrimitiveType("timestamp_ntz"): (pa.string(), pa.timestamp("us")),
}
# The range of Python's dates, in days and in microseconds since 1970, to give the same result as `file_facts.py`.
_CALENDAR_DAYS = (-719_162, 2_932_896)
_CALENDAR_MICROS = (_CALENDAR_DAYS[0] * 86_400_000_000, (_CALENDAR_DAYS[1] + 1) * 86_400_000_000 - 1)
# Widening by `ROUNDING_OF_DOUBLE` adds this many digits to the bounds of decimals.
_DIGITS_OF_ROUNDING = 15
_MAX_DIGITS = 76
_MAX_BYTES = 1 << 29
_MIN_BLOCK_BYTES = 1 << 20


def bound_type(data_type: DataType) -> pa.DataType | None:
    """Return the Arrow type in which a column's bounds are compared; None if its statistics are not parsed here."""
    types = _types(data_type)
    return None if types is None else types[1]


def _types(data_type: DataType) -> tuple[pa.DataType, pa.DataType] | None:
    """Return the Arrow type of a bound in the JSON, and the Arrow type in which it is compared."""
    if isinstance(data_type, DecimalType):
        scale = data_type.scale
        return pa.decimal128(38, scale), pa.decimal256(_MAX_DIGITS, scale + _DIGITS_OF_ROUNDING)
    return _PRIMITIVES.get(data_type)


def facts_of_files(stats: pa.StringArray, columns: Mapping[Path, DataType]) -> Mapping[Path, FactColumn] | None:
    """Return the facts about each column, with one element per statistics text (JSON, or null).

    The columns have types that `bound_type` supports, and no path is a prefix of another. Returns None if a text does
    not have the usual form, or if the texts have more than 512 MB.
    """
    texts = pc.if_else(pc.equal(pc.coalesce(stats, ""), ""), "{}", stats)
    file_stats = _parse(texts, columns)
    if file_stats is None and any(data_type in FLOATING for data_type in columns.values()):
        file_stats = _parse(_with_bare_numbers(texts), columns)
    if file_stats is None:
        return None
    try:
        return {path: _fact_column(file_stats, path, data_type) for path, data_type in columns.items()}
    except pa.ArrowInvalid:  # a text is not a date or time in a form that Arrow parses
        return None


def _parse(texts: pa.StringArray, columns: Mapping[Path, DataType]) -> pa.StructArray | None:
    """Parse the statistics of the columns to structs; return None if Arrow rejects a text, or for too many bytes."""
    lines = pc.binary_join_element_wise('{"stats":', texts, "}\n", "")
    lengths = pc.binary_length(lines)
    if (pc.sum(lengths).as_py() or 0) > _MAX_BYTES:
        return None
    bounds = _struct_type({path: _supported_types(data_type)[0] for path, data_type in columns.items()})
    counts = _struct_type(dict.fromkeys(columns, pa.int64()))
    members = [("numRecords", pa.int64()), ("minValues", bounds), ("maxValues", bounds), ("nullCount", counts)]
    try:
        table = pj.read_json(
            pa.BufferReader(_content(lines)),
            # Arrow rejects a line that is longer than a block.
            read_options=pj.ReadOptions(block_size=max(2 * pc.max(lengths).as_py(), _MIN_BLOCK_BYTES)),
            parse_options=pj.ParseOptions(
                explicit_schema=pa.schema([("stats", pa.struct(members))]), unexpected_field_behavior="ignore"
            ),
        )
    except pa.ArrowInvalid:
        return None
    # A text that closes the object and opens another would give two rows.
    return table["stats"].combine_chunks() if table.num_rows == len(texts) else None


def _content(texts: pa.StringArray) -> pa.Buffer:
    """Return the concatenated texts; the array is not a slice."""
    return texts.buffers()[2]


def _supported_types(data_type: DataType) -> tuple[pa.DataType, pa.DataType]:
    types = _types(data_type)
    assert types is not None, f"the bounds of {data_type} have no Arrow type"  # noqa: S101  see `facts_of_files`
    return types


def _struct_type(types: Mapping[Path, pa.DataType]) -> pa.StructType:
    types_by_name: dict[str, dict[Path, pa.DataType]] = {}
    for path, data_type in types.items():
        types_by_name.setdefault(path[0], {})[path[1:]] = data_type
    return pa.struct(
        [(name, nested[()] if () in nested else _struct_type(nested)) for name, nested in types_by_name.items()]
    )


def _with_bare_numbers(texts: pa.StringArray) -> pa.StringArray:
    """Return the texts with NaN and infinities as Arrow parses them: without quotes.

    If a string column has such a value, Arrow rejects the result.
    """
    texts = pc.replace_substring_regex(texts, r':\s*"NaN"', ":NaN")
    return pc.replace_substring_regex(texts, r':\s*"(-?)Infinity"', r":\1Inf")


def _fact_column(stats: pa.StructArray, path: Path, data_type: DataType) -> FactColumn:
    smallest, largest = _member(stats, "minValues", *path), _member(stats, "maxValues", *path)
    null_count, num_records = _count(_member(stats, "nullCount", *path)), _count(_member(stats, "numRecords"))
    low, high = _bounds(smallest, largest, data_type)
    may_be_cut = None
    if data_type == _STRING:
        high, may_be_cut = _known_beginnings(high)
    all_null = pc.and_(pc.greater(null_count, 0), pc.equal(null_count, num_records))
    has_bound = pc.or_(pc.is_valid(smallest), pc.is_valid(largest))
    return FactColumn(
        low=low,
        high=high,
        high_may_be_cut=may_be_cut,
        may_be_nan=data_type in FLOATING,
        nulls=Masks.where(pc.fill_null(pc.not_equal(null_count, 0), True), ANY),
        values=Masks.where(pc.or_(pc.invert(pc.fill_null(all_null, False)), has_bound), ANY),
    )


def _member(stats: pa.StructArray, *names: str) -> pa.Array:
    """Return a field of nested structs; null if a struct is null."""
    for name in names:
        stats = pc.struct_field(stats, [stats.type.get_field_index(name)])
    return stats


def _count(numbers: pa.Int64Array) -> pa.Int64Array:
    """Return the numbers of rows, with null for a negative number."""
    return values_where(pc.greater_equal(numbers, 0), numbers)


def _bounds(smallest: pa.Array, largest: pa.Array, data_type: DataType) -> tuple[pa.Array, pa.Array]:
    """Convert bounds to the type in which they are compared; see `file_facts.facts_from_stats`.

    Raises:
        ArrowInvalid: a text is not a date or time.
    """
    bounds_type = _supported_types(data_type)[1]
    low, high = smallest.cast(bounds_type), largest.cast(bounds_type)
    if data_type in FLOATING:
        low, high = values_where(pc.is_finite(low), low), values_where(pc.is_finite(high), high)
    if isinstance(data_type, DecimalType):
        low, high = _without_saturated(low), _without_saturated(high)
    is_usable = pc.fill_null(pc.less_equal(low, high), True)
    if pa.types.is_date(low.type) or pa.types.is_timestamp(low.type):
        is_usable = pc.and_(is_usable, pc.and_(_is_in_calendar(low), _is_in_calendar(high)))
    low, high = values_where(is_usable, low), values_where(is_usable, high)
    if data_type in FLOATING:
        return _widen_floats(low, high, data_type)
    if isinstance(data_type, DecimalType) and may_be_rounded(data_type):
        return pc.subtract(*_with_rounding(low)), pc.add(*_with_rounding(high))
    if pa.types.is_timestamp(high.type):
        wide_high = pc.add(high, pa.scalar(CUT_FROM_TIMESTAMPS, pa.duration("us")))
        is_usable = _is_in_calendar(wide_high)
        return values_where(is_usable, low), values_where(is_usable, wide_high)
    return low, high


def _is_in_calendar(moments: pa.Array) -> pa.BooleanArray:
    """Return whether each date or time is in the range of Python's dates; True for null."""
    are_days = pa.types.is_date(moments.type)
    numbers = moments.cast(pa.int32() if are_days else pa.int64())
    first, last = _CALENDAR_DAYS if are_days else _CALENDAR_MICROS
    return pc.fill_null(pc.and_(pc.greater_equal(numbers, first), pc.less_equal(numbers, last)), True)


def _widen_floats(low: pa.DoubleArray, high: pa.DoubleArray, data_type: DataType) -> tuple[pa.Array, pa.Array]:
    """Widen floating point bounds; see `file_facts.nearest_single`."""
    singles = [pc.cast(bounds, pa.float32(), safe=False).cast(pa.float64()) for bounds in (low, high)]
    low_single, high_single = (
        pc.if_else(pc.is_finite(single), single, bounds) for single, bounds in zip(singles, (low, high), strict=True)
    )
    if data_type == _FLOAT:
        return low_single, high_single
    return pc.min_element_wise(low, low_single), pc.max_element_wise(high, high_single)


def _without_saturated(bounds: pa.Decimal256Array) -> pa.Decimal256Array:
    """Return the bounds, with null for a bound that a writer saturated to 64 bits."""
    saturated_values = pa.array(sorted(SATURATED), bounds.type)
    return values_where(pc.invert(pc.is_in(bounds, value_set=saturated_values)), bounds)


def _with_rounding(bounds: pa.Decimal256Array) -> tuple[pa.Decimal256Array, pa.Decimal256Array]:
    """Return the bounds and their maximum rounding.

    Both have a type with one digit less, so that their sum and difference have the type of the bounds.
    """
    term_type = pa.decimal256(_MAX_DIGITS - 1, bounds.type.scale)
    factor_type = pa.decimal256(_MAX_DIGITS // 2, bounds.type.scale - _DIGITS_OF_ROUNDING)
    rounding = pa.scalar(ROUNDING_OF_DOUBLE, pa.decimal256(_DIGITS_OF_ROUNDING + 1, _DIGITS_OF_ROUNDING))
    return bounds.cast(term_type), pc.multiply(pc.abs(bounds).cast(factor_type), rounding).cast(term_type)


def _known_beginnings(high: pa.StringArray) -> tuple[pa.StringArray, pa.BooleanArray]:
    """Return the certain prefix of each maximum, and whether it may be truncated; see `file_facts.known_beginning`.

    Arrow handles most maxima: ASCII texts without a question mark before the appended characters. Python handles the
    others.
    """
    beginnings = pc.ascii_rtrim(high, "\x7f")
    lengths, certain_lengths = pc.binary_length(high), pc.binary_length(beginnings)
    is_cut = pc.or_(pc.greater_equal(lengths, SHORTEST_CUT), pc.less(certain_lengths, lengths))
    may_be_cut = pc.fill_null(is_cut, False)
    is_unusual = pc.fill_null(pc.or_(pc.invert(pc.string_is_ascii(high)), pc.ends_with(beginnings, "?")), False)
    if not pc.any(is_unusual).as_py():
        return beginnings, may_be_cut
    by_python = [known_beginning(text) for text in high.filter(is_unusual).to_pylist()]
    return (
        pc.replace_with_mask(beginnings, is_unusual, pa.array([text for text, _ in by_python], pa.string())),
        pc.replace_with_mask(may_be_cut, is_unusual, pa.array([is_cut for _, is_cut in by_python], pa.bool_())),
    )


def values_where(condition: pa.BooleanArray, values: pa.Array) -> pa.Array:
    """Return the values for which the condition is true, and null for all other values."""
    return pc.if_else(condition, values, pa.scalar(None, values.type))
