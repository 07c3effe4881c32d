"""Binding of a predicate to the schema of a table.

After `bind`, each column is spelled as in the schema, and each literal fits the type of its column. Evaluators compare
columns with literals without further checks. The values of `In` are sorted, so that a binary search finds the values
within bounds. A part with an unknown column, or with a literal that does not fit, becomes `Unknown`. An `Unknown`
excludes no file, and the other parts of the predicate stay effective.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, assert_never

from deltalite.columnar.predicates.predicate import (
    And,
    Comparison,
    Constant,
    In,
    IsNotNull,
    IsNull,
    Leaf,
    Not,
    Or,
    Path,
    Predicate,
    StartsWith,
    Unknown,
    is_nan,
    literal_fits,
)
from deltalite.protocol.column_mapping import MappingMode, TableSchema
from deltalite.protocol.schema import DataType, PrimitiveType, StructType, member_at


def bind(predicate: Predicate, schema: StructType) -> Predicate:
    """Return the predicate with the schema's spelling, and `Unknown` for parts that do not fit the schema."""
    return _convert(predicate, lambda leaf: _bind_leaf(leaf, schema), lambda column: _schema_path(column, schema))


def with_physical_names(predicate: Predicate, table: TableSchema) -> Predicate:
    """Return a bound predicate with physical names, which files, partition values and statistics use."""
    if table.mode is MappingMode.NONE:
        return predicate
    physical_path = table.physical_path
    return _convert(predicate, lambda leaf: replace(leaf, column=physical_path(leaf.column)), physical_path)


def _convert(
    predicate: Predicate, convert_leaf: Callable[[Leaf], Predicate], convert_column: Callable[[Path], Path]
) -> Predicate:
    """Return the predicate with converted leaves, and with converted columns of each `Unknown`."""
    match predicate:
        case And(children):
            return And(tuple(_convert(child, convert_leaf, convert_column) for child in children))
        case Or(children):
            return Or(tuple(_convert(child, convert_leaf, convert_column) for child in children))
        case Not(child):
            return Not(_convert(child, convert_leaf, convert_column))
        case Constant():
            return predicate
        case Unknown(columns):
            return Unknown(frozenset(map(convert_column, columns)))
        case Comparison() | In() | IsNull() | IsNotNull() | StartsWith():
            return convert_leaf(predicate)
        case _:
            assert_never(predicate)


def _bind_leaf(leaf: Leaf, schema: StructType) -> Predicate:
    resolved = member_at(schema, leaf.column)
    if resolved is None:
        return Unknown(frozenset((leaf.column,)))
    column, data_type = resolved
    unknown = Unknown(frozenset((column,)))
    match leaf:
        case Comparison(operator=operator, literal=literal):
            fits = _fits(literal, data_type)
            return Comparison(column=column, operator=operator, literal=literal) if fits else unknown
        case In(values=values):
            return In(column, _sorted_values(values)) if all(_fits(value, data_type) for value in values) else unknown
        case StartsWith(prefix=prefix):
            return StartsWith(column, prefix) if data_type == PrimitiveType("string") else unknown
        case IsNull():
            return IsNull(column)
        case IsNotNull():
            return IsNotNull(column)
        case _:
            assert_never(leaf)


def _sorted_values(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the distinct values: ascending, then NaN, then None."""
    ordered_values = sorted(dict.fromkeys(value for value in values if value is not None and not is_nan(value)))
    nan = next(((value,) for value in values if is_nan(value)), ())
    return (*ordered_values, *nan, *((None,) if None in values else ()))


def _fits(literal: Any, data_type: DataType) -> bool:
    return literal is None or literal_fits(literal, data_type)


def _schema_path(column: Path, schema: StructType) -> Path:
    resolved = member_at(schema, column)
    return column if resolved is None else resolved[0]
