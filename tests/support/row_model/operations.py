"""DELETE, UPDATE and MERGE of rows, as the reference defines them, and the change feed that they must leave.

Everything is done row by row and pair by pair, in the words of the definition; nothing here is fast. A result is a new
list of rows; the feed is the net effect, with a pre- and a postimage of each row that an update clause took, whether
or not it is another row then.
"""

from __future__ import annotations

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
    """A column, or the member of one, and its new value; `text` is how the request spells it."""

    path: tuple[str, ...]
    text: str
    value: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """What to do where the condition is true; `values` None is `*`, and nothing for a delete."""

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
    """The table afterwards, and `(change type, row)` for all that changed."""

    table: Relation
    changes: Sequence[tuple[str, Row]]

    def count(self, change_type: str) -> int:
        """How many rows changed so."""
        return sum(kind == change_type for kind, _ in self.changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ambiguous:
    """The merge is refused: several source rows match each of so many target rows."""

    target_rows: int


def delete(table: Relation, condition: Expr | None) -> Outcome:
    """Rows for which the condition is true go; false and null stay."""
    clause = Clause(action="delete", condition=condition)
    return _result(table.columns, [_changed(table.columns, row, {"target": row}, (clause,)) for row in table.rows])


def update(table: Relation, condition: Expr | None, values: tuple[Assignment, ...]) -> Outcome:
    """Rows for which the condition is true get the values, all of which see the row as it was."""
    clause = Clause(action="update", condition=condition, values=values)
    return _result(table.columns, [_changed(table.columns, row, {"target": row}, (clause,)) for row in table.rows])


def merge(table: Relation, source: Relation, what: Merge) -> Outcome | Ambiguous:
    """Each target row by the first clause of its kind that is true, and each source row that matches none."""
    columns = evolved(table.columns, source.columns) if what.evolve and _has_star(what) else table.columns
    pairs = matches(table, source, what.on)
    several = {t for t, _ in pairs if sum(t == other for other, _ in pairs) > 1}
    if several and what.matched and what.matched != (Clause(action="delete"),):
        return Ambiguous(target_rows=len(several))
    changes = []
    for t, old in enumerate(table.rows):
        matching = [source.rows[s] for other, s in pairs if other == t]
        if matching:
            rows, clauses = {"target": old, "source": matching[0]}, what.matched
        else:
            rows, clauses = {"target": old}, what.not_matched_by_source
        changes.append(_changed(columns, old, rows, clauses))
    for s, new in enumerate(source.rows):
        if s not in {other for _, other in pairs}:
            changes.append(_inserted(columns, {"source": new}, what.not_matched))
    return _result(columns, changes)


def matches(table: Relation, source: Relation, on: Expr) -> list[tuple[int, int]]:
    """The positions of rows of both for which `on` is true."""
    return [
        (t, s)
        for t, old in enumerate(table.rows)
        for s, new in enumerate(source.rows)
        if on.value({"target": old, "source": new}) is True
    ]


def evolved(columns: Mapping[str, Kind], source: Mapping[str, Kind]) -> Mapping[str, Kind]:
    """The columns with those, and the members of structs, that only the source has; these come last."""
    return dict(_united(tuple(columns.items()), tuple(source.items())))


def shaped(row: Row, columns: Mapping[str, Kind]) -> Row:
    """A row, or a struct, with these columns: found by name, null where it lacks them, others dropped."""
    return {name: _shaped(row.get(name), kind) for name, kind in columns.items()}


def applied(changes: Sequence[tuple[str, Row]]) -> tuple[list[Row], list[Row]]:
    """The rows that a feed takes from the earlier version, and those that it adds."""
    gone = [row for kind, row in changes if kind in ("delete", "update_preimage")]
    come = [row for kind, row in changes if kind in ("insert", "update_postimage")]
    assert len(gone) + len(come) == len(changes)
    return gone, come


Columns = Mapping[str, Kind]
_Change = tuple[str, Row | None, Row | None]
"""A kind of change, the row before and the row after; the kind is "" where there is none."""


def _first(clauses: tuple[Clause, ...], rows: Mapping[str, Row]) -> Clause | None:
    return next((c for c in clauses if c.condition is None or c.condition.value(rows) is True), None)


def _changed(columns: Columns, row: Row, rows: Mapping[str, Row], clauses: tuple[Clause, ...]) -> _Change:
    """What the clauses make of a target row. They see it as it was; what it becomes has the `columns`."""
    clause, old = _first(clauses, rows), shaped(row, columns)
    if clause is None:
        return "", old, old
    if clause.action == "delete":
        return "delete", old, None
    new = dict(row)
    if clause.values is None:
        new |= {name: value for name, value in rows["source"].items() if name in columns}
    else:
        # Computed before the first is assigned; a member that is given to a null struct makes it a struct.
        for path, value in [(given.path, given.value.value(rows)) for given in clause.values]:
            _assign(new, path, value, columns)
    return "update", old, shaped(new, columns)


def _inserted(columns: Columns, rows: Mapping[str, Row], clauses: tuple[Clause, ...]) -> _Change:
    clause = _first(clauses, rows)
    if clause is None:
        return "", None, None
    if clause.values is None:
        given = rows["source"]
    else:
        given = {assignment.path[0]: assignment.value.value(rows) for assignment in clause.values}
    return "insert", None, shaped(given, columns)


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


def _united(own: Any, other: Any) -> Any:
    if isinstance(own, str) or isinstance(other, str):
        return own
    theirs = dict(other)
    kept = tuple((name, _united(kind, theirs.get(name, kind))) for name, kind in own)
    return kept + tuple((name, kind) for name, kind in other if name not in dict(own))


def _has_star(what: Merge) -> bool:
    return any(c.action != "delete" and c.values is None for c in (*what.matched, *what.not_matched))


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
