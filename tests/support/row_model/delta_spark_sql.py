"""The operations of the model as SQL statements for delta-spark, and its answers as rows of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.row_model.cases import Case, Deletion, Merging, Updating
from tests.support.row_model.expressions import Expr, Kind
from tests.support.row_model.operations import Assignment, Clause, Relation, matches_twice
from tests.support.row_model.values import Row


def statement(case: Case, name: str) -> str:
    """The SQL statement for an operation on the table of this name."""
    match case:
        case Deletion():
            return f"DELETE FROM {name}{_prefixed(' WHERE', case.condition)}"
        case Updating():
            return f"UPDATE {name} SET {_set(case.values)}{_prefixed(' WHERE', case.condition)}"
        case Merging():
            return _merge(case, name)


def has_same_meaning(case: Case, rows: Relation) -> bool:
    """Whether delta-spark gives the operation the meaning of the model.

    `rows` are the table's rows before the operation. The meanings differ for two kinds of merges in which several
    source rows match one target row (`ClassicMergeExecutor`):

    - delta-spark rejects a merge without matched clauses, unless it only inserts.
    - delta-spark accepts a merge that has only matched clauses, all with conditions, if one match satisfies them.
    """
    if not isinstance(case, Merging) or not matches_twice(rows, case.source.relation, case.merge.on):
        return True
    matched, by_source = case.merge.matched, case.merge.not_matched_by_source
    if not matched:
        return not by_source
    has_other_clauses = bool(case.merge.not_matched or by_source)
    return has_other_clauses or any(clause.condition is None for clause in matched)


def _merge(case: Merging, name: str) -> str:
    clauses = [
        f"WHEN {kind}{_prefixed(' AND', clause.condition)} THEN {_action(clause)}"
        for kind, kind_clauses in (
            ("MATCHED", case.merge.matched),
            ("NOT MATCHED", case.merge.not_matched),
            ("NOT MATCHED BY SOURCE", case.merge.not_matched_by_source),
        )
        for clause in kind_clauses
    ]
    into = f"MERGE INTO {name} AS target USING ({case.source.query}) AS source ON {case.merge.on.sql}"
    return f"{into} {' '.join(clauses)}"


def _action(clause: Clause) -> str:
    if clause.action == "delete":
        return "DELETE"
    if clause.action == "update":
        return f"UPDATE SET {'*' if clause.values is None else _set(clause.values)}"
    if clause.values is None:
        return "INSERT *"
    columns = ", ".join(assignment.text for assignment in clause.values)
    return f"INSERT ({columns}) VALUES ({', '.join(assignment.value.sql for assignment in clause.values)})"


def _set(values: tuple[Assignment, ...]) -> str:
    return ", ".join(f"{assignment.text} = {assignment.value.sql}" for assignment in values)


def _prefixed(keyword: str, condition: Expr | None) -> str:
    return "" if condition is None else f"{keyword} ({condition.sql})"


def rows_of(answer: Sequence[Sequence[Any]], columns: Mapping[str, Kind]) -> list[Row]:
    """The rows of the model for an answer of delta-spark with these columns."""
    return [
        {name: _value(cell, kind) for cell, (name, kind) in zip(row, columns.items(), strict=True)} for row in answer
    ]


def _value(cell: Any, kind: Kind) -> Any:
    if isinstance(kind, tuple) and cell is not None:
        return {name: _value(member, member_kind) for member, (name, member_kind) in zip(cell, kind, strict=True)}
    return cell
