"""Conversion of a user's filters to a predicate.

Filters have the form of pyarrow and delta-rs. A list of `(column, operator, value)` terms selects a row if all terms
hold. A list of such lists selects a row if at least one of the lists does. Column names are not case-sensitive. If no
column has the name `a.b`, this name means the field `b` of the struct `a`. A literal must have a Python type that fits
its column. Literals are never parsed or rounded, because a filter with a changed meaning would select the wrong rows. A
comparison with None is an error, because SQL gives NULL for every row. Use `is null` for null.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

from deltalite.columnar.predicates.predicate import (
    EVERYTHING,
    Comparison,
    In,
    IsNotNull,
    IsNull,
    Not,
    Operator,
    Or,
    Path,
    Predicate,
    conjunction,
    literal_fits,
)
from deltalite.errors import InvalidRequestError
from deltalite.protocol.schema import ArrayType, DataType, DecimalType, MapType, PrimitiveType, StructType

FilterTerm = Sequence[Any]
Filters = Sequence[FilterTerm] | Sequence[Sequence[FilterTerm]]

_SHAPE_REMEDY = (
    "Give a list of (column, operator, value) tuples that must all hold, or a list of such lists, of which at least "
    "one must hold."
)
_COMPARISONS = {
    "=": Operator.EQ,
    "==": Operator.EQ,
    "!=": Operator.NOT_EQ,
    "<>": Operator.NOT_EQ,
    "<": Operator.LT,
    "<=": Operator.LT_EQ,
    ">": Operator.GT,
    ">=": Operator.GT_EQ,
}
_OPERATORS = ("=", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "is null", "is not null")
_PYTHON_TYPES = {
    "byte": "an int",
    "short": "an int",
    "integer": "an int",
    "long": "an int",
    "float": "a float",
    "double": "a float",
    "string": "a str",
    "binary": "bytes",
    "boolean": "a bool",
    "date": "a datetime.date",
    "timestamp": "a datetime.datetime with a time zone",
    "timestamp_ntz": "a datetime.datetime without a time zone",
}


def from_filters(filters: Filters | None, schema: StructType) -> Predicate:
    """Convert a user's filters to a predicate for a table of this schema; None or an empty list selects every row.

    Raises:
        InvalidRequestError: the shape is wrong, a column or operator does not exist, or a value does not fit its
            column.
    """
    if filters is None:
        return EVERYTHING
    if not _is_list(filters):
        raise InvalidRequestError(f"The filter {filters!r:.120} is not a list.", remedy=_SHAPE_REMEDY)
    if not filters:
        return EVERYTHING
    if all(_is_list(group) and all(_is_list(term) for term in group) for group in filters):
        alternatives = [_all_of(group, schema) for group in filters]
        return alternatives[0] if len(alternatives) == 1 else Or(tuple(alternatives))
    return _all_of(filters, schema)


def resolve_column(name: str, schema: StructType) -> tuple[Path, DataType]:
    """Return the path and type of the column `name`.

    Raises:
        InvalidRequestError: the column does not exist.
    """
    resolved = _find_column(name, schema)
    if resolved is None:
        raise InvalidRequestError(
            f"There is no column '{name}' in the table.", remedy=f"Its columns are: {', '.join(schema.names)}."
        )
    return resolved


def _find_column(name: str, schema: StructType) -> tuple[Path, DataType] | None:
    field = schema.find(name)
    if field is not None:
        return (field.name,), field.type
    for index, character in enumerate(name):
        parent = schema.find(name[:index]) if character == "." else None
        if parent is not None and isinstance(parent.type, StructType):
            member = _find_column(name[index + 1 :], parent.type)
            if member is not None:
                return (parent.name, *member[0]), member[1]
    return None


def _all_of(terms: Sequence[Any], schema: StructType) -> Predicate:
    return conjunction([_term(term, schema) for term in terms])


def _term(term: Any, schema: StructType) -> Predicate:
    match term:
        case [str(name), str(operator)]:
            value = None
        case [str(name), str(operator), value]:
            pass
        case _:
            raise InvalidRequestError(f"The filter has the malformed part {term!r:.120}.", remedy=_SHAPE_REMEDY)
    path, data_type = resolve_column(name, schema)
    match " ".join(operator.lower().split()):
        case "is null":
            return IsNull(path)
        case "is not null":
            return IsNotNull(path)
        case "in":
            return In(path, _values(name, value, data_type))
        case "not in":
            return Not(In(path, _values(name, value, data_type)))
        case symbol if symbol in _COMPARISONS:
            return Comparison(column=path, operator=_COMPARISONS[symbol], literal=_literal(name, value, data_type))
        case _:
            raise InvalidRequestError(
                f"The filter on column '{name}' has the unknown operator '{operator}'.",
                remedy=f"The operators are: {', '.join(_OPERATORS)}.",
            )


def _values(name: str, values: Any, data_type: DataType) -> tuple[Any, ...]:
    if not isinstance(values, list | tuple | set | frozenset):
        raise InvalidRequestError(
            f"The filter on column '{name}' has the value {values!r:.80}, but its operator needs a list.",
            remedy="Give a list of values.",
        )
    return tuple(_literal(name, value, data_type) for value in values)


def _literal(name: str, value: Any, data_type: DataType) -> Any:
    if not isinstance(data_type, DecimalType) and not (
        isinstance(data_type, PrimitiveType) and data_type.name in _PYTHON_TYPES
    ):
        raise InvalidRequestError(
            f"Column '{name}' has the type {data_type}, which cannot be compared.",
            remedy="Use 'is null' or 'is not null', or name a field of the struct.",
        )
    if value is None:
        raise InvalidRequestError(
            f"The filter on column '{name}' compares with None, which is true for no row.",
            remedy="Use the operator 'is null' or 'is not null'.",
        )
    if not literal_fits(value, data_type):
        raise InvalidRequestError(
            f"The filter compares column '{name}' of type {data_type} with the {type(value).__name__} {value!r:.80}.",
            remedy=f"Give {_python_type(data_type)}.",
        )
    return value


def _python_type(data_type: DataType) -> str:
    match data_type:
        case PrimitiveType(name):
            return _PYTHON_TYPES[name]
        case DecimalType():
            return "a decimal.Decimal or an int"
        case ArrayType() | MapType() | StructType():
            return "nothing"
        case _:
            assert_never(data_type)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)
