"""Random conditions and values in SQL. Both engines give them the same meaning. Most conditions match some rows.

A `view` is `target` or `source` in a merge: the prefix of the column names. Other statements have no prefix (None).
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tests.support.differential.kinds import Kind, literal, random_value_of
from tests.support.differential.tables import Column, quoted

_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "<=>")


def condition(rnd: Random, columns: Sequence[Column], view: str | None = None) -> str:
    """A random condition with one to three predicates on the columns."""
    candidates = [c for c in columns if c.kind.ordered or c.kind.name == "struct" or c.rule != "required"]
    predicate = lambda: _predicate(rnd, rnd.choice(candidates), view)
    match rnd.randrange(8):
        case 0:
            return f"({predicate()} AND {predicate()})"
        case 1:
            return f"({predicate()} OR {predicate()})"
        case 2:
            return f"NOT ({predicate()})"
        case 3:
            return f"NOT ({predicate()} OR ({predicate()} AND {predicate()}))"
        case _:
            return predicate()


def value(rnd: Random, column: Column, columns: Sequence[Column], view: str | None = None) -> str:
    """A random value for a column, in SQL: a literal, one of the `columns` of the same kind, or a coalesce of both."""
    candidates = [candidate for candidate in columns if candidate.kind == column.kind]
    if candidates and rnd.randrange(3) == 0:
        return reference(rnd.choice(candidates), view)
    if candidates and rnd.randrange(4) == 0:
        operand = reference(rnd.choice(candidates), view)
        return f"coalesce({operand}, {literal(random_value_of(rnd, column.kind), column.kind)})"
    return literal(random_value_of(rnd, column.kind), column.kind)


def reference(column: Column, view: str | None = None) -> str:
    """The SQL that names a column, with the view as its prefix or without a prefix."""
    return quoted(column.name) if view is None else f"{view}.{quoted(column.name)}"


def _predicate(rnd: Random, column: Column, view: str | None) -> str:
    """A random predicate on one column.

    The predicate does not compare a NOT NULL column with NULL, because Spark folds such a predicate to a constant.
    delta-spark then does not check the new rows of a REPLACE WHERE (`WriteIntoDeltaLike.extractConstraints`).
    """
    name, kind = reference(column, view), column.kind
    if rnd.randrange(5) == 0 and column.rule != "required":
        return f"{name} IS {rnd.choice(('', 'NOT '))}NULL"
    if kind.name == "struct":
        return f"{name}.a {rnd.choice(_COMPARISONS)} {rnd.choice((1, 2))}"
    if not kind.ordered:
        return f"{name} IS NULL"
    if rnd.randrange(5) == 0:
        return f"{name} IN ({_literal_not_null(rnd, kind)}, {literal(random_value_of(rnd, kind), kind)})"
    return f"{name} {rnd.choice(_COMPARISONS)} {_literal_not_null(rnd, kind)}"


def _literal_not_null(rnd: Random, kind: Kind) -> str:
    return literal(rnd.choice(kind.values), kind)
