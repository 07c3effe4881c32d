"""The requests that change rows of a table: delete, update and merge. A merge can also create the table.

Conditions and values are Spark SQL, which the commands parse. The classes here reject faults that do not depend on the
table:

- an empty predicate, which never means "every row"
- a clause without an action
- an action that its kind of clause does not allow
- a clause after a clause without a condition

An error names a clause as in the DAG: `when_matched[1]`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from deltalite.errors import InvalidRequestError
from deltalite.requests.audits import Audit, audit_list_faults, audits_of
from deltalite.requests.base import CommitRequest, Fault, OutOfOrder, convert_to_enum, faults_of_rerun_replace
from deltalite.requests.deduplicate import Deduplicate, deduplicate_of
from deltalite.requests.incremental import target_faults
from deltalite.requests.quarantine import merge_quarantine_faults, quarantine_level_faults
from deltalite.requests.source import Source, query_faults, sources_of

ALL_COLUMNS = "*"
Assignments = Mapping[str, str]
"""SQL expressions by target column; `a.b` is the field `b` of the struct `a`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsRequest(CommitRequest):
    """A request that changes rows of a table.

    `out_of_order` decides what happens if runs of later data intervals have changed the same rows. None means `fail`
    for a cleared task and `warn` for a first run. `audits` run before the commit.
    """

    no_new_rows: ClassVar[str | None] = None
    """The reason why the operation has no new rows, or None if it may have new rows."""
    quarantine_remedy: ClassVar[str] = ""
    """The end of the remedy for an audit of level `quarantine`: another way to leave out bad rows."""

    out_of_order: OutOfOrder | None = None
    audits: tuple[Audit, ...] = ()

    def __post_init__(self) -> None:
        if self.out_of_order is not None:
            convert_to_enum(self, "out_of_order", OutOfOrder)
        CommitRequest.__post_init__(self)

    def faults(self) -> Iterator[Fault]:
        """Yield the faults of the request, each with its remedy, the most important first."""
        yield from CommitRequest.faults(self)
        yield from faults_of_rerun_replace(
            self.identity,
            f"the operation is '{self.kind}'",
            "Use on_rerun='write' to run the operation again on the newest version, or 'skip'.",
        )
        yield from audit_list_faults(self.audits, no_new_rows=self.no_new_rows)
        yield from self._quarantine_faults()

    def _quarantine_faults(self) -> Iterator[Fault]:
        """Yield the faults of audits of level `quarantine`. By default, the operation leaves out no row."""
        reason = self.no_new_rows or f"the operation '{self.kind}' cannot leave out rows"
        yield from quarantine_level_faults(self.audits, reason, self.quarantine_remedy)

    @classmethod
    def _convert_values(cls, body: dict[str, Any]) -> dict[str, Any]:
        body = super(RowsRequest, cls)._convert_values(body)  # slots=True makes a new class, so plain super() fails
        body["audits"] = audits_of(body.get("audits", ()))
        return body


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRequest(RowsRequest):
    """A request to delete the rows of `table` for which `condition` (SQL) is true.

    `confirm_all_rows` confirms a delete of every row: without a condition, or with one that is always true.
    """

    kind: ClassVar[str] = "delete"
    no_new_rows: ClassVar[str | None] = "a delete adds no rows"

    condition: str | None = None
    confirm_all_rows: bool = False

    def faults(self) -> Iterator[Fault]:
        """Yield the faults of the request, each with its remedy, the most important first."""
        yield from RowsRequest.faults(self)
        yield from _condition_faults("condition", self.condition, "and set confirm_all_rows=True to delete every row")
        if self.condition is None and not self.confirm_all_rows:
            yield (
                f"The delete has no condition, so it would delete every row of {self.table}.",
                "Give `condition`, or set confirm_all_rows=True.",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRequest(RowsRequest):
    """A request to update the rows of `table` for which `condition` (SQL) is true, or every row if it is None.

    `set` maps columns to SQL expressions over the old row.
    """

    kind: ClassVar[str] = "update"
    quarantine_remedy: ClassVar[str] = ", or leave out bad rows with `condition`"

    set: Assignments
    condition: str | None = None

    def faults(self) -> Iterator[Fault]:
        """Yield the faults of the request, each with its remedy, the most important first."""
        yield from RowsRequest.faults(self)
        yield from _condition_faults("condition", self.condition, "to update every row")
        yield from _assignment_faults("set", self.set)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeClause:
    """One clause of a merge: exactly one of `update`, `insert` and `delete`, for rows that satisfy `condition` (SQL).

    `update` and `insert` map columns to expressions. `"*"` sets every column to the source column of the same name.
    """

    condition: str | None = None
    update: str | Assignments | None = None
    insert: str | Assignments | None = None
    delete: bool = False

    def __post_init__(self) -> None:
        for problem, remedy in _clause_faults(self):
            raise InvalidRequestError(problem, remedy=remedy)

    @property
    def actions(self) -> tuple[str, ...]:
        """The names of the actions that are set; a valid clause has exactly one."""
        return tuple(name for name in ("update", "insert", "delete") if getattr(self, name) not in (None, False))


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest(RowsRequest):
    """A request to merge the rows of `sources`, or of the `query` over them, into `table`.

    In SQL, `source` and `target` name the rows of both sides. Among the clauses for a kind of row, the first clause
    with a true condition applies. A target row to which no clause applies does not change.
    `create_if_missing` creates a missing table with `partition_by` and `properties`. Source rows that audits of level
    `quarantine` reject go to the table `quarantine`, and take no part in the merge.
    """

    kind: ClassVar[str] = "merge"
    incidental_fields: ClassVar[frozenset[str]] = CommitRequest.incidental_fields | {
        "create_if_missing",
        "partition_by",
        "properties",
    }

    sources: Mapping[str, Source]
    on: str
    query: str | None = None
    query_params: Mapping[str, object] = field(default_factory=dict)
    deduplicate: Deduplicate | None = None
    when_matched: tuple[MergeClause, ...] = ()
    when_not_matched: tuple[MergeClause, ...] = ()
    when_not_matched_by_source: tuple[MergeClause, ...] = ()
    merge_schema: bool = False
    create_if_missing: bool = False
    partition_by: tuple[str, ...] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    quarantine: str | None = None

    def faults(self) -> Iterator[Fault]:
        """Yield the faults of the request, each with its remedy, the most important first."""
        yield from RowsRequest.faults(self)
        yield from query_faults(self.sources, self.query, self.query_params)
        yield from target_faults(self.sources, self.properties)
        if not self.on.strip():
            yield "`on` is empty.", "Give the condition on which rows match: 'target.id = source.id'."
        clauses_by_kind = {name: getattr(self, name) for name in _ALLOWED_ACTIONS}
        if not any(clauses_by_kind.values()):
            yield (
                "The merge has no clause, so it would do nothing.",
                f"Give at least one of {', '.join(_ALLOWED_ACTIONS)}.",
            )
        for name, clauses in clauses_by_kind.items():
            yield from _clause_list_faults(name, clauses)
        if self.create_if_missing and not self.when_not_matched:
            yield (
                "create_if_missing creates the table from inserted rows, but no clause inserts a row.",
                "Give when_not_matched, or leave create_if_missing out.",
            )
        if not self.create_if_missing and (self.partition_by is not None or self.properties):
            yield (
                "partition_by and properties need create_if_missing: they are for a table that the merge creates.",
                "Set create_if_missing=True, or leave them out.",
            )

    def _quarantine_faults(self) -> Iterator[Fault]:
        yield from merge_quarantine_faults(self)

    @classmethod
    def _convert_values(cls, body: dict[str, Any]) -> dict[str, Any]:
        body = super(MergeRequest, cls)._convert_values(body)  # slots=True makes a new class, so plain super() fails
        body["sources"] = sources_of(body["sources"])
        body["deduplicate"] = deduplicate_of(body.get("deduplicate"))
        if body.get("partition_by") is not None:
            body["partition_by"] = tuple(body["partition_by"])
        for name in _ALLOWED_ACTIONS:
            body[name] = tuple(MergeClause(**clause) for clause in body.get(name, ()))
        return body


_ALLOWED_ACTIONS: Mapping[str, tuple[str, ...]] = {
    "when_matched": ("update", "delete"),
    "when_not_matched": ("insert",),
    "when_not_matched_by_source": ("update", "delete"),
}


def _clause_faults(clause: MergeClause) -> Iterator[Fault]:
    """Yield the faults of a clause that do not depend on its kind."""
    if len(clause.actions) != 1:
        yield (
            f"The clause has {' and '.join(clause.actions) or 'no action'}.",
            "Give exactly one of update, insert and delete.",
        )
        return
    (action,) = clause.actions
    match getattr(clause, action):
        case True | "*":
            pass
        case str() as text:
            yield (
                f"{action} is the text {text!r}.",
                f"Give expressions by column, or '{ALL_COLUMNS}' for all columns of the source.",
            )
        case assignments:
            yield from _assignment_faults(action, assignments)
    yield from _condition_faults("condition", clause.condition, "for every row")


def _clause_list_faults(name: str, clauses: tuple[MergeClause, ...]) -> Iterator[Fault]:
    """Yield the faults of the clauses of one kind, numbered as in the DAG."""
    allowed_actions = _ALLOWED_ACTIONS[name]
    for number, clause in enumerate(clauses):
        if not set(clause.actions) <= set(allowed_actions):
            (action,) = clause.actions
            yield (
                f"{name}[{number}] has the action {action}, but only {' or '.join(allowed_actions)} is allowed there.",
                "Move or change the clause.",
            )
        if name == "when_not_matched_by_source" and clause.update == ALL_COLUMNS:
            yield (
                f"{name}[{number}] updates every column from the source, but such a row has no source row.",
                "Name the columns and their values.",
            )
        if clause.condition is None and number < len(clauses) - 1:
            yield (
                f"{name}[{number}] has no condition and takes every row, so the clauses after it do nothing.",
                "Give each clause but the last a condition.",
            )


def _condition_faults(name: str, condition: str | None, reason_to_omit: str) -> Iterator[Fault]:
    """Yield the fault of an empty condition. `reason_to_omit` ends the remedy "Give a predicate, or leave it out"."""
    if condition is not None and not condition.strip():
        yield f"{name} is empty.", f"Give a predicate, or leave it out {reason_to_omit}."


def _assignment_faults(name: str, values: Assignments) -> Iterator[Fault]:
    if not values:
        yield f"{name} names no column.", "Give an expression for each column that gets a value."
    for column, expression in values.items():
        if not column.strip() or not expression.strip():
            yield f"{name} contains {column!r}: {expression!r}.", "Give the name of the column and an SQL expression."
    if len({column.lower() for column in values}) < len(values):
        yield (
            f"{name} names a column twice, with different upper and lower case: {', '.join(values)}.",
            "Name each column once: columns of a table do not differ in case alone.",
        )
