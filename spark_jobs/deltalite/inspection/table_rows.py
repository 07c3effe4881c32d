"""The rows of a maintenance or health report: one for each table, with its measures and the outcome of each step.

A row is bounded, so that the rows of hundreds of tables fit into a task's result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from deltalite.errors import DeltaLiteError
from deltalite.inspection.due_steps import Decision
from deltalite.inspection.health import TableHealth
from deltalite.inspection.shown_texts import shown_text
from deltalite.requests import Step


class Outcome(StrEnum):
    """The outcome of a step for one table."""

    FAILED = "failed"
    DONE = "done"
    DONE_EARLIER = "done earlier"
    """An earlier attempt of the same task has committed the step."""
    NOT_REACHED = "not reached"
    """The step is due, but the budget of the job was used up."""
    DUE = "due"
    NOT_NEEDED = "not needed"


class Status(StrEnum):
    """The state of a table after the job, the most important first."""

    FAILED = "failed"
    CHANGED = "changed"
    NOT_REACHED = "not reached"
    DUE = "due"
    HEALTHY = "healthy"
    SKIPPED = "skipped"
    """The entry of a catalog is not a Delta table."""


_STATUS_OF_OUTCOME = {
    Outcome.FAILED: Status.FAILED,
    Outcome.DONE: Status.CHANGED,
    Outcome.DONE_EARLIER: Status.CHANGED,
    Outcome.NOT_REACHED: Status.NOT_REACHED,
    Outcome.DUE: Status.DUE,
    Outcome.NOT_NEEDED: Status.HEALTHY,
}
_RANKS = {status: rank for rank, status in enumerate(Status)}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """The outcome of a step, its reason, and the version of its commit or checkpoint."""

    step: Step
    outcome: Outcome
    reason: str
    version: int | None = None

    @classmethod
    def of(cls, decision: Decision) -> StepOutcome:
        """Return the outcome of a step that was only decided."""
        outcome = Outcome.DUE if decision.is_due else Outcome.NOT_NEEDED
        return cls(step=decision.step, outcome=outcome, reason=decision.reason)

    def as_dict(self) -> dict[str, Any]:
        """Return the outcome as JSON values."""
        version = {} if self.version is None else {"version": self.version}
        return {"outcome": self.outcome.value, "reason": self.reason, **version}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowError:
    """The error of a table: its class and its message. `is_retryable` says whether a retry of the task can succeed."""

    kind: str
    message: str
    is_retryable: bool

    @classmethod
    def of(cls, error: Exception) -> RowError:
        """Return the error with its message as one bounded line, without secrets and control characters."""
        is_retryable = error.retryable if isinstance(error, DeltaLiteError) else True
        return cls(kind=type(error).__name__, message=shown_text(str(error)), is_retryable=is_retryable)

    @property
    def text(self) -> str:
        """The class and the message in one line."""
        return f"{self.kind}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """The row of one table.

    - `table`: the address of the table; its name in the catalog if the address is unknown.
    - `before`: the measures before the job; None if the table could not be read.
    - `after`: the measures after the job; None if the job did not change the table.
    - `steps`: an outcome for each step, in the order of the steps; none if the table could not be read.
    - `error`: the error of the table. The later steps of the table are then not reached.
    - `name`: the name of the table in the catalog; None if the task did not find it in a catalog.
    - `skip_reason`: why a table of a catalog is not maintained; None for a Delta table.
    """

    table: str
    before: TableHealth | None = None
    after: TableHealth | None = None
    steps: tuple[StepOutcome, ...] = ()
    error: RowError | None = None
    name: str | None = None
    skip_reason: str | None = None

    @property
    def status(self) -> Status:
        """`FAILED` with an error, `SKIPPED` with a reason to skip, otherwise the state of the most important step."""
        if self.error is not None:
            return Status.FAILED
        if self.skip_reason is not None:
            return Status.SKIPPED
        return min((_STATUS_OF_OUTCOME[step.outcome] for step in self.steps), key=_RANKS.__getitem__)

    @property
    def label(self) -> str:
        """The table in a log line: its name in the catalog, if known, and its address."""
        return self.table if self.name in (None, self.table) else f"{self.name} ({self.table})"

    @property
    def has_due_steps(self) -> bool:
        """Whether a step is due. Other steps of the table may be done by an earlier attempt."""
        return any(step.outcome is Outcome.DUE for step in self.steps)

    @property
    def gain_bytes(self) -> int:
        """The gain of the maintenance of this table; 0 if the table could not be read."""
        return 0 if self.before is None else self.before.gain_bytes

    def with_step(self, outcome: StepOutcome) -> TableRow:
        """Return the row with another outcome of one step."""
        return replace(self, steps=tuple(outcome if step.step is outcome.step else step for step in self.steps))

    def as_dict(self) -> dict[str, Any]:
        """Return the row as JSON values."""
        values: dict[str, Any] = {"table": self.table, "status": self.status.value}
        if self.name is not None:
            values["name"] = self.name
        if self.skip_reason is not None:
            values["reason"] = self.skip_reason
        if self.before is not None:
            values["before"] = self.before.as_dict()
        if self.after is not None:
            values["after"] = self.after.as_dict()
        if self.steps:
            values["steps"] = {step.step.value: step.as_dict() for step in self.steps}
        if self.error is not None:
            values["error"] = {"kind": self.error.kind, "message": self.error.message}
        return values

    @property
    def summary(self) -> str:
        """The error, the reason to skip the table, or the steps that are not `NOT_NEEDED`; else `healthy`."""
        if self.error is not None:
            return self.error.text
        if self.skip_reason is not None:
            return self.skip_reason
        texts = [f"{s.step} {s.outcome}: {s.reason}" for s in self.steps if s.outcome is not Outcome.NOT_NEEDED]
        return "; ".join(texts) or Status.HEALTHY.value


def by_importance(rows: Iterable[TableRow]) -> list[TableRow]:
    """Return the rows in the order of their statuses; within a status the largest gain first."""
    return sorted(rows, key=lambda row: (_RANKS[row.status], -row.gain_bytes, row.table))


def counts_by_status(rows: Sequence[TableRow]) -> dict[str, int]:
    """Return the number of Delta tables, and the number of each status, under the names of metrics."""
    names = {
        Status.FAILED: "numFailedTables",
        Status.CHANGED: "numChangedTables",
        Status.NOT_REACHED: "numNotReachedTables",
        Status.DUE: "numDueTables",
        Status.HEALTHY: "numHealthyTables",
    }
    statuses = [row.status for row in rows]
    return {
        "numTables": len(rows) - statuses.count(Status.SKIPPED),
        **{name: statuses.count(status) for status, name in names.items()},
    }
