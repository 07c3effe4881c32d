"""Random tables, sources, conditions and clauses. They are small, so that rare situations occur often.

A few columns hold a few values from short lists, since a merge of rows that never match tests little:

- keys repeat and are null;
- doubles are NaN, infinite and -0.0;
- text is empty or not ASCII;
- structs are null or have null members.

Names appear in any case. Half of the sources have each key once, because too many merges would be rejected otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from tests.support.row_model import expressions as ex
from tests.support.row_model.cases import Case, Deletion, Merging, Source, Updating
from tests.support.row_model.expressions import STRUCT, Expr, Kind
from tests.support.row_model.operations import Assignment, Clause, Merge, Relation
from tests.support.row_model.values import Row

POOLS: Mapping[str, Sequence[Any]] = {
    "long": (1, 2, 3, 0, -1),
    "int": (0, 1, 2),
    "double": (0.0, -0.0, 1.5, math.nan, 2.0, math.inf, -math.inf),
    "number": (0.0, 1.5, 2.0),
    "string": ("", "a", "A", "ab", "b", "ż%_"),
    "part": ("u", "U v", "50%/=k"),
    "flag": (True, False),
}
ODD = "x.y"
"""A name that must be quoted."""
WIDER_STRUCT: Kind = (*STRUCT, ("c", "int"))
_SPELLED = {
    "k": ("k", "K"),
    "name": ("Name", "NAME", "name"),
    ODD: (ODD, ODD.upper()),
    "s": ("s", "S"),
    "p": ("p", "P"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """A table's features.

    `vectors` enables new deletion vectors. With `soft_deleted`, files may already have deletion vectors.
    """

    vectors: bool = False
    feed: bool = False
    mapped: bool = False
    soft_deleted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """The rows of a file, and the positions of its deleted rows."""

    rows: tuple[Row, ...]
    deleted: frozenset[int] = frozenset()
    stats: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table as a list of files; `partition` is one of its columns."""

    columns: Mapping[str, Kind]
    spelled: Mapping[str, str]
    files: tuple[File, ...]
    partition: str | None = None
    features: Features = field(default_factory=Features)

    @property
    def relation(self) -> Relation:
        """The rows that are not deleted."""
        rows = [row for file in self.files for at, row in enumerate(file.rows) if at not in file.deleted]
        return Relation(columns=self.columns, rows=rows)


def values(rnd: Random, kind: Kind) -> Any:
    """A random value that is not null."""
    return rows_of(rnd, dict(kind)) if isinstance(kind, tuple) else rnd.choice(POOLS[kind])


def nullable(rnd: Random, kind: Kind) -> Any:
    """A random value, or null in one of eight cases."""
    return values(rnd, kind) if rnd.randrange(8) else None


def rows_of(rnd: Random, columns: Mapping[str, Kind]) -> Row:
    """Random values for the columns of a row or the members of a struct."""
    return {name: nullable(rnd, kind) for name, kind in columns.items()}


def spellings(rnd: Random, columns: Mapping[str, Kind], *, lower: bool = False) -> dict[str, str]:
    return {name: name if lower else rnd.choice(_SPELLED.get(name, (name,))) for name in columns}


def tables(rnd: Random, features: Features | None = None, *, plain: bool = False) -> Table:
    """A table of up to three files. A `plain` table has no features, and spells names in lower case."""
    if features is None:
        features = Features()
    if not plain:
        drawn = rnd.randint(0, 7)
        features = replace(features, mapped=drawn == 0, soft_deleted=features.vectors or drawn in (0, 1, 2))
    double: dict[str, Kind] = {"x": "number"} if plain else {rnd.choice(("x", ODD)): "double"}
    columns: dict[str, Kind] = {"k": "long", "name": "string", **double, "s": STRUCT}
    partition = rnd.choice((None, None, "part", "long"))
    if partition is not None:
        columns["p"] = partition
    data = {name: kind for name, kind in columns.items() if name != "p"}
    files = []
    for _ in range(rnd.choice((1, 2, 2, 3, 3, 0))):
        constant = {} if partition is None else {"p": nullable(rnd, partition)}
        rows = [rows_of(rnd, data) for _ in range(rnd.choice((2, 3, 4, 1)))]
        deleted = {rnd.randrange(len(rows)) for _ in range(rnd.randrange(3))} if features.soft_deleted else set()
        stats = rnd.randint(0, 7) > 0
        files.append(File(rows=tuple({**row, **constant} for row in rows), deleted=frozenset(deleted), stats=stats))
    return Table(
        columns=columns,
        spelled=spellings(rnd, columns, lower=plain),
        files=tuple(files),
        partition=None if partition is None else "p",
        features=features,
    )


def sources(rnd: Random, target: Mapping[str, Kind], *, evolve: bool = False, plain: bool = False) -> Source:
    """A source whose rows may match those of a table. With `evolve`, columns are missing, new, or wider."""
    columns = {name: target[name] for name in rnd.sample(list(target), len(target))}
    if evolve:
        if rnd.choice((True, False)):
            columns["extra"] = rnd.choice(("long", "string"))
        if rnd.choice((True, False)):
            columns["s"] = WIDER_STRUCT
        if rnd.randint(0, 2) == 0:
            del columns[next(name for name, kind in columns.items() if kind == "double")]
    elif not plain:
        drawn = rnd.randint(0, 9)
        if drawn in (0, 1):
            columns["extra"] = "string"
        elif drawn == 2:
            columns["k"] = "int"
    rows = [rows_of(rnd, columns) for _ in range(rnd.randint(0, 5))]
    if rnd.choice((True, False)):
        rows = list({row["k"]: row for row in rows}.values())
    return Source(relation=Relation(columns=columns, rows=tuple(rows)), spelled=spellings(rnd, columns, lower=plain))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The columns that an expression may name. A `plain` scope avoids expressions on which engines disagree."""

    columns: tuple[Expr, ...]
    plain: bool = False

    def of(self, kind: Kind) -> list[Expr]:
        return [column for column in self.columns if column.kind == kind]


def scopes(
    rnd: Random, views: Mapping[str, Mapping[str, Kind]], *, prefixed: bool = True, plain: bool = False
) -> Scope:
    """The columns of views and the members of their structs, each in a random case."""
    references = []
    for view, columns in views.items():
        for name, kind in columns.items():
            paths = [((name,), kind)]
            if isinstance(kind, tuple) and not plain:
                paths += [((name, member), member_kind) for member, member_kind in kind]
            for path, member_kind in paths:
                text = _spelled_path(rnd, path, plain=plain)
                references.append(ex.column(view, path, member_kind, f"{view}.{text}" if prefixed else text))
    return Scope(columns=tuple(references), plain=plain)


def expressions(rnd: Random, scope: Scope, kind: Kind) -> Expr:
    """An expression of a kind, from columns of this kind and constants."""
    columns = scope.of(kind)
    constant = lambda: ex.literal(nullable(rnd, kind), kind)
    simple = lambda: rnd.choice(columns) if columns and rnd.choice((True, False)) else constant()
    operand = simple()
    if scope.plain and isinstance(kind, tuple):
        return columns[0] if columns else ex.literal(None, kind)
    match rnd.randint(0, 9):
        case 0:
            return ex.if_else(conditions(rnd, scope), operand, simple())
        case 1:
            return ex.coalesce(operand, simple())
        case 2 | 3 if kind in ("long", "double", "number"):
            return ex.plus(operand, ex.literal(values(rnd, kind), kind))
        case 2 if kind == "string":
            return ex.concat(operand, simple())
        case 3 if kind == "string":
            return ex.upper(operand)
        case 2 | 3 if kind == STRUCT and not scope.plain:
            return ex.named_struct(**{name: expressions(rnd, scope, member) for name, member in STRUCT})
        case _:
            return operand


def atoms(rnd: Random, scope: Scope) -> Expr:
    """A condition on one column."""
    candidates = [column for column in scope.columns if not scope.plain or isinstance(column.kind, str)]
    if not candidates or not rnd.randint(0, 15):
        return ex.literal(rnd.choice((True, False) if scope.plain else (True, False, None)), "flag")
    column = rnd.choice(candidates)
    constant = lambda: ex.literal(values(rnd, column.kind), column.kind)
    match rnd.randint(0, 7):
        case 0:
            return ex.is_null(column)
        case 1:
            return ex.is_in(column, [constant(), ex.literal(nullable(rnd, column.kind), column.kind)])
        case 2:
            return ex.same(column, expressions(rnd, scope, column.kind))
        case 3 | 4 if columns := [c for c in scope.of(column.kind) if c.sql.lower() != column.sql.lower()]:
            second_column = rnd.choice(columns)
            return ex.comparison(column, rnd.choice(sorted(ex.COMPARISONS)), second_column)
        case _:
            return ex.comparison(column, rnd.choice(sorted(ex.COMPARISONS)), constant())


def conditions(rnd: Random, scope: Scope) -> Expr:
    """A condition of one to three parts."""
    first = atoms(rnd, scope)
    match rnd.randint(0, 7):
        case 0:
            return ex.negation(first)
        case 1 | 2:
            return ex.conjunction(first, atoms(rnd, scope))
        case 3:
            return ex.disjunction(first, atoms(rnd, scope))
        case 4:
            return ex.negation(ex.disjunction(first, ex.conjunction(atoms(rnd, scope), atoms(rnd, scope))))
        case _:
            return first


def assignments(
    rnd: Random, scope: Scope, columns: Mapping[str, Kind], *, members: bool = True, plain: bool = False
) -> tuple[Assignment, ...]:
    """Values for some columns, or for some members of a struct."""
    paths: list[tuple[tuple[str, ...], Kind]] = []
    for name in rnd.sample(sorted(columns), rnd.randint(1, 3)):
        kind = columns[name]
        if members and isinstance(kind, tuple) and rnd.choice((True, False)):
            chosen = rnd.sample(kind, rnd.randint(1, len(kind)))
            paths += [((name, member), member_kind) for member, member_kind in chosen]
        else:
            paths.append(((name,), kind))
    return tuple(
        Assignment(path=path, text=_spelled_path(rnd, path, plain=plain), value=expressions(rnd, scope, kind))
        for path, kind in paths
    )


def _spelled_path(rnd: Random, path: tuple[str, ...], *, plain: bool) -> str:
    return ".".join(ex.quoted(name if plain else rnd.choice((name, name.upper()))) for name in path)


def clauses(
    rnd: Random,
    scope: Scope,
    columns: Mapping[str, Kind],
    actions: Sequence[str],
    *,
    star: bool = True,
    most: int = 2,
    plain: bool = False,
) -> tuple[Clause, ...]:
    """One clause or more; all but the last have a condition."""
    drawn = []
    count = rnd.randint(1, most)
    for number in range(count):
        action = rnd.choice(actions)
        condition = conditions(rnd, scope) if number < count - 1 or not rnd.randint(0, 2) else None
        values = None
        if action != "delete" and not (star and rnd.choice((True, False))):
            values = assignments(rnd, scope, columns, members=action == "update" and not plain, plain=plain)
        drawn.append(Clause(action=action, condition=condition, values=values))
    return tuple(drawn)


def ons(rnd: Random, scope: Scope, source: Scope, target: Scope) -> Expr:
    """A merge condition: mostly an equality of keys, with or without further conditions."""
    pairs = [(t, s) for t in target.columns for s in source.columns if t.kind == s.kind and isinstance(t.kind, str)]
    left, right = target.columns[0], next(s for s in source.columns if s.sql.lower() == "source.k")
    operator = rnd.randint(0, 9)
    if operator == 0:
        return conditions(rnd, scope)
    equal = ex.same(left, right) if operator == 1 else ex.comparison(left, "=", right)
    match rnd.randint(0, 13):
        case 0 | 1:
            left, right = rnd.choice(pairs)
            return ex.conjunction(equal, ex.comparison(left, "=", right))
        case 2 | 3:
            return ex.conjunction(equal, conditions(rnd, target))
        case 4:
            return ex.conjunction(atoms(rnd, source), equal)
        case 5:
            return ex.conjunction(equal, conditions(rnd, scope))
        case _:
            return equal


def deletions(rnd: Random, columns: Mapping[str, Kind], *, plain: bool = False) -> Deletion:
    """Delete some rows, or all."""
    scope = scopes(rnd, {"target": columns}, prefixed=False, plain=plain)
    return Deletion(condition=conditions(rnd, scope) if rnd.randint(0, 9) else None)


def updates(rnd: Random, columns: Mapping[str, Kind], *, plain: bool = False) -> Updating:
    """Update some rows, or all."""
    scope = scopes(rnd, {"target": columns}, prefixed=False, plain=plain)
    condition = conditions(rnd, scope) if rnd.randint(0, 9) else None
    return Updating(condition=condition, values=assignments(rnd, scope, columns, members=not plain, plain=plain))


def mergings(rnd: Random, columns: Mapping[str, Kind], *, evolving: bool = True, plain: bool = False) -> Merging:
    """Merge a source. With `evolving`, some sources evolve the table."""
    evolve = evolving and not plain and rnd.randint(0, 4) == 0
    source = sources(rnd, columns, evolve=evolve, plain=plain)
    merge = merges_of(rnd, columns, source.relation.columns, evolve=evolve, plain=plain)
    return Merging(source=source, merge=merge)


def cases(rnd: Random, operations: Any, features: Features | None = None, *, plain: bool = False) -> tuple[Table, Case]:
    """A table and an operation on it; `operations` is `deletions`, `updates` or `mergings`."""
    table = tables(rnd, features, plain=plain)
    return table, operations(rnd, table.columns, plain=plain)


def histories(rnd: Random, features: Features) -> tuple[Table, list[Case]]:
    """A table and operations on it, one after the other."""
    table = tables(rnd, features)
    steady = lambda rnd, columns: mergings(rnd, columns, evolving=False)
    kinds = rnd.choices((deletions, updates, steady), k=rnd.randint(2, 4))
    return table, [operation(rnd, table.columns) for operation in kinds]


def merges_of(
    rnd: Random, target: Mapping[str, Kind], source: Mapping[str, Kind], *, evolve: bool = False, plain: bool = False
) -> Merge:
    """A merge with at least one clause, for a table and a source with these columns."""
    in_target = scopes(rnd, {"target": target}, plain=plain)
    in_source = scopes(rnd, {"source": source}, plain=plain)
    in_both = Scope(columns=in_target.columns + in_source.columns, plain=plain)
    kinds = rnd.randint(1, 7)
    # `*` needs every column of the table, unless the table may evolve.
    star = evolve or target.keys() <= source.keys()
    options = {"star": star, "plain": plain}
    return Merge(
        on=ons(rnd, in_both, in_source, in_target),
        matched=clauses(rnd, in_both, target, ("update", "update", "delete"), most=3, **options) if kinds & 1 else (),
        not_matched=clauses(rnd, in_source, target, ("insert",), **options) if kinds & 2 else (),
        not_matched_by_source=(
            clauses(rnd, in_target, target, ("update", "delete"), star=False, plain=plain) if kinds & 4 else ()
        ),
        evolve=evolve,
    )
