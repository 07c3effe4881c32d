"""Predicates on rows, as a tree of values.

A predicate is TRUE, FALSE or NULL for a row, as in SQL: a comparison with null is NULL, and only TRUE selects a row. A
column is a path of names, so a name may contain a dot. `literal_fits` defines the Python types of literals for each
column type. Floating point orders as in Spark: NaN equals NaN and is the greatest value. An `Unknown` never excludes a
file. `outcomes.py` evaluates a predicate for whole files, `row_filter.py` for rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Any, assert_never

from deltalite.protocol.schema import ArrayType, DataType, DecimalType, MapType, PrimitiveType, StructType

if TYPE_CHECKING:
    from collections.abc import Iterable

Path = tuple[str, ...]

# A double represents every integer up to this one exactly.
_EXACT_IN_DOUBLE = 2**53


class Operator(StrEnum):
    """The operator of a comparison. All but `NULL_SAFE_EQ` give NULL if either side is null."""

    EQ = "="
    NULL_SAFE_EQ = "<=>"
    NOT_EQ = "!="
    LT = "<"
    LT_EQ = "<="
    GT = ">"
    GT_EQ = ">="


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`column operator literal`."""

    column: Path
    operator: Operator
    literal: Any


@dataclass(frozen=True, slots=True)
class In:
    """`column = v1 OR column = v2 OR ...`; FALSE without values.

    `binding.bind` sorts the values: ascending without duplicates, then NaN, then None.
    """

    column: Path
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """`column IS NULL`; never NULL."""

    column: Path


@dataclass(frozen=True, slots=True)
class IsNotNull:
    """`column IS NOT NULL`; never NULL."""

    column: Path


@dataclass(frozen=True, slots=True)
class StartsWith:
    """The string column begins with `prefix`, as `LIKE 'prefix%'` does."""

    column: Path
    prefix: str


@dataclass(frozen=True, slots=True)
class And:
    """FALSE if a child is FALSE, else NULL if a child is NULL, else TRUE (also without children)."""

    children: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """TRUE if a child is TRUE, else NULL if a child is NULL, else FALSE (also without children)."""

    children: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The negation of a predicate; NULL stays NULL."""

    child: Predicate


@dataclass(frozen=True, slots=True)
class Constant:
    """The same truth for every row; None is NULL."""

    truth: bool | None


@dataclass(frozen=True, slots=True)
class Unknown:
    """An expression that the other classes cannot express, or that does not fit the schema.

    `columns` are the columns that the expression reads.
    """

    columns: frozenset[Path]


Leaf = Comparison | In | IsNull | IsNotNull | StartsWith
"""A predicate on one column."""
Predicate = Leaf | And | Or | Not | Constant | Unknown

EVERYTHING = Constant(truth=True)


def columns_of(predicate: Predicate) -> frozenset[Path]:
    """Return the paths of all columns that the predicate reads."""
    match predicate:
        case Comparison(column=column) | In(column=column) | StartsWith(column=column):
            return frozenset((column,))
        case IsNull(column) | IsNotNull(column):
            return frozenset((column,))
        case And(children) | Or(children):
            return frozenset().union(*(columns_of(child) for child in children))
        case Not(child):
            return columns_of(child)
        case Constant():
            return frozenset()
        case Unknown(columns):
            return columns
        case _:
            assert_never(predicate)


def leaves_of(predicate: Predicate) -> tuple[Leaf, ...]:
    """Return the parts that each read one column, without constants and unknown parts."""
    match predicate:
        case And(children) | Or(children):
            return tuple(leaf for child in children for leaf in leaves_of(child))
        case Not(child):
            return leaves_of(child)
        case Constant() | Unknown():
            return ()
        case Comparison() | In() | IsNull() | IsNotNull() | StartsWith():
            return (predicate,)
        case _:
            assert_never(predicate)


def conjuncts(predicate: Predicate) -> tuple[Predicate, ...]:
    """Return the parts that must all be TRUE. Nested ANDs are flattened, and a constant TRUE has no parts."""
    match predicate:
        case And(children):
            return tuple(part for child in children for part in conjuncts(child))
        case Constant(True):
            return ()
        case _:
            return (predicate,)


def conjunction(parts: Iterable[Predicate]) -> Predicate:
    """Return the AND of all parts; the inverse of `conjuncts`."""
    children = tuple(part for predicate in parts for part in conjuncts(predicate))
    match children:
        case ():
            return EVERYTHING
        case (child,):
            return child
        case _:
            return And(children)


def is_nan(value: Any) -> bool:
    """Whether a literal or a bound is the float NaN."""
    return isinstance(value, float) and math.isnan(value)


def literal_fits(value: Any, data_type: DataType) -> bool:  # noqa: C901  one branch per kind
    """Whether a Python value can be compared with a column of the type, with SQL's meaning.

    - integer and decimal columns: int, and Decimal unless infinite or NaN
    - floating point columns: float, and int up to 2**53
    - timestamp columns: an aware datetime; timestamp_ntz columns: a naive datetime
    - string, binary, boolean and date columns: str, bytes, bool and date

    A bool is not an int here, and a datetime is not a date.
    """
    match data_type:
        case PrimitiveType("byte" | "short" | "integer" | "long") | DecimalType():
            return (isinstance(value, int) and not isinstance(value, bool)) or (
                isinstance(value, Decimal) and value.is_finite()
            )
        case PrimitiveType("float" | "double"):
            if isinstance(value, int) and not isinstance(value, bool):
                return abs(value) <= _EXACT_IN_DOUBLE
            return isinstance(value, float)
        case PrimitiveType("string"):
            return isinstance(value, str)
        case PrimitiveType("binary"):
            return isinstance(value, bytes)
        case PrimitiveType("boolean"):
            return isinstance(value, bool)
        case PrimitiveType("date"):
            return isinstance(value, date) and not isinstance(value, datetime)
        case PrimitiveType("timestamp"):
            return isinstance(value, datetime) and value.utcoffset() is not None
        case PrimitiveType("timestamp_ntz"):
            return isinstance(value, datetime) and value.utcoffset() is None
        case PrimitiveType() | ArrayType() | MapType() | StructType():
            return False
        case _:
            assert_never(data_type)
