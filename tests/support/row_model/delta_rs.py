"""The operations of the model in delta-rs, and a check whether delta-rs gives them the same meaning."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from tests.support.row_model.cases import Case, Deletion, Merging, Source, Updating
from tests.support.row_model.expressions import Kind, for_datafusion
from tests.support.row_model.operations import Assignment, Clause, Relation, matches_twice
from tests.support.row_model.values import Row

_ARROW = {"long": pa.int64(), "int": pa.int32(), "double": pa.float64(), "number": pa.float64()}


def has_same_meaning(case: Case, rows: Relation, partition: str | None) -> bool:
    """Whether delta-rs gives the operation the meaning of the model.

    `rows` are the table's rows before the operation. `partition` is the partition column's name in the schema.
    """
    match case:
        case Merging():
            # delta-rs counts matches in another way, and may write the target row once for each match.
            return not matches_twice(rows, case.source.relation, case.merge.on)
        case Deletion(condition=condition) if condition is not None and partition is not None:
            # delta-rs deletes every row if a partition column is compared with itself, as in `p <> p`.
            return len(re.findall(rf"\b{partition}\b", condition.sql, re.IGNORECASE)) <= 1
        case _:
            return True


def append(source: Source, path: str) -> None:
    """Append the rows of a source to a table."""
    write_deltalake(path, _arrow(source), mode="append")


def rows_of(path: str) -> list[Row]:
    """The rows of the newest version."""
    return [
        {name.lower(): value for name, value in row.items()} for row in DeltaTable(path).to_pyarrow_table().to_pylist()
    ]


def perform(case: Case, table: DeltaTable) -> None:
    """Run the operation on the newest version of the table, and commit its outcome."""
    match case:
        case Deletion():
            table.delete(_sql(case.condition))
        case Updating():
            table.update(updates=_set(case.values), predicate=_sql(case.condition))
        case Merging():
            _merge(case, table)


def _merge(case: Merging, table: DeltaTable) -> None:
    merger = table.merge(_arrow(case.source), _sql(case.merge.on) or "", source_alias="source", target_alias="target")
    for kind, clauses in (
        ("when_matched", case.merge.matched),
        ("when_not_matched", case.merge.not_matched),
        ("when_not_matched_by_source", case.merge.not_matched_by_source),
    ):
        for clause in clauses:
            merger = _with_clause(merger, kind, clause)
    merger.execute()


def _with_clause(merger: Any, kind: str, clause: Clause) -> Any:
    condition = _sql(clause.condition)
    if clause.action == "delete":
        return getattr(merger, f"{kind}_delete")(condition)
    if clause.values is None:
        return getattr(merger, f"{kind}_{clause.action}_all")(condition)
    return getattr(merger, f"{kind}_{clause.action}")(_set(clause.values), condition)


def _arrow(source: Source) -> pa.Table:
    columns = source.relation.columns
    fields = [pa.field(source.spellings[name], _type(kind)) for name, kind in columns.items()]
    rows = [{source.spellings[name]: row[name] for name in columns} for row in source.relation.rows]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


def _type(kind: Kind) -> pa.DataType:
    if isinstance(kind, tuple):
        return pa.struct([(name, _type(member)) for name, member in kind])
    return _ARROW.get(kind, pa.string())


def _set(values: tuple[Assignment, ...] | None) -> dict[str, str]:
    return {assignment.text: for_datafusion(assignment.value.sql) for assignment in values or ()}


def _sql(condition: Any) -> str | None:
    return None if condition is None else for_datafusion(condition.sql)
