"""Random conditions and values in SQL. They mean the same in both engines, and most of them match some rows."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tests.support.differential.kinds import Kind, literal, value_of
from tests.support.differential.tables import Column, quoted

_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "<=>")


def condition(rnd: Random, columns: Sequence[Column], view: str | None = None) -> str:
    """A condition of one to three parts; `view` is the prefix of the columns."""
    candidates = [c for c in columns if c.kind.ordered or c.kind.name == "struct" or c.rule != "required"]
    part = lambda: _part(rnd, rnd.choice(candidates), view)
    match rnd.randrange(8):
        case 0:
            return f"({part()} AND {part()})"
        case 1:
            return f"({part()} OR {part()})"
        case 2:
            return f"NOT ({part()})"
        case 3:
            return f"NOT ({part()} OR ({part()} AND {part()}))"
        case _:
            return part()


def value(rnd: Random, column: Column, columns: Sequence[Column], view: str | None = None) -> str:
    """A value for a column: a literal, or a column of the same kind."""
    candidates = [other for other in columns if other.kind == column.kind]
    if candidates and rnd.randrange(3) == 0:
        return reference(rnd.choice(candidates), view)
    if candidates and rnd.randrange(4) == 0:
        operand = reference(rnd.choice(candidates), view)
        return f"coalesce({operand}, {literal(value_of(rnd, column.kind), column.kind)})"
    return literal(value_of(rnd, column.kind), column.kind)


def reference(column: Column, view: str | None = None) -> str:
    """A column in SQL, of a view or without a prefix."""
    return quoted(column.name) if view is None else f"{view}.{quoted(column.name)}"


def _part(rnd: Random, column: Column, view: str | None) -> str:
    """A condition on one column.

    A column that is NOT NULL is not compared with NULL: Spark folds such a condition to a constant, and delta-spark
    then does not compare the new rows of a REPLACE WHERE with it (`WriteIntoDeltaLike.extractConstraints`).
    """
    name, kind = reference(column, view), column.kind
    if rnd.randrange(5) == 0 and column.rule != "required":
        return f"{name} IS {rnd.choice(('', 'NOT '))}NULL"
    if kind.name == "struct":
        return f"{name}.a {rnd.choice(_COMPARISONS)} {rnd.choice((1, 2))}"
    if not kind.ordered:
        return f"{name} IS NULL"
    if rnd.randrange(5) == 0:
        return f"{name} IN ({_present(rnd, kind)}, {literal(value_of(rnd, kind), kind)})"
    return f"{name} {rnd.choice(_COMPARISONS)} {_present(rnd, kind)}"


def _present(rnd: Random, kind: Kind) -> str:
    return literal(rnd.choice(kind.values), kind)
