"""The values of the source's keys as a predicate on the target. A file without any of these values cannot match.

For a partition column, the predicate lists the values, up to a limit. For any other column, it is the range from the
lowest to the highest value. If several files remain, keys of all types except strings get several smaller ranges. The
size of the predicate has a fixed limit, however large the source is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.columnar.predicates.char_texts import least_stored_text
from deltalite.columnar.predicates.predicate import (
    And,
    Comparison,
    Constant,
    In,
    IsNull,
    Operator,
    Or,
    Predicate,
    conjunction,
    literal_fits,
)
from deltalite.protocol.schema import DataType, DecimalType, PrimitiveType
from deltalite.spark.merge.join_condition import KeyPair
from deltalite.spark.row_changes.joining import Size, row_bytes

_MAX_LISTED_VALUES = 1_000
_MAX_RANGES = 64
_INTEGER_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """A key with its lowest and highest value in the form of `_encoded`. `has_nulls`: whether the source has a null."""

    key: KeyPair
    low: Any
    high: Any
    has_nulls: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceKeys:
    """The size of the source, and a predicate that every matching target row satisfies.

    `key_ranges` has the keys for which several smaller ranges may skip more files.
    """

    size: Size
    on_target: Predicate
    key_ranges: tuple[KeyRange, ...] = ()


def source_keys(source: DataFrame, keys: Sequence[KeyPair], partition_columns: Sequence[str]) -> SourceKeys:
    """Return the size of the source and the predicate of its keys.

    `source` should be the result of `compute_once`, because the function makes one pass over it, and one more for each
    key that is a partition column.
    """
    usable_keys = [key for key in keys if _can_have_range(key.source_type) and _can_have_range(key.target_type)]
    aggregates: list[Column] = [F.count(F.lit(1)), F.sum(row_bytes(source.schema))]
    for key in usable_keys:
        value = _encoded(key)
        aggregates += [F.min(value), F.max(value), F.count(value)]
    columns = [column.alias(f"c{n}") for n, column in enumerate(aggregates)]
    count, size_bytes, *key_aggregates = source.agg(*columns).collect()[0]
    size = Size(count=count, size_bytes=size_bytes or 0)
    if count == 0:
        return SourceKeys(size=size, on_target=Constant(truth=False))
    predicates, key_ranges = [], []
    for number, key in enumerate(usable_keys):
        low, high, value_count = key_aggregates[3 * number : 3 * number + 3]
        has_nulls = value_count < count
        predicate = _value_list(source, key, partition_columns)
        if predicate is None:
            predicate = Constant(truth=False) if low is None else _between(key, low, high)
            if low != high and not isinstance(low, str):
                key_ranges.append(KeyRange(key=key, low=low, high=high, has_nulls=has_nulls))
        predicates.append(_with_nulls(key, predicate, has_nulls=has_nulls))
    return SourceKeys(size=size, on_target=conjunction(predicates), key_ranges=tuple(key_ranges))


def ranges_predicate(source: DataFrame, keys: SourceKeys) -> Predicate:
    """Return a predicate with several ranges for each key in `key_ranges`.

    One range from the lowest to the highest value would also cover the gaps between the values. The predicate costs
    many comparisons for each file.
    """
    predicates = []
    for key_range in keys.key_ranges:
        key = key_range.key
        ranges = _ranges(source, key, key_range.low, key_range.high)
        in_a_range = Or(tuple(_between(key, low, high) for low, high in ranges))
        predicates.append(_with_nulls(key, in_a_range, has_nulls=key_range.has_nulls))
    return conjunction(predicates)


def _value_list(source: DataFrame, key: KeyPair, partition_columns: Sequence[str]) -> Predicate | None:
    """Return the predicate that lists the key's values in the source, if the key is a partition column.

    Return None for other columns, for char columns, for too many values, and if a value does not fit the type of the
    column.
    """
    if key.is_char or key.target[0].lower() not in {name.lower() for name in partition_columns}:
        return None
    distinct_values = source.select(_encoded(key).alias("value")).where("value IS NOT NULL").distinct()
    values = [row[0] for row in distinct_values.limit(_MAX_LISTED_VALUES + 1).collect()]
    literals = [_literal(value, key) for value in values]
    if len(values) > _MAX_LISTED_VALUES or not all(literal_fits(literal, key.target_type) for literal in literals):
        return None
    return In(key.target, tuple(literals))


def _ranges(source: DataFrame, key: KeyPair, low: Any, high: Any) -> list[tuple[Any, Any]]:
    """Divide the range of the values into equal intervals, and return the value range of each non-empty interval."""
    value = _encoded(key)
    position = (value.cast("double") - F.lit(float(low))) * _MAX_RANGES / (float(high) - float(low) or 1.0)
    interval = F.least(F.floor(position), F.lit(_MAX_RANGES - 1))  # the highest value belongs to the last interval
    known_keys = source.where(value.isNotNull())  # `least` ignores NULL, so a NULL would belong to the last interval
    ranges = known_keys.groupBy(interval).agg(F.min(value), F.max(value)).collect()
    return sorted((row[1], row[2]) for row in ranges)


def _between(key: KeyPair, low: Any, high: Any) -> Predicate:
    """Return the predicate that the target's column lies between two encoded values, clipped to its integer type.

    The predicate is true if a value does not fit the type of the column.
    """
    low, high = _literal(low, key), _literal(high, key)
    if key.is_char and isinstance(low, str):
        low = least_stored_text(low)
    bits = _INTEGER_BITS.get(key.target_type.name) if isinstance(key.target_type, PrimitiveType) else None
    if bits is not None:
        low, high = max(low, -(2 ** (bits - 1))), min(high, 2 ** (bits - 1) - 1)
    if not (literal_fits(low, key.target_type) and literal_fits(high, key.target_type)):
        return Constant(truth=True)
    return And(
        (
            Comparison(column=key.target, operator=Operator.GT_EQ, literal=low),
            Comparison(column=key.target, operator=Operator.LT_EQ, literal=high),
        )
    )


def _with_nulls(key: KeyPair, predicate: Predicate, *, has_nulls: bool) -> Predicate:
    """Return the predicate, which also accepts null if a null of the source matches a null of the target."""
    return Or((predicate, IsNull(key.target))) if key.null_safe and has_nulls else predicate


def _can_have_range(data_type: DataType) -> bool:
    """Whether a key of this type can have a range: strings, integers, decimals, dates and timestamps.

    Floating point is left out because of NaN.
    """
    if isinstance(data_type, DecimalType):
        return True
    names = ("string", "date", "timestamp", "timestamp_ntz", *_INTEGER_BITS)
    return isinstance(data_type, PrimitiveType) and data_type.name in names


def _encoded(key: KeyPair) -> Column:
    """Return the key's value in a form that Python can hold for every year and time zone."""
    match key.source_type:
        case PrimitiveType("date"):
            return F.unix_date(key.source)
        case PrimitiveType("timestamp"):
            return F.unix_micros(key.source)
        case PrimitiveType("timestamp_ntz"):
            return F.timestamp_diff("MICROSECOND", F.expr("TIMESTAMP_NTZ '1970-01-01 00:00:00'"), key.source)
        case _:
            return key.source


def _literal(value: Any, key: KeyPair) -> Any:
    """Decode a value for the predicate.

    If Python cannot hold a date or a time, return the encoded number. `literal_fits` rejects it for the column.
    """
    try:
        match key.source_type:
            case PrimitiveType("date"):
                return date(1970, 1, 1) + timedelta(days=value)
            case PrimitiveType("timestamp"):
                return _EPOCH + timedelta(microseconds=value)
            case PrimitiveType("timestamp_ntz"):
                return _EPOCH.replace(tzinfo=None) + timedelta(microseconds=value)
            case DecimalType():
                return Decimal(value)
            case _:
                return value
    except OverflowError:
        return value
