"""A slow and simple model of DELETE, UPDATE and MERGE: the rows after the operation, and its change feed.

The model follows the definition of delta-spark literally, row by row and pair by pair. The feed has a preimage and a
postimage of each row to which an update clause applies, even if the values of the row stay the same.
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
    """Rows, and the kind of each column by its name in lower case, in the order of the columns."""

    columns: Mapping[str, Kind]
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The `path` of a column or a struct member, its `text` in the request, and its new value."""

    path: tuple[str, ...]
    text: str
    value: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """An action, and its condition. Without `values`, an update is `UPDATE SET *` and an insert is `INSERT *`."""

    action: Action
    condition: Expr | None = None
    values: tuple[Assignment, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """The condition and the clauses of a merge. With `evolve`, the merge may evolve the table's schema."""

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
    """The outcome of a rejected merge: each of `target_rows` target rows has several matching source rows."""

    target_rows: int


def delete(table: Relation, condition: Expr | None) -> Outcome:
    """Delete the rows for which the condition is true. The rows for which it is false or null stay."""
    clause = Clause(action="delete", condition=condition)
    changes = [_target_row_change(table.columns, row, {"target": row}, (clause,)) for row in table.rows]
    return _outcome(table.columns, changes)


def update(table: Relation, condition: Expr | None, values: tuple[Assignment, ...]) -> Outcome:
    """Assign values to the rows for which the condition is true. Each value is computed from the old row."""
    clause = Clause(action="update", condition=condition, values=values)
    changes = [_target_row_change(table.columns, row, {"target": row}, (clause,)) for row in table.rows]
    return _outcome(table.columns, changes)


def merge(table: Relation, source: Relation, request: Merge) -> Outcome | Ambiguous:
    """Merge a source into a table.

    The first applicable clause updates or deletes each target row, and inserts each source row that matches no target
    row. The outcome is `Ambiguous` if a target row has several matches and the merge has matched clauses. A merge whose
    only matched clause is a delete without a condition is never ambiguous.
    """
    columns = evolved_columns(table.columns, source.columns) if request.evolve and _has_star(request) else table.columns
    pairs = matches(table, source, request.on)
    match_counts = Counter(target_index for target_index, _ in pairs)
    ambiguous_rows = [target_index for target_index, count in match_counts.items() if count > 1]
    if ambiguous_rows and request.matched and request.matched != (Clause(action="delete"),):
        return Ambiguous(target_rows=len(ambiguous_rows))
    changes = []
    for index, target_row in enumerate(table.rows):
        matching_rows = [source.rows[source_index] for target_index, source_index in pairs if target_index == index]
        if matching_rows:
            rows, clauses = {"target": target_row, "source": matching_rows[0]}, request.matched
        else:
            rows, clauses = {"target": target_row}, request.not_matched_by_source
        changes.append(_target_row_change(columns, target_row, rows, clauses))
    matched_source_rows = {source_index for _, source_index in pairs}
    for index, source_row in enumerate(source.rows):
        if index not in matched_source_rows:
            changes.append(_source_row_change(columns, {"source": source_row}, request.not_matched))
    return _outcome(columns, changes)


def matches(table: Relation, source: Relation, on: Expr) -> list[tuple[int, int]]:
    """The pairs of positions, in the table and in the source, for which `on` is true."""
    return [
        (target_index, source_index)
        for target_index, target_row in enumerate(table.rows)
        for source_index, source_row in enumerate(source.rows)
        if on.value({"target": target_row, "source": source_row}) is True
    ]


def matches_twice(table: Relation, source: Relation, on: Expr) -> bool:
    """Whether several source rows match one target row."""
    match_counts = Counter(target_index for target_index, _ in matches(table, source, on))
    return max(match_counts.values(), default=0) > 1


def evolved_columns(columns: Mapping[str, Kind], source: Mapping[str, Kind]) -> Mapping[str, Kind]:
    """The columns of the table, followed by the columns and struct members that only the source has."""
    return dict(_unite(tuple(columns.items()), tuple(source.items())))


def with_columns(row: Row, columns: Mapping[str, Kind]) -> Row:
    """A row or a struct with exactly these columns: missing columns are null, additional columns are dropped."""
    return {name: _shaped(row.get(name), kind) for name, kind in columns.items()}


def removed_and_added_rows(changes: Sequence[tuple[str, Row]]) -> tuple[list[Row], list[Row]]:
    """The rows that a feed removes from the earlier version, and the rows that it adds."""
    removed_rows = [row for kind, row in changes if kind in ("delete", "update_preimage")]
    added_rows = [row for kind, row in changes if kind in ("insert", "update_postimage")]
    assert len(removed_rows) + len(added_rows) == len(changes)
    return removed_rows, added_rows


Columns = Mapping[str, Kind]
_Change = tuple[str, Row | None, Row | None]
"""(kind of change, row before, row after); the kind is "" if no clause applies."""


def _first_applicable(clauses: tuple[Clause, ...], rows: Mapping[str, Row]) -> Clause | None:
    return next((c for c in clauses if c.condition is None or c.condition.value(rows) is True), None)


def _target_row_change(columns: Columns, row: Row, rows: Mapping[str, Row], clauses: tuple[Clause, ...]) -> _Change:
    """The change of a target row by the first applicable clause. Both rows of the change have the `columns`."""
    clause, old_row = _first_applicable(clauses, rows), with_columns(row, columns)
    if clause is None:
        return "", old_row, old_row
    if clause.action == "delete":
        return "delete", old_row, None
    new_row = dict(row)
    if clause.values is None:
        new_row |= {name: value for name, value in rows["source"].items() if name in columns}
    else:
        # Each value is computed from the old row, so all of them are computed before the first assignment.
        for path, value in [(assignment.path, assignment.value.value(rows)) for assignment in clause.values]:
            _assign(new_row, path, value, columns)
    return "update", old_row, with_columns(new_row, columns)


def _source_row_change(columns: Columns, rows: Mapping[str, Row], clauses: tuple[Clause, ...]) -> _Change:
    """The insert of a source row by the first applicable clause."""
    clause = _first_applicable(clauses, rows)
    if clause is None:
        return "", None, None
    if clause.values is None:
        values = rows["source"]
    else:
        values = {assignment.path[0]: assignment.value.value(rows) for assignment in clause.values}
    return "insert", None, with_columns(values, columns)


def _assign(row: Row, path: tuple[str, ...], value: Any, kinds: Columns) -> None:
    """Assign a value to a column or a struct member of the row. A null struct becomes a struct of nulls first."""
    name, *member_path = path
    if not member_path:
        row[name] = value
        return
    members = dict(kinds[name])
    row[name] = dict.fromkeys(members) if row[name] is None else dict(row[name])
    _assign(row[name], tuple(member_path), value, members)


def _shaped(value: Any, kind: Kind) -> Any:
    return value if value is None or isinstance(kind, str) else with_columns(value, dict(kind))


def _unite(columns: Any, source_columns: Any) -> Any:
    if isinstance(columns, str) or isinstance(source_columns, str):
        return columns
    source_kinds = dict(source_columns)
    united = tuple((name, _unite(kind, source_kinds.get(name, kind))) for name, kind in columns)
    return united + tuple((name, kind) for name, kind in source_columns if name not in dict(columns))


def _has_star(merge: Merge) -> bool:
    return any(c.action != "delete" and c.values is None for c in (*merge.matched, *merge.not_matched))


def _outcome(columns: Columns, changes: Sequence[_Change]) -> Outcome:
    feed: list[tuple[str, Row]] = []
    for kind, old_row, new_row in changes:
        match kind:
            case "update":
                feed += [("update_preimage", old_row or {}), ("update_postimage", new_row or {})]
            case "delete":
                feed.append((kind, old_row or {}))
            case "insert":
                feed.append((kind, new_row or {}))
    rows = [new_row for _, _, new_row in changes if new_row is not None]
    return Outcome(table=Relation(columns=columns, rows=rows), changes=feed)
