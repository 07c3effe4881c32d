"""DELETE, UPDATE and MERGE of rows, as the reference defines them, and the change feed that they must write.

The model works row by row and pair by pair, and follows the definition literally; it is slow. A result is a new list of
rows. The feed is the net effect. It has a preimage and a postimage of each row that an update clause applies to, even
if the row stays the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tests.support.row_model.expressions import Expr, Kind
from tests.support.row_model.values import Row

Action = Literal["update", "insert", "delete"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """Rows, and the kinds of their columns by lower-case name, in order."""

    columns: Mapping[str, Kind]
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A column or a member of a struct, and its new value; `text` is its spelling in the request."""

    path: tuple[str, ...]
    text: str
    value: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """The action if the condition is true. `values` None means `*`; a delete has no values."""

    action: Action
    condition: Expr | None = None
    values: tuple[Assignment, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """The clauses of a merge, by kind."""

    on: Expr
    matched: tuple[Clause, ...] = ()
    not_matched: tuple[Clause, ...] = ()
    not_matched_by_source: tuple[Clause, ...] = ()
    evolve: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The table after the operation, and `(change type, row)` for each change."""

    table: Relation
    changes: Sequence[tuple[str, Row]]

    def count(self, change_type: str) -> int:
        """The number of changes of this type."""
        return sum(kind == change_type for kind, _ in self.changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ambiguous:
    """The merge is rejected: several source rows match each of `target_rows` target rows."""

    target_rows: int


def delete(table: Relation, condition: Expr | None) -> Outcome:
    """Delete the rows for which the condition is true; rows for which it is false or null stay."""
    clause = Clause(action="delete", condition=condition)
    return _result(table.columns, [_changed(table.columns, row, {"target": row}, (clause,)) for row in table.rows])


def update(table: Relation, condition: Expr | None, values: tuple[Assignment, ...]) -> Outcome:
    """Assign the values to the rows for which the condition is true; each value is computed from the old row."""
    clause = Clause(action="update", condition=condition, values=values)
    return _result(table.columns, [_changed(table.columns, row, {"target": row}, (clause,)) for row in table.rows])


def merge(table: Relation, source: Relation, request: Merge) -> Outcome | Ambiguous:
    """Apply the first true clause of its kind to each target row, and to each source row that matches no target row."""
    columns = evolved(table.columns, source.columns) if request.evolve and _has_star(request) else table.columns
    pairs = matches(table, source, request.on)
    several = {t for t, _ in pairs if sum(t == other for other, _ in pairs) > 1}
    if several and request.matched and request.matched != (Clause(action="delete"),):
        return Ambiguous(target_rows=len(several))
    changes = []
    for t, old in enumerate(table.rows):
        matching = [source.rows[s] for other, s in pairs if other == t]
        if matching:
            rows, clauses = {"target": old, "source": matching[0]}, request.matched
        else:
            rows, clauses = {"target": old}, request.not_matched_by_source
        changes.append(_changed(columns, old, rows, clauses))
    for s, new in enumerate(source.rows):
        if s not in {other for _, other in pairs}:
            changes.append(_inserted(columns, {"source": new}, request.not_matched))
    return _result(columns, changes)


def matches(table: Relation, source: Relation, on: Expr) -> list[tuple[int, int]]:
    """The pairs of positions, in the table and in the source, for which `on` is true."""
    return [
        (t, s)
        for t, old in enumerate(table.rows)
        for s, new in enumerate(source.rows)
        if on.value({"target": old, "source": new}) is True
    ]


def matches_twice(table: Relation, source: Relation, on: Expr) -> bool:
    """Whether several source rows match a row of the table."""
    match_counts = Counter(target for target, _ in matches(table, source, on))
    return max(match_counts.values(), default=0) > 1


def evolved(columns: Mapping[str, Kind], source: Mapping[str, Kind]) -> Mapping[str, Kind]:
    """The columns of the table, followed by the columns and struct members that only the source has."""
    return dict(_unite(tuple(columns.items()), tuple(source.items())))


def shaped(row: Row, columns: Mapping[str, Kind]) -> Row:
    """A row or a struct with exactly these columns: missing columns are null, additional columns are dropped."""
    return {name: _shaped(row.get(name), kind) for name, kind in columns.items()}


def applied(changes: Sequence[tuple[str, Row]]) -> tuple[list[Row], list[Row]]:
    """The rows that a feed removes from the earlier version, and the rows that it adds."""
    removed = [row for kind, row in changes if kind in ("delete", "update_preimage")]
    added = [row for kind, row in changes if kind in ("insert", "update_postimage")]
    assert len(removed) + len(added) == len(changes)
    return removed, added


Columns = Mapping[str, Kind]
_Change = tuple[str, Row | None, Row | None]
"""A kind of change, the row before and the row after; the kind "" is no change."""


def _first(clauses: tuple[Clause, ...], rows: Mapping[str, Row]) -> Clause | None:
    return next((c for c in clauses if c.condition is None or c.condition.value(rows) is True), None)


def _changed(columns: Columns, row: Row, rows: Mapping[str, Row], clauses: tuple[Clause, ...]) -> _Change:
    """The change of a target row by the clauses, which see the old row. The new row has the `columns`."""
    clause, old = _first(clauses, rows), shaped(row, columns)
    if clause is None:
        return "", old, old
    if clause.action == "delete":
        return "delete", old, None
    new = dict(row)
    if clause.values is None:
        new |= {name: value for name, value in rows["source"].items() if name in columns}
    else:
        # All values are computed before the first assignment. Assigning a member of a null struct creates the struct.
        for path, value in [(assignment.path, assignment.value.value(rows)) for assignment in clause.values]:
            _assign(new, path, value, columns)
    return "update", old, shaped(new, columns)


def _inserted(columns: Columns, rows: Mapping[str, Row], clauses: tuple[Clause, ...]) -> _Change:
    clause = _first(clauses, rows)
    if clause is None:
        return "", None, None
    if clause.values is None:
        values = rows["source"]
    else:
        values = {assignment.path[0]: assignment.value.value(rows) for assignment in clause.values}
    return "insert", None, shaped(values, columns)


def _assign(row: Row, path: tuple[str, ...], value: Any, kinds: Columns) -> None:
    name, *rest = path
    if not rest:
        row[name] = value
        return
    members = dict(kinds[name])
    row[name] = dict.fromkeys(members) if row[name] is None else dict(row[name])
    _assign(row[name], tuple(rest), value, members)


def _shaped(value: Any, kind: Kind) -> Any:
    return value if value is None or isinstance(kind, str) else shaped(value, dict(kind))


def _unite(columns: Any, source_columns: Any) -> Any:
    if isinstance(columns, str) or isinstance(source_columns, str):
        return columns
    source_kinds = dict(source_columns)
    united = tuple((name, _unite(kind, source_kinds.get(name, kind))) for name, kind in columns)
    return united + tuple((name, kind) for name, kind in source_columns if name not in dict(columns))


def _has_star(merge: Merge) -> bool:
    return any(c.action != "delete" and c.values is None for c in (*merge.matched, *merge.not_matched))


def _result(columns: Columns, changes: Sequence[_Change]) -> Outcome:
    feed: list[tuple[str, Row]] = []
    for kind, old, new in changes:
        match kind:
            case "update":
                feed += [("update_preimage", old or {}), ("update_postimage", new or {})]
            case "delete":
                feed.append((kind, old or {}))
            case "insert":
                feed.append((kind, new or {}))
    rows = [new for _, _, new in changes if new is not None]
    return Outcome(table=Relation(columns=columns, rows=rows), changes=feed)
