"""Operations that change rows: the outcome of each in the model, and its request to the library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deltalite.requests import DeleteRequest, MergeClause, MergeRequest, UpdateRequest
from tests.support.row_model import expressions as ex
from tests.support.row_model import operations as op
from tests.support.row_model.expressions import Expr
from tests.support.row_model.operations import Ambiguous, Assignment, Clause, Merge, Outcome, Relation
from tests.support.tables import UNUSED_SOURCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The rows of a merge source. `spellings` has the spelling of each column name in the query."""

    relation: Relation
    spellings: Mapping[str, str]

    @property
    def query(self) -> str:
        """The SQL query for the rows."""
        columns = self.relation.columns
        row_text = lambda row: ", ".join(ex.typed_text(row[name], kind) for name, kind in columns.items())
        rows = ", ".join(f"({row_text(row)})" for row in self.relation.rows or [dict.fromkeys(columns)])
        names = ", ".join(ex.quoted(self.spellings[name]) for name in columns)
        return f"SELECT * FROM VALUES {rows} AS v({names})" + ("" if self.relation.rows else " WHERE false")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """DELETE."""

    condition: Expr | None

    def outcome(self, table: Relation) -> Outcome:
        return op.delete(table, self.condition)

    def request(self, path: str) -> DeleteRequest:
        return DeleteRequest(table=path, condition=_sql(self.condition), confirm_all_rows=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Updating:
    """UPDATE."""

    condition: Expr | None
    values: tuple[Assignment, ...]

    def outcome(self, table: Relation) -> Outcome:
        return op.update(table, self.condition, self.values)

    def request(self, path: str) -> UpdateRequest:
        return UpdateRequest(table=path, condition=_sql(self.condition), set=_set(self.values))


@dataclass(frozen=True, slots=True, kw_only=True)
class Merging:
    """MERGE."""

    source: Source
    merge: Merge

    def outcome(self, table: Relation) -> Outcome | Ambiguous:
        return op.merge(table, self.source.relation, self.merge)

    def request(self, path: str) -> MergeRequest:
        merge = self.merge
        return MergeRequest(
            table=path,
            sources={"source": UNUSED_SOURCE},
            query=self.source.query,
            on=merge.on.sql,
            when_matched=tuple(map(_clause, merge.matched)),
            when_not_matched=tuple(map(_clause, merge.not_matched)),
            when_not_matched_by_source=tuple(map(_clause, merge.not_matched_by_source)),
            merge_schema=merge.evolve,
        )


Case = Deletion | Updating | Merging


def _clause(clause: Clause) -> MergeClause:
    argument = True if clause.action == "delete" else "*" if clause.values is None else _set(clause.values)
    return MergeClause(condition=_sql(clause.condition), **{clause.action: argument})


def _set(values: tuple[Assignment, ...]) -> dict[str, str]:
    return {assignment.text: assignment.value.sql for assignment in values}


def _sql(condition: Expr | None) -> str | None:
    return None if condition is None else condition.sql
