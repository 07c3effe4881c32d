"""Guards: rules that every written row must satisfy, checked while the rows are written.

A guard is a condition that must be TRUE. The rows pass through a filter that raises an error for the first row that
breaks a guard. This needs no second pass over the data, and the error names the rule and shows the row. The files of a
failed pass are never committed. Protocol: NOT NULL columns (Column Invariants).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.errors import ConstraintViolationError
from deltalite.protocol.schema import ArrayType, DataType, MapType, StructType
from deltalite.spark.columns.names import named

_MARK = "DELTALITE_GUARD"
_VIOLATION = re.compile(rf"{_MARK}<(\d+)>(.*?)</{_MARK}>", re.DOTALL)
_SHOWN_CHARACTERS = 500
Holds = Callable[[Column], Column]
"""A function from a column to a column, such as the condition that its value must satisfy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """A condition that must be TRUE for every row, and the texts of the error for a row that breaks it."""

    condition: Column
    rule: str
    remedy: str


def not_null_guards(schema: StructType) -> list[Guard]:
    """Return a guard for each NOT NULL column or member. A member is checked only if its struct is not null."""
    return [
        Guard(
            condition=condition,
            rule=f"the column '{path}' is NOT NULL",
            remedy="Filter or fill the nulls.",
        )
        for path, condition in _not_null(schema)
    ]


def replaced_range_guard(predicate: str) -> Guard:
    """Return the guard that new rows match `replace_where`; else the next run of the task would not replace them."""
    return Guard(
        condition=F.expr(predicate),
        rule=f"replace_where is ({predicate}), and every written row must satisfy it",
        remedy="Filter the rows in `query`, or widen replace_where.",
    )


def with_guards(frame: DataFrame, guards: Sequence[Guard], columns: Sequence[str]) -> DataFrame:
    """Return the rows with the checks. The query fails at the first violation and shows that row's `columns`."""
    row = F.struct(*[named(name) for name in columns])
    for number, guard in enumerate(guards):
        shown = F.substring(F.to_json(row, {"ignoreNullFields": "false"}), 1, _SHOWN_CHARACTERS)
        message = F.concat(F.lit(f"{_MARK}<{number}>"), shown, F.lit(f"</{_MARK}>"))
        frame = frame.where(F.when(guard.condition, F.lit(True)).otherwise(F.raise_error(message).cast("boolean")))
    return frame


def violation(
    error: Exception, guards: Sequence[Guard], *, effect: str = "Nothing was written", remedy: str | None = None
) -> ConstraintViolationError | None:
    """Return the typed error if a guard made the Spark job fail, else None; by default its remedy is the guard's."""
    match = _VIOLATION.search(str(error))
    if match is None:
        return None
    guard = guards[int(match[1])]
    return ConstraintViolationError(
        f"{effect}: {guard.rule}. A row that breaks this: {match[2]}.", remedy=remedy or guard.remedy
    )


def _not_null(schema: StructType) -> Iterator[tuple[str, Column]]:
    for field in schema:
        if not field.nullable:
            yield field.name, named(field.name).isNotNull()
        for path, holds in _inside(field.type, field.name):
            yield path, holds(named(field.name))


def _inside(data_type: DataType, path: str) -> Iterator[tuple[str, Holds]]:
    """Yield the conditions on a value of the type, at every depth. A null value satisfies all of them."""
    match data_type:
        case StructType(fields):
            for field in fields:
                where = f"{path}.{field.name}"
                if not field.nullable:
                    yield where, of_member(field.name, lambda member: member.isNotNull())
                for inner, holds in _inside(field.type, where):
                    yield inner, of_member(field.name, holds)
        case ArrayType(element, contains_null):
            yield from _of_items(lambda array: array, element, f"{path}.element", required=not contains_null)
        case MapType(key, value, value_contains_null):
            yield from _of_items(F.map_keys, key, f"{path}.key", required=False)
            yield from _of_items(F.map_values, value, f"{path}.value", required=not value_contains_null)
        case _:
            return


def _of_items(items: Holds, element: DataType, path: str, *, required: bool) -> Iterator[tuple[str, Holds]]:
    if required:
        yield path, of_each(items, lambda item: item.isNotNull())
    for inner, holds in _inside(element, path):
        yield inner, of_each(items, holds)


def of_member(name: str, holds: Holds) -> Holds:
    """Return a condition on a struct that checks one member; a null struct satisfies it."""
    return lambda value: value.isNull() | holds(value.getField(name))


def of_each(items: Holds, holds: Holds) -> Holds:
    """Return a condition on a value that checks each of its items; a null value satisfies it."""
    return lambda value: value.isNull() | F.forall(items(value), holds)
