"""A small language of expressions. Each expression is an SQL text and a Python function of the same meaning.

The kind of an expression is the type of its values. The function gets a row of each view, by the view's name: `target`
or `source`. The text is in Spark's dialect; `for_datafusion` translates it to DataFusion's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.row_model.values import Row, compare, equal, sql_and, sql_not, sql_or

Kind = str | tuple[tuple[str, "Kind"], ...]
"""The type of a column: its name; for a struct, the names and kinds of its members.

`part` is a string that is not empty, and `number` is a double that is finite and not -0.0.
"""
STRUCT: Kind = (("a", "int"), ("b", "string"))
SQL_TYPES = {
    "long": "BIGINT",
    "int": "INT",
    "double": "DOUBLE",
    "number": "DOUBLE",
    "string": "STRING",
    "part": "STRING",
    "flag": "BOOLEAN",
}
Rows = Mapping[str, Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expr:
    """An SQL text, and a function that computes its value from a row of each view."""

    sql: str
    kind: Kind
    value: Callable[[Rows], Any] = field(repr=False, compare=False)


COMPARISONS: Mapping[str, Callable[[int], bool]] = {
    "=": lambda order: order == 0,
    "<>": lambda order: order != 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}


def sql_type(kind: Kind) -> str:
    """The SQL type of a kind."""
    if isinstance(kind, str):
        return SQL_TYPES[kind]
    return f"STRUCT<{', '.join(f'{name}: {sql_type(member)}' for name, member in kind)}>"


def quoted(name: str) -> str:
    """A column name in SQL, quoted if necessary."""
    return name if name.isidentifier() else f"`{name}`"


def literal(value: Any, kind: Kind) -> Expr:
    """A constant as users write it: an integer has no suffix for its width."""
    return Expr(sql=_text(value, kind), kind=kind, value=lambda _rows: value)


def typed_text(value: Any, kind: Kind) -> str:
    """The SQL of a value with exactly the type of its kind, for a row of literals."""
    if isinstance(kind, tuple) and value is not None:
        members = (f"'{name}', {typed_text(value[name], member)}" for name, member in kind)
        return f"named_struct({', '.join(members)})"
    return f"{value}L" if kind == "long" and value is not None else _text(value, kind)


def _text(value: Any, kind: Kind) -> str:
    if value is None:
        return f"CAST(NULL AS {sql_type(kind)})"
    if isinstance(kind, tuple):
        members = (f"'{name}', {_text(value[name], member)}" for name, member in kind)
        return f"named_struct({', '.join(members)})"
    match kind:
        case "flag":
            return str(value).lower()
        case "double" | "number" if math.isfinite(value):
            return f"{value!r}D"
        case "double":
            return f"CAST('{_NOT_FINITE[repr(value)]}' AS DOUBLE)"
        case "string" | "part":
            return f"'{value}'"
        case _:
            return str(value)


_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def for_datafusion(sql: str) -> str:
    """The same expression for DataFusion, which has no suffix for doubles and no `<=>`."""
    return re.sub(r"(?<=\d)D\b", "", sql).replace(" <=> ", " IS NOT DISTINCT FROM ").replace("STRING", "VARCHAR")


def column(view: str, path: Sequence[str], kind: Kind, text: str) -> Expr:
    """A column of a view, or a member of a struct column; `text` is its SQL. The member of a null struct is null."""

    def value(rows: Rows) -> Any:
        row_or_member: Any = rows[view]
        for name in path:
            row_or_member = None if row_or_member is None else row_or_member[name]
        return row_or_member

    return Expr(sql=text, kind=kind, value=value)


def comparison(left_side: Expr, operator: str, right_side: Expr) -> Expr:
    """A comparison; null if one side is null."""

    def value(rows: Rows) -> bool | None:
        left, right = left_side.value(rows), right_side.value(rows)
        return None if left is None or right is None else COMPARISONS[operator](compare(left, right))

    return _flag(f"{left_side.sql} {operator} {right_side.sql}", value)


def null_safe_equality(left: Expr, right: Expr) -> Expr:
    """The null-safe equality `<=>`, which is never null."""
    return _flag(f"{left.sql} <=> {right.sql}", lambda rows: equal(left.value(rows), right.value(rows)))


def is_null(operand: Expr) -> Expr:
    return _flag(f"{operand.sql} IS NULL", lambda rows: operand.value(rows) is None)


def is_in(column: Expr, options: Sequence[Expr]) -> Expr:
    """The SQL operator IN. If no option is equal, the result is null if the column or an option is null."""

    def value(rows: Rows) -> bool | None:
        left = column.value(rows)
        truth: bool | None = False
        for option in options:
            right = option.value(rows)
            truth = sql_or(truth, None if left is None or right is None else compare(left, right) == 0)
        return truth

    return _flag(f"{column.sql} IN ({', '.join(option.sql for option in options)})", value)


def conjunction(left: Expr, right: Expr) -> Expr:
    return _flag(f"({left.sql}) AND ({right.sql})", lambda rows: sql_and(left.value(rows), right.value(rows)))


def disjunction(left: Expr, right: Expr) -> Expr:
    return _flag(f"({left.sql}) OR ({right.sql})", lambda rows: sql_or(left.value(rows), right.value(rows)))


def negation(operand: Expr) -> Expr:
    return _flag(f"NOT ({operand.sql})", lambda rows: sql_not(operand.value(rows)))


def if_else(condition: Expr, first: Expr, second: Expr) -> Expr:
    """CASE: the first value if the condition is true, and the second value if it is false or null."""
    sql = f"CASE WHEN {condition.sql} THEN {first.sql} ELSE {second.sql} END"
    value = lambda rows: first.value(rows) if condition.value(rows) is True else second.value(rows)
    return Expr(sql=sql, kind=first.kind, value=value)


def coalesce(first: Expr, second: Expr) -> Expr:
    value = lambda rows: second.value(rows) if first.value(rows) is None else first.value(rows)
    return Expr(sql=f"coalesce({first.sql}, {second.sql})", kind=first.kind, value=value)


def plus(left: Expr, right: Expr) -> Expr:
    """The sum of two numbers of one kind; null if one of them is null."""
    return Expr(
        sql=f"({left.sql} + {right.sql})", kind=left.kind, value=_null_propagating(lambda a, b: a + b, left, right)
    )


def concat(left: Expr, right: Expr) -> Expr:
    return Expr(
        sql=f"({left.sql} || {right.sql})", kind=left.kind, value=_null_propagating(lambda a, b: a + b, left, right)
    )


def upper(operand: Expr) -> Expr:
    return Expr(sql=f"upper({operand.sql})", kind=operand.kind, value=_null_propagating(lambda a: a.upper(), operand))


def named_struct(**members: Expr) -> Expr:
    sql = ", ".join(f"'{name}', {member.sql}" for name, member in members.items())
    value = lambda rows: {name: member.value(rows) for name, member in members.items()}
    kind = tuple((name, member.kind) for name, member in members.items())
    return Expr(sql=f"named_struct({sql})", kind=kind, value=value)


def _flag(sql: str, value: Callable[[Rows], bool | None]) -> Expr:
    return Expr(sql=sql, kind="flag", value=value)


def _null_propagating(function: Callable[..., Any], *arguments: Expr) -> Callable[[Rows], Any]:
    """A function that is null if one of the arguments is null."""

    def value(rows: Rows) -> Any:
        values = [argument.value(rows) for argument in arguments]
        return None if None in values else function(*values)

    return value
