"""Guards: rules that every written row must satisfy, checked while the rows are written.

A guard is a condition that must be TRUE. The rows pass through a filter that raises an error for a row that breaks a
guard. So the data is read only once, and the error names the rule and shows the row. The files of a failed write are
never committed. Protocol: NOT NULL columns (Column Invariants).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.errors import ConstraintViolationError
from deltalite.protocol.schema import ArrayType, DataType, MapType, StructType
from deltalite.spark.columns.names import column_named

_TAG = "DELTALITE_GUARD"
_VIOLATION_PATTERN = re.compile(rf"{_TAG}<(\d+)>(.*?)</{_TAG}>", re.DOTALL)
_MAX_SHOWN_CHARACTERS = 500
ColumnFunction = Callable[[Column], Column]
"""A function that returns the items of a column, or a condition on its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """A condition that must be TRUE for every row, and the texts of the error for a row that breaks the rule."""

    condition: Column
    rule: str
    remedy: str


def not_null_guards(schema: StructType) -> list[Guard]:
    """Return a guard for each NOT NULL column, member of a struct, element of an array or value of a map.

    The values inside a null value are not checked.
    """
    return [
        Guard(
            condition=condition,
            rule=f"the column '{path}' is NOT NULL",
            remedy="Filter or fill the nulls.",
        )
        for path, condition in _not_null_conditions(schema)
    ]


def replaced_range_guard(predicate: str) -> Guard:
    """Return the guard that requires new rows to match `replace_where`.

    The next run of the task replaces only matching rows, so other rows would stay in the table.
    """
    return Guard(
        condition=F.expr(predicate),
        rule=f"replace_where is ({predicate}), and every written row must satisfy it",
        remedy="Filter the rows in `query`, or widen replace_where.",
    )


def with_guards(frame: DataFrame, guards: Sequence[Guard], columns: Sequence[str]) -> DataFrame:
    """Return the rows with the checks. The query fails at the first violation and shows the `columns` of the row."""
    row = F.struct(*[column_named(name) for name in columns])
    for number, guard in enumerate(guards):
        row_text = F.substring(F.to_json(row, {"ignoreNullFields": "false"}), 1, _MAX_SHOWN_CHARACTERS)
        message = F.concat(F.lit(f"{_TAG}<{number}>"), row_text, F.lit(f"</{_TAG}>"))
        frame = frame.where(F.when(guard.condition, F.lit(True)).otherwise(F.raise_error(message).cast("boolean")))
    return frame


def violation(
    error: Exception, guards: Sequence[Guard], *, effect: str = "Nothing was written", remedy: str | None = None
) -> ConstraintViolationError | None:
    """Return the typed error if a guard made the Spark job fail, else None. The remedy is the guard's by default."""
    match = _VIOLATION_PATTERN.search(str(error))
    if match is None:
        return None
    guard = guards[int(match[1])]
    return ConstraintViolationError(
        f"{effect}: {guard.rule}. A row that breaks this rule: {match[2]}.", remedy=remedy or guard.remedy
    )


def _not_null_conditions(schema: StructType) -> Iterator[tuple[str, Column]]:
    """Yield the path and the condition of each column or inner value that is NOT NULL."""
    for field in schema:
        if not field.nullable:
            yield field.name, column_named(field.name).isNotNull()
        for path, condition_on in _inner_conditions(field.type, field.name):
            yield path, condition_on(column_named(field.name))


def _inner_conditions(data_type: DataType, path: str) -> Iterator[tuple[str, ColumnFunction]]:
    """Yield the NOT NULL conditions inside a value of the type, at every depth. A null value satisfies all of them."""
    match data_type:
        case StructType(fields):
            for field in fields:
                member_path = f"{path}.{field.name}"
                if not field.nullable:
                    yield member_path, of_member(field.name, lambda member: member.isNotNull())
                for inner_path, condition_on in _inner_conditions(field.type, member_path):
                    yield inner_path, of_member(field.name, condition_on)
        case ArrayType(element, contains_null):
            yield from _item_conditions(lambda array: array, element, f"{path}.element", is_required=not contains_null)
        case MapType(key, value, value_contains_null):
            yield from _item_conditions(F.map_keys, key, f"{path}.key", is_required=False)
            yield from _item_conditions(F.map_values, value, f"{path}.value", is_required=not value_contains_null)
        case _:
            return


def _item_conditions(
    items: ColumnFunction, element: DataType, path: str, *, is_required: bool
) -> Iterator[tuple[str, ColumnFunction]]:
    """Yield the NOT NULL conditions on the items of a value. With `is_required`, an item must not be null."""
    if is_required:
        yield path, of_each(items, lambda item: item.isNotNull())
    for inner_path, condition_on in _inner_conditions(element, path):
        yield inner_path, of_each(items, condition_on)


def of_member(name: str, condition_on: ColumnFunction) -> ColumnFunction:
    """Return a condition on a struct that checks one member. A null struct satisfies it."""
    return lambda value: value.isNull() | condition_on(value.getField(name))


def of_each(items: ColumnFunction, condition_on: ColumnFunction) -> ColumnFunction:
    """Return a condition on a value that checks each of its items. A null value satisfies it."""
    return lambda value: value.isNull() | F.forall(items(value), condition_on)
