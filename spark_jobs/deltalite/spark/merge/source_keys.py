"""The values of the source's keys as a predicate on the target: a file without any of them cannot match.

For a partition column the predicate lists the values, up to a limit. For any other column it is the range from the
lowest to the highest value. If this leaves several files, numbers and times get several smaller ranges. The result does
not grow with the source. delta-spark does not prune by keys: it reads every file that the conditions of ON on the
target alone do not skip.
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

_MAX_VALUES = 1_000
_MAX_RANGES = 64
_INTEGERS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadKey:
    """A key with its lowest and highest value, encoded."""

    key: KeyPair
    low: Any
    high: Any
    has_nulls: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceKeys:
    """The size of the source, and a predicate that every matching target row satisfies.

    `spread` has the keys for which several smaller ranges may skip more files.
    """

    size: Size
    on_target: Predicate
    spread: tuple[SpreadKey, ...] = ()


def source_keys(source: DataFrame, keys: Sequence[KeyPair], partition_columns: Sequence[str]) -> SourceKeys:
    """Read the keys of the source, which should be computed: one pass, and one more for each partition column."""
    usable = [key for key in keys if _is_ordered(key.type) and _is_ordered(key.target_type)]
    aggregates: list[Column] = [F.count(F.lit(1)), F.sum(row_bytes(source.schema))]
    for key in usable:
        value = _encoded(key)
        aggregates += [F.min(value), F.max(value), F.count(value)]
    named = [column.alias(f"c{n}") for n, column in enumerate(aggregates)]
    count, size_bytes, *of_keys = source.agg(*named).collect()[0]
    size = Size(count=count, size_bytes=size_bytes or 0)
    if count == 0:
        return SourceKeys(size=size, on_target=Constant(truth=False))
    parts, spread = [], []
    for n, key in enumerate(usable):
        low, high, present = of_keys[3 * n : 3 * n + 3]
        has_nulls = present < count
        values = _listed(source, key, partition_columns)
        if values is None:
            values = Constant(truth=False) if low is None else _between(key, low, high)
            if low != high and not isinstance(low, str):
                spread.append(SpreadKey(key=key, low=low, high=high, has_nulls=has_nulls))
        parts.append(_with_nulls(key, values, has_nulls=has_nulls))
    return SourceKeys(size=size, on_target=conjunction(parts), spread=tuple(spread))


def by_ranges(source: DataFrame, keys: SourceKeys) -> Predicate:
    """Return a predicate of several ranges for each key, because values may lie far apart in a few clusters.

    It costs many comparisons for each file.
    """
    parts = []
    for spread in keys.spread:
        ranges = _ranges(source, spread.key, spread.low, spread.high)
        in_a_range = Or(tuple(_between(spread.key, low, high) for low, high in ranges))
        parts.append(_with_nulls(spread.key, in_a_range, has_nulls=spread.has_nulls))
    return conjunction(parts)


def _listed(source: DataFrame, key: KeyPair, partition_columns: Sequence[str]) -> Predicate | None:
    """Return the list of values for a partition column; None for other columns or too many values."""
    if key.is_char or key.target[0].lower() not in {name.lower() for name in partition_columns}:
        return None
    values = source.select(_encoded(key).alias("value")).where("value IS NOT NULL").distinct()
    some = [row[0] for row in values.limit(_MAX_VALUES + 1).collect()]
    literals = [_literal(value, key) for value in some]
    if len(some) > _MAX_VALUES or not all(literal_fits(value, key.target_type) for value in literals):
        return None
    return In(key.target, tuple(literals))


def _ranges(source: DataFrame, key: KeyPair, low: Any, high: Any) -> list[tuple[Any, Any]]:
    """Divide the range of the values into equal intervals, and return the value range of each one that has any."""
    value = _encoded(key)
    interval = F.floor((value.cast("double") - F.lit(float(low))) * _MAX_RANGES / (float(high) - float(low) or 1.0))
    ranges = source.groupBy(interval.alias("n")).agg(F.min(value), F.max(value)).where("n IS NOT NULL").collect()
    return sorted((row[1], row[2]) for row in ranges)


def _between(key: KeyPair, low: Any, high: Any) -> Predicate:
    """Return the predicate that the target's column lies between two encoded values, clipped to its integer type."""
    low, high = _literal(low, key), _literal(high, key)
    if key.is_char and isinstance(low, str):
        low = least_stored_text(low)
    bits = _INTEGERS.get(key.target_type.name) if isinstance(key.target_type, PrimitiveType) else None
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


def _with_nulls(key: KeyPair, values: Predicate, *, has_nulls: bool) -> Predicate:
    return Or((values, IsNull(key.target))) if key.null_safe and has_nulls else values


def _is_ordered(data_type: DataType) -> bool:
    """Whether the type has exact, ordered values in Python. Floating point is left out because of NaN."""
    if isinstance(data_type, DecimalType):
        return True
    names = ("string", "date", "timestamp", "timestamp_ntz", *_INTEGERS)
    return isinstance(data_type, PrimitiveType) and data_type.name in names


def _encoded(key: KeyPair) -> Column:
    """Return the key's value in a form that Python can hold for every year and time zone."""
    match key.type:
        case PrimitiveType("date"):
            return F.unix_date(key.source)
        case PrimitiveType("timestamp"):
            return F.unix_micros(key.source)
        case PrimitiveType("timestamp_ntz"):
            return F.timestamp_diff("MICROSECOND", F.expr("TIMESTAMP_NTZ '1970-01-01 00:00:00'"), key.source)
        case _:
            return key.source


def _literal(value: Any, key: KeyPair) -> Any:
    """Decode a value for the predicate. If Python cannot hold it, return it encoded; it then fits no column."""
    try:
        match key.type:
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
