"""Random tables, sources, conditions and clauses. All are small, so rare situations occur often.

Columns take their values from short lists, so the rows of a merge often match. The values include:

- repeated keys and null keys;
- the doubles NaN, infinity and -0.0;
- texts that are empty or not ASCII;
- structs that are null or have null members.

Column names appear in upper and lower case. Half of the sources have each key only once: several source rows with one
key would make most merges ambiguous, and the library rejects an ambiguous merge.
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
QUOTED_NAME = "x.y"
"""A column name that SQL must quote."""
WIDER_STRUCT: Kind = (*STRUCT, ("c", "int"))
_SPELLED = {
    "k": ("k", "K"),
    "name": ("Name", "NAME", "name"),
    QUOTED_NAME: (QUOTED_NAME, QUOTED_NAME.upper()),
    "s": ("s", "S"),
    "p": ("p", "P"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """A table's features.

    - `vectors`: new deletion vectors are enabled.
    - `feed`: the change data feed is enabled.
    - `mapped`: column mapping is enabled.
    - `soft_deleted`: files may have deletion vectors already.
    """

    vectors: bool = False
    feed: bool = False
    mapped: bool = False
    soft_deleted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """The rows of a data file, the positions of its `deleted` rows, and whether it has statistics (`stats`)."""

    rows: tuple[Row, ...]
    deleted: frozenset[int] = frozenset()
    stats: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table as a list of files.

    `spellings` has the spelling of each column name in the schema; `partition` is the name of the partition column.
    """

    columns: Mapping[str, Kind]
    spellings: Mapping[str, str]
    files: tuple[File, ...]
    partition: str | None = None
    features: Features = field(default_factory=Features)

    @property
    def relation(self) -> Relation:
        """The rows that are not deleted."""
        rows = [row for file in self.files for position, row in enumerate(file.rows) if position not in file.deleted]
        return Relation(columns=self.columns, rows=rows)


def random_value(rnd: Random, kind: Kind) -> Any:
    """A random value that is not null. The members of a struct may be null."""
    return random_row(rnd, dict(kind)) if isinstance(kind, tuple) else rnd.choice(POOLS[kind])


def random_nullable(rnd: Random, kind: Kind) -> Any:
    """A random value. One in eight is null."""
    return random_value(rnd, kind) if rnd.randrange(8) else None


def random_row(rnd: Random, columns: Mapping[str, Kind]) -> Row:
    """Random values for the columns of a row or the members of a struct."""
    return {name: random_nullable(rnd, kind) for name, kind in columns.items()}


def random_spellings(rnd: Random, columns: Mapping[str, Kind], *, lower: bool = False) -> dict[str, str]:
    """A random spelling of each column name; with `lower`, the name itself."""
    return {name: name if lower else rnd.choice(_SPELLED.get(name, (name,))) for name in columns}


def random_table(rnd: Random, features: Features | None = None, *, plain: bool = False) -> Table:
    """A table of up to three files. A `plain` table has no features, and spells names in lower case."""
    if features is None:
        features = Features()
    if not plain:
        drawn = rnd.randint(0, 7)
        features = replace(features, mapped=drawn == 0, soft_deleted=features.vectors or drawn in (0, 1, 2))
    double: dict[str, Kind] = {"x": "number"} if plain else {rnd.choice(("x", QUOTED_NAME)): "double"}
    columns: dict[str, Kind] = {"k": "long", "name": "string", **double, "s": STRUCT}
    partition = rnd.choice((None, None, "part", "long"))
    if partition is not None:
        columns["p"] = partition
    file_columns = {name: kind for name, kind in columns.items() if name != "p"}
    files = []
    for _ in range(rnd.choice((1, 2, 2, 3, 3, 0))):
        partition_value = {} if partition is None else {"p": random_nullable(rnd, partition)}
        rows = [random_row(rnd, file_columns) for _ in range(rnd.choice((2, 3, 4, 1)))]
        deleted = {rnd.randrange(len(rows)) for _ in range(rnd.randrange(3))} if features.soft_deleted else set()
        stats = rnd.randint(0, 7) > 0
        files.append(
            File(rows=tuple({**row, **partition_value} for row in rows), deleted=frozenset(deleted), stats=stats)
        )
    return Table(
        columns=columns,
        spellings=random_spellings(rnd, columns, lower=plain),
        files=tuple(files),
        partition=None if partition is None else "p",
        features=features,
    )


def random_source(rnd: Random, target: Mapping[str, Kind], *, evolve: bool = False, plain: bool = False) -> Source:
    """A random source for a merge into a table with the `target` columns.

    With `evolve`, its columns may be missing, new or wider. With `plain`, it has the columns of the table. Without
    either, it may also have a new column `extra`, or a key `k` of the type INT.
    """
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
    rows = [random_row(rnd, columns) for _ in range(rnd.randint(0, 5))]
    if rnd.choice((True, False)):
        rows = list({row["k"]: row for row in rows}.values())
    return Source(
        relation=Relation(columns=columns, rows=tuple(rows)), spellings=random_spellings(rnd, columns, lower=plain)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The columns that an expression may name. A `plain` scope avoids expressions on which engines disagree."""

    columns: tuple[Expr, ...]
    plain: bool = False

    def of(self, kind: Kind) -> list[Expr]:
        """The columns of a kind."""
        return [column for column in self.columns if column.kind == kind]


def random_scope(
    rnd: Random, views: Mapping[str, Mapping[str, Kind]], *, prefixed: bool = True, plain: bool = False
) -> Scope:
    """The columns of views and the members of their structs, with names in upper or lower case.

    With `prefixed`, the view's name precedes each of them.
    """
    expressions = []
    for view, columns in views.items():
        for name, kind in columns.items():
            paths = [((name,), kind)]
            if isinstance(kind, tuple) and not plain:
                paths += [((name, member), member_kind) for member, member_kind in kind]
            for path, path_kind in paths:
                text = _spelled_path(rnd, path, plain=plain)
                expressions.append(ex.column(view, path, path_kind, f"{view}.{text}" if prefixed else text))
    return Scope(columns=tuple(expressions), plain=plain)


def random_expression(rnd: Random, scope: Scope, kind: Kind) -> Expr:
    """A random expression of a kind, from columns of this kind and constants."""
    columns = scope.of(kind)
    constant = lambda: ex.literal(random_nullable(rnd, kind), kind)
    column_or_constant = lambda: rnd.choice(columns) if columns and rnd.choice((True, False)) else constant()
    operand = column_or_constant()
    if scope.plain and isinstance(kind, tuple):
        return columns[0] if columns else ex.literal(None, kind)
    match rnd.randint(0, 9):
        case 0:
            return ex.if_else(random_condition(rnd, scope), operand, column_or_constant())
        case 1:
            return ex.coalesce(operand, column_or_constant())
        case 2 | 3 if kind in ("long", "double", "number"):
            return ex.plus(operand, ex.literal(random_value(rnd, kind), kind))
        case 2 if kind == "string":
            return ex.concat(operand, column_or_constant())
        case 3 if kind == "string":
            return ex.upper(operand)
        case 2 | 3 if kind == STRUCT and not scope.plain:
            return ex.named_struct(**{name: random_expression(rnd, scope, member) for name, member in STRUCT})
        case _:
            return operand


def random_simple_condition(rnd: Random, scope: Scope) -> Expr:
    """A random condition on one column or on two columns of one kind."""
    candidates = [column for column in scope.columns if not scope.plain or isinstance(column.kind, str)]
    if not candidates or not rnd.randint(0, 15):
        return ex.literal(rnd.choice((True, False) if scope.plain else (True, False, None)), "flag")
    column = rnd.choice(candidates)
    constant = lambda: ex.literal(random_value(rnd, column.kind), column.kind)
    match rnd.randint(0, 7):
        case 0:
            return ex.is_null(column)
        case 1:
            return ex.is_in(column, [constant(), ex.literal(random_nullable(rnd, column.kind), column.kind)])
        case 2:
            return ex.null_safe_equality(column, random_expression(rnd, scope, column.kind))
        case 3 | 4 if columns := [c for c in scope.of(column.kind) if c.sql.lower() != column.sql.lower()]:
            second_column = rnd.choice(columns)
            return ex.comparison(column, rnd.choice(sorted(ex.COMPARISONS)), second_column)
        case _:
            return ex.comparison(column, rnd.choice(sorted(ex.COMPARISONS)), constant())


def random_condition(rnd: Random, scope: Scope) -> Expr:
    """A random condition that consists of one to three simple conditions."""
    simple_condition = random_simple_condition(rnd, scope)
    match rnd.randint(0, 7):
        case 0:
            return ex.negation(simple_condition)
        case 1 | 2:
            return ex.conjunction(simple_condition, random_simple_condition(rnd, scope))
        case 3:
            return ex.disjunction(simple_condition, random_simple_condition(rnd, scope))
        case 4:
            return ex.negation(
                ex.disjunction(
                    simple_condition,
                    ex.conjunction(random_simple_condition(rnd, scope), random_simple_condition(rnd, scope)),
                )
            )
        case _:
            return simple_condition


def random_assignments(
    rnd: Random, scope: Scope, columns: Mapping[str, Kind], *, members: bool = True, plain: bool = False
) -> tuple[Assignment, ...]:
    """Assignments of random values to some columns; with `members`, also to some members of a struct."""
    paths: list[tuple[tuple[str, ...], Kind]] = []
    for name in rnd.sample(sorted(columns), rnd.randint(1, 3)):
        kind = columns[name]
        if members and isinstance(kind, tuple) and rnd.choice((True, False)):
            assigned_members = rnd.sample(kind, rnd.randint(1, len(kind)))
            paths += [((name, member), member_kind) for member, member_kind in assigned_members]
        else:
            paths.append(((name,), kind))
    return tuple(
        Assignment(path=path, text=_spelled_path(rnd, path, plain=plain), value=random_expression(rnd, scope, kind))
        for path, kind in paths
    )


def _spelled_path(rnd: Random, path: tuple[str, ...], *, plain: bool) -> str:
    return ".".join(ex.quoted(name if plain else rnd.choice((name, name.upper()))) for name in path)


def random_clauses(
    rnd: Random,
    scope: Scope,
    columns: Mapping[str, Kind],
    actions: Sequence[str],
    *,
    star: bool = True,
    max_count: int = 2,
    plain: bool = False,
) -> tuple[Clause, ...]:
    """One to `max_count` random clauses with these actions. All but the last have a condition.

    `columns` are the columns of the table. With `star`, a clause may be `UPDATE SET *` or `INSERT *`.
    """
    clauses = []
    count = rnd.randint(1, max_count)
    for number in range(count):
        action = rnd.choice(actions)
        condition = random_condition(rnd, scope) if number < count - 1 or not rnd.randint(0, 2) else None
        values = None
        if action != "delete" and not (star and rnd.choice((True, False))):
            values = random_assignments(rnd, scope, columns, members=action == "update" and not plain, plain=plain)
        clauses.append(Clause(action=action, condition=condition, values=values))
    return tuple(clauses)


def random_merge_condition(rnd: Random, scope: Scope, source: Scope, target: Scope) -> Expr:
    """A random merge condition: in most cases an equality of keys, with or without further conditions."""
    target_key, source_key = target.columns[0], next(s for s in source.columns if s.sql.lower() == "source.k")
    drawn = rnd.randint(0, 9)
    if drawn == 0:
        return random_condition(rnd, scope)
    if drawn == 1:
        equal_keys = ex.null_safe_equality(target_key, source_key)
    else:
        equal_keys = ex.comparison(target_key, "=", source_key)
    match rnd.randint(0, 13):
        case 0 | 1:
            columns_of_one_kind = [
                (t, s) for t in target.columns for s in source.columns if t.kind == s.kind and isinstance(t.kind, str)
            ]
            target_column, source_column = rnd.choice(columns_of_one_kind)
            return ex.conjunction(equal_keys, ex.comparison(target_column, "=", source_column))
        case 2 | 3:
            return ex.conjunction(equal_keys, random_condition(rnd, target))
        case 4:
            return ex.conjunction(random_simple_condition(rnd, source), equal_keys)
        case 5:
            return ex.conjunction(equal_keys, random_condition(rnd, scope))
        case _:
            return equal_keys


def random_deletion(rnd: Random, columns: Mapping[str, Kind], *, plain: bool = False) -> Deletion:
    """A random DELETE of some rows, or of all."""
    scope = random_scope(rnd, {"target": columns}, prefixed=False, plain=plain)
    return Deletion(condition=random_condition(rnd, scope) if rnd.randint(0, 9) else None)


def random_update(rnd: Random, columns: Mapping[str, Kind], *, plain: bool = False) -> Updating:
    """A random UPDATE of some rows, or of all."""
    scope = random_scope(rnd, {"target": columns}, prefixed=False, plain=plain)
    condition = random_condition(rnd, scope) if rnd.randint(0, 9) else None
    return Updating(condition=condition, values=random_assignments(rnd, scope, columns, members=not plain, plain=plain))


def random_merge_case(
    rnd: Random, columns: Mapping[str, Kind], *, evolving: bool = True, plain: bool = False
) -> Merging:
    """A random source and a random MERGE of it. With `evolving`, some of these merges evolve the schema."""
    evolve = evolving and not plain and rnd.randint(0, 4) == 0
    source = random_source(rnd, columns, evolve=evolve, plain=plain)
    merge = random_merge(rnd, columns, source.relation.columns, evolve=evolve, plain=plain)
    return Merging(source=source, merge=merge)


def random_case(
    rnd: Random, random_operation: Any, features: Features | None = None, *, plain: bool = False
) -> tuple[Table, Case]:
    """A random table and an operation on it.

    `random_operation` is `random_deletion`, `random_update` or `random_merge_case`.
    """
    table = random_table(rnd, features, plain=plain)
    return table, random_operation(rnd, table.columns, plain=plain)


def random_history(rnd: Random, features: Features) -> tuple[Table, list[Case]]:
    """A random table and two to four operations to run on it, one after the other."""
    table = random_table(rnd, features)
    merge_without_evolution = lambda rnd, columns: random_merge_case(rnd, columns, evolving=False)
    kinds = rnd.choices((random_deletion, random_update, merge_without_evolution), k=rnd.randint(2, 4))
    return table, [random_operation(rnd, table.columns) for random_operation in kinds]


def random_merge(
    rnd: Random, target: Mapping[str, Kind], source: Mapping[str, Kind], *, evolve: bool = False, plain: bool = False
) -> Merge:
    """A random merge with at least one clause, for a table and a source with these columns."""
    in_target = random_scope(rnd, {"target": target}, plain=plain)
    in_source = random_scope(rnd, {"source": source}, plain=plain)
    in_both = Scope(columns=in_target.columns + in_source.columns, plain=plain)
    clause_kinds = rnd.randint(1, 7)  # Each bit stands for a kind of clause.
    # `*` needs every column of the table, unless the table may evolve.
    star = evolve or target.keys() <= source.keys()
    options = {"star": star, "plain": plain}
    return Merge(
        on=random_merge_condition(rnd, in_both, in_source, in_target),
        matched=(
            random_clauses(rnd, in_both, target, ("update", "update", "delete"), max_count=3, **options)
            if clause_kinds & 1
            else ()
        ),
        not_matched=random_clauses(rnd, in_source, target, ("insert",), **options) if clause_kinds & 2 else (),
        not_matched_by_source=(
            random_clauses(rnd, in_target, target, ("update", "delete"), star=False, plain=plain)
            if clause_kinds & 4
            else ()
        ),
        evolve=evolve,
    )
