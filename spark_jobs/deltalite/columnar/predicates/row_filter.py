"""Evaluation of a predicate on record batches, with SQL's three-valued logic.

Each part becomes a boolean array in which null is SQL's NULL; a filter keeps only TRUE rows. Floating point compares as
in Spark, where NaN equals NaN and is above every number. Arrow compares NaN as IEEE 754 does, so this module compares
NaN without Arrow. Integers and decimals compare exactly, with any scale of the literal. A comparison that needs more
than 76 digits is an error. Columns have the table's Arrow types.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import reduce
from typing import Any, assert_never

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

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
from deltalite.errors import InvalidRequestError

_KERNELS: dict[Operator, Callable[[pa.Array, pa.Scalar], pa.Array]] = {
    Operator.EQ: pc.equal,
    Operator.NULL_SAFE_EQ: pc.equal,
    Operator.NOT_EQ: pc.not_equal,
    Operator.LT: pc.less,
    Operator.LT_EQ: pc.less_equal,
    Operator.GT: pc.greater,
    Operator.GT_EQ: pc.greater_equal,
}
# The operators that are TRUE if a side is NaN. In each name, the left side comes first.
_TRUE_FOR_NAN_AND_NUMBER = {Operator.NOT_EQ, Operator.GT, Operator.GT_EQ}
_TRUE_FOR_NUMBER_AND_NAN = {Operator.NOT_EQ, Operator.LT, Operator.LT_EQ}
_TRUE_FOR_TWO_NANS = {Operator.EQ, Operator.NULL_SAFE_EQ, Operator.LT_EQ, Operator.GT_EQ}
_WIDEST_DECIMAL = 76


def truth_values(batch: pa.RecordBatch, predicate: Predicate) -> pa.Array:  # noqa: C901  one branch per kind
    """Return the truth value of a bound predicate for each row: a boolean array with null for NULL.

    Raises:
        InvalidRequestError: a part of the predicate is unknown, or a comparison needs too many digits.
    """
    match predicate:
        case Constant(truth):
            return _constant(truth, batch.num_rows)
        case And(children):
            return reduce(
                pc.and_kleene, (truth_values(batch, child) for child in children), _constant(True, batch.num_rows)
            )
        case Or(children):
            return reduce(
                pc.or_kleene, (truth_values(batch, child) for child in children), _constant(False, batch.num_rows)
            )
        case Not(child):
            return pc.invert(truth_values(batch, child))
        case IsNull(column):
            return pc.is_null(column_values(batch, column))
        case IsNotNull(column):
            return pc.is_valid(column_values(batch, column))
        case Comparison(column=column, operator=operator, literal=literal):
            return _compare(column_values(batch, column), operator, literal)
        case In(column, values):
            return _is_among(column_values(batch, column), values)
        case StartsWith(column, prefix):
            return pc.starts_with(column_values(batch, column), prefix)
        case Unknown(columns):
            column_names = ", ".join(sorted(".".join(path) for path in columns)) or "no column"
            raise InvalidRequestError(
                f"A part of the filter, on {column_names}, cannot be evaluated without Spark.",
                remedy="Compare each column of the table with values of its type.",
            )
        case _:
            assert_never(predicate)


def _constant(truth: bool | None, length: int) -> pa.Array:  # noqa: FBT001  a value, not an option
    return pa.repeat(pa.scalar(truth, pa.bool_()), length)


def column_values(batch: pa.RecordBatch, column: Path) -> pa.Array:
    """Return the values of a column or of a struct's field; null if the struct is null."""
    array = batch.column(batch.schema.names.index(column[0]))
    for name in column[1:]:
        array = pc.struct_field(array, [array.type.get_field_index(name)])
    return array


def _is_among(array: pa.Array, values: tuple[Any, ...]) -> pa.Array:
    """Return whether each value equals one of `values`, as `In` defines it."""
    literals = [value for value in values if value is not None]
    value_set = None if types.is_floating(array.type) else exact_values(literals, array.type)
    if value_set is None:
        equals = (_compare(array, Operator.EQ, value) for value in values)
        return reduce(pc.or_kleene, equals, _constant(False, len(array)))
    is_member = pc.is_in(array, value_set=value_set)
    # If no value is equal, a null on either side makes the answer NULL. An empty list is FALSE, also for a null.
    is_certain = len(literals) == len(values) and (pc.is_valid(array) if values else True)
    return pc.if_else(pc.or_(is_member, is_certain), is_member, pa.scalar(None, pa.bool_()))


def exact_values(literals: Sequence[Any], data_type: pa.DataType) -> pa.Array | None:
    """Return the literals in a column's type; None if one of them does not fit exactly."""
    try:
        return pa.array([_as_integer(literal, data_type) for literal in literals], data_type)
    except (OverflowError, pa.ArrowException):
        return None


def _compare(array: pa.Array, operator: Operator, literal: Any) -> pa.Array:
    if literal is None:
        return pc.is_null(array) if operator is Operator.NULL_SAFE_EQ else _constant(None, len(array))
    if types.is_floating(array.type):
        result = _compare_floats(array.cast(pa.float64()), operator, float(literal))
    else:
        result = _KERNELS[operator](*_with_common_type(array, literal))
    return pc.fill_null(result, False) if operator is Operator.NULL_SAFE_EQ else result


def _compare_floats(array: pa.Array, operator: Operator, literal: float) -> pa.Array:
    is_nan = pc.is_nan(array)
    if math.isnan(literal):
        return pc.if_else(is_nan, operator in _TRUE_FOR_TWO_NANS, operator in _TRUE_FOR_NUMBER_AND_NAN)
    return pc.if_else(is_nan, operator in _TRUE_FOR_NAN_AND_NUMBER, _KERNELS[operator](array, pa.scalar(literal)))


def _with_common_type(array: pa.Array, literal: Any) -> tuple[pa.Array, pa.Scalar]:
    """Convert both sides to a type that holds both exactly: the column's type if possible, because that is cheapest."""
    try:
        return array, pa.scalar(_as_integer(literal, array.type), array.type)
    except (OverflowError, pa.ArrowException):
        return _as_decimals(array, Decimal(literal))


def _as_integer(literal: Any, data_type: pa.DataType) -> Any:
    """Return a decimal literal for an integer column as an int, because Arrow would silently truncate its fraction.

    Any other literal is returned unchanged.

    Raises:
        OverflowError: the decimal has a fraction.
    """
    if not (types.is_integer(data_type) and isinstance(literal, Decimal)):
        return literal
    if literal != int(literal):
        raise OverflowError(literal)
    return int(literal)


def _as_decimals(array: pa.Array, literal: Decimal) -> tuple[pa.Array, pa.Scalar]:
    exponent = literal.as_tuple().exponent
    scale = max(-exponent if isinstance(exponent, int) else 0, array.type.scale if types.is_decimal(array.type) else 0)
    wide_type = pa.decimal256(_WIDEST_DECIMAL, scale)
    try:
        return array.cast(wide_type), pa.scalar(literal, wide_type)
    except pa.ArrowInvalid as error:
        raise InvalidRequestError(
            f"The filter's value {literal} has more digits than can be compared.", remedy="Round the value."
        ) from error
