"""A small language of expressions, each of which is SQL text and a Python function of the same meaning.

An expression is of one kind: a type of columns. The function gets the rows by the names of their views, `target` and
`source`. The text is Spark's; `for_datafusion` spells the little that another engine has other words for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.row_model.values import Row, both, compare, either, equal, opposite

Kind = str | tuple[tuple[str, "Kind"], ...]
"""The type of a column: its name, or for a struct its members and their kinds.

`part` is a string that is not empty, and `number` a double that is finite and not -0.0.
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
    """SQL text, and what it comes to for the rows of the views."""

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
    """The type as SQL spells it."""
    if isinstance(kind, str):
        return SQL_TYPES[kind]
    return f"STRUCT<{', '.join(f'{name}: {sql_type(member)}' for name, member in kind)}>"


def quoted(name: str) -> str:
    """A name as SQL needs it."""
    return name if name.isidentifier() else f"`{name}`"


def literal(value: Any, kind: Kind) -> Expr:
    """A constant as people write it: a number is no wider than it must be."""
    return Expr(sql=_text(value, kind), kind=kind, value=lambda _rows: value)


def typed_text(value: Any, kind: Kind) -> str:
    """A value that is of exactly this type, as a row of literals needs it."""
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
    """The same text for DataFusion, which has no suffix for doubles and no `<=>`."""
    return re.sub(r"(?<=\d)D\b", "", sql).replace(" <=> ", " IS NOT DISTINCT FROM ").replace("STRING", "VARCHAR")


def column(view: str, path: Sequence[str], kind: Kind, text: str) -> Expr:
    """A column of a view, or the member of one: null where the struct is."""

    def value(rows: Rows) -> Any:
        found: Any = rows[view]
        for name in path:
            found = None if found is None else found[name]
        return found

    return Expr(sql=text, kind=kind, value=value)


def comparison(one: Expr, operator: str, other: Expr) -> Expr:
    """Null where a side is."""

    def value(rows: Rows) -> bool | None:
        left, right = one.value(rows), other.value(rows)
        return None if left is None or right is None else COMPARISONS[operator](compare(left, right))

    return _flag(f"{one.sql} {operator} {other.sql}", value)


def same(one: Expr, other: Expr) -> Expr:
    """`<=>`: never null."""
    return _flag(f"{one.sql} <=> {other.sql}", lambda rows: equal(one.value(rows), other.value(rows)))


def is_null(one: Expr) -> Expr:
    return _flag(f"{one.sql} IS NULL", lambda rows: one.value(rows) is None)


def is_in(one: Expr, others: Sequence[Expr]) -> Expr:
    """True, or null where a null might have been it."""

    def value(rows: Rows) -> bool | None:
        left = one.value(rows)
        found: bool | None = False
        for other in others:
            right = other.value(rows)
            found = either(found, None if left is None or right is None else compare(left, right) == 0)
        return found

    return _flag(f"{one.sql} IN ({', '.join(other.sql for other in others)})", value)


def conjunction(one: Expr, other: Expr) -> Expr:
    return _flag(f"({one.sql}) AND ({other.sql})", lambda rows: both(one.value(rows), other.value(rows)))


def disjunction(one: Expr, other: Expr) -> Expr:
    return _flag(f"({one.sql}) OR ({other.sql})", lambda rows: either(one.value(rows), other.value(rows)))


def negation(one: Expr) -> Expr:
    return _flag(f"NOT ({one.sql})", lambda rows: opposite(one.value(rows)))


def if_else(condition: Expr, one: Expr, other: Expr) -> Expr:
    """The second where the condition is false or null."""
    sql = f"CASE WHEN {condition.sql} THEN {one.sql} ELSE {other.sql} END"
    value = lambda rows: one.value(rows) if condition.value(rows) is True else other.value(rows)
    return Expr(sql=sql, kind=one.kind, value=value)


def coalesce(one: Expr, other: Expr) -> Expr:
    value = lambda rows: other.value(rows) if one.value(rows) is None else one.value(rows)
    return Expr(sql=f"coalesce({one.sql}, {other.sql})", kind=one.kind, value=value)


def plus(one: Expr, other: Expr) -> Expr:
    """Of numbers of one kind; null where a side is."""
    return Expr(sql=f"({one.sql} + {other.sql})", kind=one.kind, value=_strict(lambda a, b: a + b, one, other))


def concat(one: Expr, other: Expr) -> Expr:
    return Expr(sql=f"({one.sql} || {other.sql})", kind=one.kind, value=_strict(lambda a, b: a + b, one, other))


def upper(one: Expr) -> Expr:
    return Expr(sql=f"upper({one.sql})", kind=one.kind, value=_strict(lambda a: a.upper(), one))


def named_struct(**members: Expr) -> Expr:
    sql = ", ".join(f"'{name}', {member.sql}" for name, member in members.items())
    value = lambda rows: {name: member.value(rows) for name, member in members.items()}
    kind = tuple((name, member.kind) for name, member in members.items())
    return Expr(sql=f"named_struct({sql})", kind=kind, value=value)


def _flag(sql: str, value: Callable[[Rows], bool | None]) -> Expr:
    return Expr(sql=sql, kind="flag", value=value)


def _strict(function: Callable[..., Any], *arguments: Expr) -> Callable[[Rows], Any]:
    def value(rows: Rows) -> Any:
        found = [argument.value(rows) for argument in arguments]
        return None if None in found else function(*found)

    return value
