"""Random columns, statistics and predicates, and an evaluator that computes the truth of a predicate for a row.

A kind describes a column: its type, a few values, and the forms of these values in the log. The form of a bound in
statistics depends on the writer. A kind named `a <- b` is a column of type a in a file that was written before the
column was widened from b.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from enum import StrEnum
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
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
from tests.support.raw_json import Raw


class Writer(StrEnum):
    """A writer of statistics. `TRUNCATING` does not increase a maximum that it truncates, so its bound is too small."""

    DELTA = "delta"
    OLD_DELTA = "old delta"
    DELTA_RS = "delta-rs"
    TRUNCATING = "a writer that truncates"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class ColumnKind:
    """A column's type, its values, and their forms in the log.

    - `literals`: the values with which predicates compare the column.
    - `bound(value, writer, upper)`: the JSON value that a writer stores as the column's minimum or maximum (`upper`).
    - `texts(value)`: the texts that stand for a partition value; None if the column cannot be a partition column.
    - `is_comparable`: whether predicates can compare the column with a value.
    """

    type: DataType
    values: st.SearchStrategy
    literals: st.SearchStrategy
    bound: Callable[[Any, Writer, bool], Any]
    texts: Callable[[Any], list[str]] | None = None
    is_comparable: bool = True


# Bounds in the statistics of each writer. None means that the writer stores no bound.


def unchanged_bound(value, _writer, _upper):
    return value


def no_bound(_value, _writer, _upper):
    return None


def boolean_bound(value, writer, _upper):
    return value if writer is Writer.DELTA_RS else None


def double_bound(value, writer, _upper):
    if math.isfinite(value):
        return value
    return str(value).replace("inf", "Infinity").replace("nan", "NaN") if writer is Writer.DELTA else None


def float_bound(value, writer, upper):
    return Raw(np.float32(value)) if math.isfinite(value) else double_bound(value, writer, upper)


def decimal_bound(value, writer, _upper):
    if writer is not Writer.DELTA_RS:
        return Raw(format(value, "f"))
    if value == int(value):
        return max(min(int(value), 2**63 - 1), -(2**63))
    return float(value)


def date_bound(value, _writer, _upper):
    return value.isoformat()


def timestamp_bound(zone):
    """The function `bound` of a timestamp type; `zone` is the suffix of its texts."""

    def bound(value, writer, _upper):
        precision = "microseconds" if writer is Writer.DELTA_RS else "milliseconds"
        return value.replace(tzinfo=None).isoformat(timespec=precision) + zone

    return bound


def timestamp_bound_as_date(value, _writer, _upper):
    return value.date().isoformat()


def string_bound(value, writer, upper):
    match writer:
        case Writer.DELTA:
            return delta_string_bound(value, upper)
        case Writer.OLD_DELTA:
            prefix = java_prefix(value, 32)
            return prefix + "\ufffd" if upper and prefix != value else prefix
        case Writer.DELTA_RS:
            return value if len(value) <= 64 else next_prefix(value[:64]) if upper else value[:64]
        case Writer.TRUNCATING:
            return java_prefix(value, 32)


def next_prefix(text):
    """Return a text that is greater than every text with the prefix `text`; None if no text of this length is.

    The result is the smallest such text, and has at most as many characters as `text`.
    """
    prefix = text.rstrip("\U0010ffff")
    if not prefix:
        return None
    last_code_point = ord(prefix[-1])
    # The code points between 0xD7FF and 0xE000 are surrogates.
    return prefix[:-1] + chr(0xE000 if last_code_point == 0xD7FF else last_code_point + 1)


def java_prefix(text, units):
    """The first `units` UTF-16 units of a text. Java writes half of a surrogate pair as a question mark."""
    encoded = text.encode("utf-16-le")[: 2 * units]
    return encoded.decode("utf-16-le", "replace").replace("\ufffd", "?") if len(encoded) == 2 * units else text


def delta_string_bound(text, upper):
    """A bound by Delta's rule: about 32 UTF-16 units, without half of a surrogate pair.

    A truncated maximum gets a last character that makes it greater than the text.
    """
    end = next((n for n in range(len(text) + 1) if len(text[:n].encode("utf-16-le")) >= 64), len(text))
    if end == len(text) or not upper:
        return text[:end]
    while end < len(text) and text[end] == "\U0010ffff":
        end += 1
    return text if end == len(text) else text[:end] + ("\x7f" if text[end] < "\x7f" else "\U0010ffff")


# Each strategy draws from few values, so that bounds and literals are often equal. The strategies for numbers and times
# also draw the limits of their type.

WIDE_CONTEXT = Context(prec=60)
# These times have no time zone on purpose.
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
        lambda n: Decimal(n).scaleb(-scale, WIDE_CONTEXT)
    )


def in_utc(moment):
    return moment.replace(tzinfo=UTC)


def timestamp_texts(moment):
    fraction = f".{moment.microsecond:06d}" if moment.microsecond else ""
    seconds = f"{moment.year:04d}-{moment:%m-%d} {moment:%H:%M:%S}"
    without_zeros = (seconds + fraction).rstrip("0") if fraction else seconds
    return [seconds + fraction, without_zeros, f"{seconds.replace(' ', 'T')}.{moment.microsecond:06d}Z"]


def floating_text(value):
    return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(str(value), str(value))


def integer_kind(name, bits):
    values = integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    fractions = st.one_of(small, st.just(0.5), st.just(2.5)).map(Decimal)
    return ColumnKind(
        type=PrimitiveType(name),
        values=values,
        literals=st.one_of(values, fractions),
        bound=unchanged_bound,
        texts=lambda value: [str(value), f"+{value}"] if value >= 0 else [str(value)],
    )


def decimal_kind(precision, scale, values=None, bound=decimal_bound):
    return ColumnKind(
        type=DecimalType(precision, scale),
        values=decimals(precision, scale) if values is None else values,
        literals=st.one_of(decimals(precision, scale), small, decimals(38, 10)),
        bound=bound,
        texts=lambda value: [format(value, "f"), str(value)],
    )


def nested_kind(data_type, values):
    return ColumnKind(type=data_type, values=values, literals=st.none(), bound=no_bound, is_comparable=False)


KINDS = {
    "byte": integer_kind("byte", 8),
    "short": integer_kind("short", 16),
    "integer": integer_kind("integer", 32),
    "long": integer_kind("long", 64),
    "float": ColumnKind(type=PrimitiveType("float"), values=singles, literals=st.one_of(singles, doubles, small),
                        bound=float_bound, texts=lambda value: [floating_text(np.float32(value))]),
    "double": ColumnKind(type=PrimitiveType("double"), values=doubles, literals=st.one_of(singles, doubles, small),
                         bound=double_bound, texts=lambda value: [floating_text(value)]),
    "decimal 5": decimal_kind(5, 2),
    "decimal 18": decimal_kind(18, 4),
    "decimal 38": decimal_kind(38, 10),
    "decimal 38.0": decimal_kind(38, 0),
    "date": ColumnKind(type=PrimitiveType("date"), values=dates, literals=dates, bound=date_bound,
                       texts=lambda value: [value.isoformat()]),
    "timestamp": ColumnKind(type=PrimitiveType("timestamp"), values=moments.map(in_utc), literals=moments.map(in_utc),
                            bound=timestamp_bound("Z"), texts=timestamp_texts),
    "timestamp_ntz": ColumnKind(type=PrimitiveType("timestamp_ntz"), values=moments, literals=moments,
                                bound=timestamp_bound(""), texts=lambda value: timestamp_texts(value)[:2]),
    "string": ColumnKind(type=PrimitiveType("string"), values=texts, literals=texts, bound=string_bound,
                         texts=lambda value: [value]),
    "binary": ColumnKind(type=PrimitiveType("binary"), values=texts.map(str.encode), literals=texts.map(str.encode),
                         bound=no_bound, texts=lambda value: [value.decode()]),
    "boolean": ColumnKind(type=PrimitiveType("boolean"), values=st.booleans(), literals=st.booleans(),
                          bound=boolean_bound, texts=lambda value: [str(value).lower(), str(value).upper()]),
    "array": nested_kind(ArrayType(PrimitiveType("long"), True), st.lists(st.none() | small, max_size=2)),
    "map": nested_kind(MapType(PrimitiveType("string"), PrimitiveType("long"), True),
                       st.dictionaries(st.sampled_from("kl"), st.none() | small).map(lambda value: [*value.items()])),
}  # fmt: skip
WIDENED = {
    "long <- byte": ColumnKind(type=PrimitiveType("long"), values=integers(-128, 127), literals=KINDS["long"].literals,
                               bound=unchanged_bound),
    "double <- integer": ColumnKind(type=PrimitiveType("double"), values=integers(-(2**31), 2**31 - 1).map(float),
                                    literals=KINDS["double"].literals, bound=lambda value, _writer, _upper: int(value)),
    "double <- float": ColumnKind(type=PrimitiveType("double"), values=singles, literals=KINDS["double"].literals,
                                  bound=float_bound),
    "decimal <- long": decimal_kind(21, 2, integers(-(2**63), 2**63 - 1).map(Decimal),
                                    lambda value, _writer, _upper: int(value)),
    "decimal <- decimal": decimal_kind(38, 10, decimals(18, 4)),
    "timestamp_ntz <- date": ColumnKind(type=PrimitiveType("timestamp_ntz"), literals=moments,
                                        bound=timestamp_bound_as_date,
                                        values=dates.map(lambda day: datetime.combine(day, time()))),
}  # fmt: skip


# The evaluator of predicates. A row maps the path of each column to its value.


def sort_key(value):
    """A sort key for Spark's order: NaN is the greatest value, and -0.0 equals 0.0."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    return (0, value)


def comparison(left, operator, right):
    if operator == "<=>":
        return (left is None) == (right is None) and (left is None or sort_key(left) == sort_key(right))
    if left is None or right is None:
        return None
    a, b = sort_key(left), sort_key(right)
    return {"=": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[operator]


def negation(truth):
    return None if truth is None else not truth


def conjunction(truths):
    return False if False in truths else None if None in truths else True


def truth(predicate: Predicate, row: dict[Path, Any], unknown: bool | None) -> bool | None:  # noqa: C901  a case for each kind
    """The truth of a predicate for a row; None is null. `unknown` is the truth of each unknown part."""
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
            return negation(conjunction([negation(comparison(row[column], "=", value)) for value in values]))
        case StartsWith(column, prefix):
            return None if row[column] is None else row[column].startswith(prefix)
        case Comparison(column=column, operator=operator, literal=literal):
            return comparison(row[column], operator, literal)


# Each strategy is created once: creating one costs more than drawing from it.
DIGITS = st.integers(0, 9)
OPERATORS = st.sampled_from(Operator)
LENGTHS = st.sampled_from([1, 31, 32, 33, 99])
CONSTANTS = st.sampled_from([Constant(True), Constant(False), Constant(None)])


@cache
def nullable(kind: ColumnKind) -> st.SearchStrategy:
    """The values of a kind, and null."""
    return st.none() | kind.values


@st.composite
def leaf_predicates(draw, columns: dict[Path, ColumnKind | None], rows: list[dict[Path, Any]]):
    """A predicate on one column. A column without a kind is a struct: its predicates only test for null."""
    paths = sorted(columns)
    column = paths[draw(DIGITS) % len(paths)]
    kind, form = columns[column], draw(DIGITS)
    if kind is None or not kind.is_comparable:
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
def predicates(draw, columns: dict[Path, ColumnKind | None], rows: list[dict[Path, Any]]):
    """A leaf predicate, or a tree of NOT, AND and OR. Most literals are values of the rows."""
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


def files_table(*files: tuple[dict[str, str | None], str | None]) -> pa.Table:
    """A snapshot's table of files, with the paths `f0`, `f1` and so on. A file is its partition values and `stats`."""
    return pa.table(
        {
            "path": [f"f{number}" for number in range(len(files))],
            "partitionValues": pa.array(
                [list(values.items()) for values, _ in files], pa.map_(pa.string(), pa.string())
            ),
            "stats": pa.array([stats for _, stats in files], pa.string()),
        }
    )
