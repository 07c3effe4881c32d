"""Random files, statistics and predicates, and an evaluator of predicates that sees rows only.

A column is a kind: its type, values that are often equal, and the spelling of these values in partition values and
statistics, for each writer. Kinds named `a <- b` are columns that were widened from b to a, in files that are older
than the widening.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st

from deltalite.columnar.predicates.predicate import (
    And,
    Comparison,
    Constant,
    In,
    IsNotNull,
    IsNull,
    Not,
    Operator,
    Or,
    Path,
    Predicate,
    StartsWith,
    Unknown,
)
from deltalite.protocol.schema import ArrayType, DataType, DecimalType, MapType, PrimitiveType

DELTA, OLD_DELTA, DELTA_RS, CUTTER = WRITERS = ("delta", "old delta", "delta-rs", "a writer that only cuts")


class Raw(str):
    """A number that `to_json` writes with all its digits."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Kind:
    """A column's type and values, and the spelling of a bound (value, writer, whether it is upper) and a partition."""

    type: DataType
    values: st.SearchStrategy
    literals: st.SearchStrategy
    bound: Callable[[Any, str, bool], Any]
    texts: Callable[[Any], list[str]] | None = None
    compares: bool = True


# The spelling of bounds by each writer; None means that the writer stores no bound.


def plain(value, _writer, _upper):
    return value


def no_bound(_value, _writer, _upper):
    return None


def of_boolean(value, writer, _upper):
    return value if writer == DELTA_RS else None


def of_floating(value, writer, _upper):
    if math.isfinite(value):
        return value
    return str(value).replace("inf", "Infinity").replace("nan", "NaN") if writer == DELTA else None


def of_float(value, writer, upper):
    return Raw(np.float32(value)) if math.isfinite(value) else of_floating(value, writer, upper)


def of_decimal(value, writer, _upper):
    if writer != DELTA_RS:
        return Raw(format(value, "f"))
    if value == int(value):
        return max(min(int(value), 2**63 - 1), -(2**63))
    return float(value)


def of_date(value, _writer, _upper):
    return value.isoformat()


def of_moment(zone):
    def spelled(value, writer, _upper):
        return (
            value.replace(tzinfo=None).isoformat(timespec="microseconds" if writer == DELTA_RS else "milliseconds")
            + zone
        )

    return spelled


def of_day(value, _writer, _upper):
    return value.date().isoformat()


def of_string(value, writer, upper):
    match writer:
        case "delta":
            return delta_cut(value, upper)
        case "old delta":
            prefix = in_java(value, 32)
            return prefix + "\ufffd" if upper and prefix != value else prefix
        case "delta-rs":
            return value if len(value) <= 64 else incremented(value[:64]) if upper else value[:64]
        case _:
            return in_java(value, 32)


def incremented(text):
    """The least text, of at most as many characters, above all texts that begin with `text`; None if none exists."""
    prefix = text.rstrip("\U0010ffff")
    return prefix[:-1] + chr({0xD7FF: 0xE000}.get(ord(prefix[-1]), ord(prefix[-1]) + 1)) if prefix else None


def in_java(text, units):
    """The first `units` UTF-16 units of a text; Java writes half a character as a question mark."""
    encoded = text.encode("utf-16-le")[: 2 * units]
    return encoded.decode("utf-16-le", "replace").replace("\ufffd", "?") if len(encoded) == 2 * units else text


def delta_cut(text, upper):
    """Delta's rule: cut after 32 UTF-16 units, complete a split character, and append a tie-breaker to a maximum."""
    end = next((n for n in range(len(text) + 1) if len(text[:n].encode("utf-16-le")) >= 64), len(text))
    if end == len(text) or not upper:
        return text[:end]
    while end < len(text) and text[end] == "\U0010ffff":
        end += 1
    return text if end == len(text) else text[:end] + ("\x7f" if text[end] < "\x7f" else "\U0010ffff")


# Values: few distinct ones, so that bounds and literals are often equal, and the limits of each type.

# These moments have no time zone on purpose.
WIDE = Context(prec=60)
EPOCH, FIRST, LAST = datetime(1970, 1, 1), datetime.min, datetime.max  # noqa: DTZ001, DTZ901
small = st.integers(-3, 3)
moments = st.one_of(
    st.integers(-2_500, 2_500).map(lambda micros: EPOCH + timedelta(microseconds=micros)),
    st.sampled_from([FIRST, LAST, LAST.replace(microsecond=999_000)]),
)
dates = st.one_of(
    st.integers(-2, 2).map(lambda days: EPOCH.date() + timedelta(days)), st.sampled_from([date.min, date.max])
)
doubles = st.sampled_from([-math.inf, -1.5, -0.0, 0.0, 0.1, 0.7, 1.0, 3.4, 1e300, math.inf, math.nan])
singles = st.sampled_from([-math.inf, -1.5, -0.0, 0.0, 0.1, 0.7, 1.0, 3.4, 3.4028235e38, math.inf, math.nan]).map(
    lambda value: float(np.float32(value))
)
texts = st.one_of(
    st.text(alphabet="ab?\x7f\ufffd\U0001f600\U0010ffff", max_size=3),
    st.builds(
        lambda character, count, end: character * count + end,
        st.sampled_from(["x", "\U0001f600", "\U0010ffff", "é"]),
        st.sampled_from([15, 16, 31, 32, 33, 63, 64]),
        st.text(alphabet="ab?\x7f\ufffd\ud7ff\U0001f600\U0010ffff", max_size=3),
    ),
)


def integers(low, high):
    return st.one_of(small, st.sampled_from([low, low + 1, high - 1, high]))


def decimals(precision, scale):
    top = 10**precision - 1
    return st.one_of(small, st.sampled_from([-top, top - 1, top, top // 3])).map(
        lambda n: Decimal(n).scaleb(-scale, WIDE)
    )


def in_zone(moment):
    return moment.replace(tzinfo=UTC)


def spellings(moment):
    fraction = f".{moment.microsecond:06d}" if moment.microsecond else ""
    clock = f"{moment.year:04d}-{moment:%m-%d} {moment:%H:%M:%S}"
    short = (clock + fraction).rstrip("0") if fraction else clock
    return [clock + fraction, short, f"{clock.replace(' ', 'T')}.{moment.microsecond:06d}Z"]


def floating_text(value):
    return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(str(value), str(value))


def integer_kind(name, bits):
    values = integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    fractions = st.one_of(small, st.just(0.5), st.just(2.5)).map(Decimal)
    return Kind(
        type=PrimitiveType(name),
        values=values,
        literals=st.one_of(values, fractions),
        bound=plain,
        texts=lambda value: [str(value), f"+{value}"] if value >= 0 else [str(value)],
    )


def decimal_kind(precision, scale, values=None, bound=of_decimal):
    return Kind(
        type=DecimalType(precision, scale),
        values=decimals(precision, scale) if values is None else values,
        literals=st.one_of(decimals(precision, scale), small, decimals(38, 10)),
        bound=bound,
        texts=lambda value: [format(value, "f"), str(value)],
    )


def nested_kind(data_type, values):
    return Kind(type=data_type, values=values, literals=st.none(), bound=no_bound, compares=False)


KINDS = {
    "byte": integer_kind("byte", 8),
    "short": integer_kind("short", 16),
    "integer": integer_kind("integer", 32),
    "long": integer_kind("long", 64),
    "float": Kind(type=PrimitiveType("float"), values=singles, literals=st.one_of(singles, doubles, small),
                  bound=of_float, texts=lambda value: [floating_text(np.float32(value))]),
    "double": Kind(type=PrimitiveType("double"), values=doubles, literals=st.one_of(singles, doubles, small),
                   bound=of_floating, texts=lambda value: [floating_text(value)]),
    "decimal 5": decimal_kind(5, 2),
    "decimal 18": decimal_kind(18, 4),
    "decimal 38": decimal_kind(38, 10),
    "decimal 38.0": decimal_kind(38, 0),
    "date": Kind(type=PrimitiveType("date"), values=dates, literals=dates, bound=of_date,
                 texts=lambda v: [v.isoformat()]),
    "timestamp": Kind(type=PrimitiveType("timestamp"), values=moments.map(in_zone), literals=moments.map(in_zone),
                      bound=of_moment("Z"), texts=spellings),
    "timestamp_ntz": Kind(type=PrimitiveType("timestamp_ntz"), values=moments, literals=moments, bound=of_moment(""),
                          texts=lambda value: spellings(value)[:2]),
    "string": Kind(type=PrimitiveType("string"), values=texts, literals=texts, bound=of_string, texts=lambda v: [v]),
    "binary": Kind(type=PrimitiveType("binary"), values=texts.map(str.encode), literals=texts.map(str.encode),
                   bound=no_bound, texts=lambda value: [value.decode()]),
    "boolean": Kind(type=PrimitiveType("boolean"), values=st.booleans(), literals=st.booleans(), bound=of_boolean,
                    texts=lambda value: [str(value).lower(), str(value).upper()]),
    "array": nested_kind(ArrayType(PrimitiveType("long"), True), st.lists(st.none() | small, max_size=2)),
    "map": nested_kind(MapType(PrimitiveType("string"), PrimitiveType("long"), True),
                       st.dictionaries(st.sampled_from("kl"), st.none() | small).map(lambda entry: [*entry.items()])),
}  # fmt: skip
WIDENED = {
    "long <- byte": Kind(type=PrimitiveType("long"), values=integers(-128, 127), literals=KINDS["long"].literals,
                         bound=plain),
    "double <- integer": Kind(type=PrimitiveType("double"), values=integers(-(2**31), 2**31 - 1).map(float),
                              literals=KINDS["double"].literals, bound=lambda value, _writer, _upper: int(value)),
    "double <- float": Kind(type=PrimitiveType("double"), values=singles, literals=KINDS["double"].literals,
                            bound=of_float),
    "decimal <- long": decimal_kind(21, 2, integers(-(2**63), 2**63 - 1).map(Decimal),
                                    lambda value, _writer, _upper: int(value)),
    "decimal <- decimal": decimal_kind(38, 10, decimals(18, 4)),
    "timestamp_ntz <- date": Kind(type=PrimitiveType("timestamp_ntz"), literals=moments, bound=of_day,
                                  values=dates.map(lambda day: datetime.combine(day, time()))),
}  # fmt: skip


# The evaluator of rows. A row maps the path of each column to its value.


def rank(value):
    """A sort key with Spark's order: NaN is the greatest value, and -0.0 equals 0.0."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    return (0, value)


def compared(left, operator, right):
    if operator == "<=>":
        return (left is None) == (right is None) and (left is None or rank(left) == rank(right))
    if left is None or right is None:
        return None
    a, b = rank(left), rank(right)
    return {"=": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[operator]


def negation(truth):
    return None if truth is None else not truth


def conjunction(truths):
    return False if False in truths else None if None in truths else True


def truth(predicate: Predicate, row: dict[Path, Any], unknown: bool | None) -> bool | None:  # noqa: C901  one arm a kind
    """The truth of a predicate for a row; `unknown` is the truth of every unknown part."""
    match predicate:
        case Constant(constant):
            return constant
        case Unknown():
            return unknown
        case Not(child):
            return negation(truth(child, row, unknown))
        case And(children):
            return conjunction([truth(child, row, unknown) for child in children])
        case Or(children):
            return negation(conjunction([negation(truth(child, row, unknown)) for child in children]))
        case IsNull(column):
            return row[column] is None
        case IsNotNull(column):
            return row[column] is not None
        case In(column, values):
            return negation(conjunction([negation(compared(row[column], "=", value)) for value in values]))
        case StartsWith(column, prefix):
            return None if row[column] is None else row[column].startswith(prefix)
        case Comparison(column=column, operator=operator, literal=literal):
            return compared(row[column], operator, literal)


# Each strategy is created once: creating one costs more than drawing from it.
DIGITS = st.integers(0, 9)
OPERATORS = st.sampled_from(Operator)
LENGTHS = st.sampled_from([1, 31, 32, 33, 99])
CONSTANTS = st.sampled_from([Constant(True), Constant(False), Constant(None)])


@cache
def nullable(kind: Kind) -> st.SearchStrategy:
    """The values of a kind, and null."""
    return st.none() | kind.values


@st.composite
def leaf_predicates(draw, columns: dict[Path, Kind | None], rows: list[dict[Path, Any]]):
    """A predicate on one column. Columns without a kind are structs, which are null or not null."""
    paths = sorted(columns)
    column = paths[draw(DIGITS) % len(paths)]
    kind, form = columns[column], draw(DIGITS)
    if kind is None or not kind.compares:
        return IsNull(column) if form % 2 else IsNotNull(column)
    row_values = [row[column] for row in rows if row[column] is not None]

    def literal():
        if row_values and draw(DIGITS) < 7:
            return row_values[draw(DIGITS) % len(row_values)]
        return draw(kind.literals)

    if form == 0:
        return (IsNull(column), IsNotNull(column), Unknown(frozenset({column})))[draw(DIGITS) % 3]
    if form == 1:
        return In(column, tuple(literal() if draw(DIGITS) else None for _ in range(draw(DIGITS) // 3)))
    if form < 4 and kind.type == PrimitiveType("string"):
        return StartsWith(column, literal()[: draw(LENGTHS)])
    return Comparison(column=column, operator=draw(OPERATORS), literal=literal() if draw(DIGITS) else None)


@st.composite
def predicates(draw, columns: dict[Path, Kind | None], rows: list[dict[Path, Any]]):
    """Predicates on these columns, nested or not. Most literals are values of the rows."""
    leaves = leaf_predicates(columns, rows)
    if draw(DIGITS) < 6:
        return draw(leaves)
    return draw(
        st.recursive(
            st.one_of(leaves, leaves, leaves, CONSTANTS),
            lambda inner: st.one_of(
                inner.map(Not),
                st.lists(inner, max_size=3).map(lambda children: And(tuple(children))),
                st.lists(inner, max_size=3).map(lambda children: Or(tuple(children))),
            ),
            max_leaves=4,
        )
    )


def to_json(value: Any) -> str:
    """JSON of a value; raw numbers keep their digits."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{to_json(item)}" for key, item in value.items()) + "}"
    return str(value) if isinstance(value, Raw) else json.dumps(value)
