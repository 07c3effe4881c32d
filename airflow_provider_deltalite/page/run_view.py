"""The effect of a task instance on a table, as values for the template: each attempt with its effect, and the result.

The log of the table has the commits of the run, and Airflow has the attempts and the return value of the last one. The
log decides: a failed attempt may have committed before its worker died.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from deltalite.inspection.commit_entries import CommitEntry
from deltalite.inspection.shown_texts import shown_text

if TYPE_CHECKING:
    from airflow_provider_deltalite.page.database import Attempt

_MAX_METRICS = 60
_RUNNING_STATES = frozenset({"running", "queued", "scheduled", "deferred", "restarting", "up_for_retry"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownResult:
    """The parts of a task's return value that the page shows.

    - `address`: the address of the table, to look it up; never opened without that.
    """

    address: str
    table: str
    operation: str
    version: int | None
    skipped: bool
    committed: bool
    skip_reason: str
    metrics: tuple[tuple[str, str], ...]
    failed_audits: int
    audit_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """A task attempt and its outcome for the table. `version` is the version that the attempt committed or read."""

    try_number: int
    state: str
    start: datetime | None
    end: datetime | None
    outcome: str
    version: int | None


def shown_result(value: Mapping[str, Any]) -> ShownResult | None:
    """Return the parts of a return value; None if it is not of an operator of this package."""
    match value:
        case {"table": str() as table, "operation": str() as operation, "version": int() | None as version}:
            audits = [item for item in _items(value.get("audits")) if isinstance(item, Mapping)]
            return ShownResult(
                address=table,
                table=shown_text(table),
                operation=shown_text(operation),
                version=version,
                skipped=value.get("skipped") is True,
                committed=value.get("committed") is True,
                skip_reason=shown_text(value.get("skip_reason")),
                metrics=_pairs(value.get("metrics")),
                failed_audits=sum(audit.get("passed") is not True for audit in audits),
                audit_count=len(audits),
            )
        case _:
            return None


def attempt_rows(
    attempts: Sequence[Attempt], entries: Sequence[CommitEntry], result: ShownResult | None
) -> list[AttemptRow]:
    """Return the attempts with their outcomes, newest first."""
    rows = [_attempt_row(attempt, entries, result, is_last=attempt is attempts[-1]) for attempt in attempts]
    return rows[::-1]


def _attempt_row(
    attempt: Attempt, entries: Sequence[CommitEntry], result: ShownResult | None, *, is_last: bool
) -> AttemptRow:
    outcome, version = _outcome(attempt, entries, result, is_last=is_last)
    return AttemptRow(
        try_number=attempt.try_number,
        state=attempt.state or "not started",
        start=attempt.start,
        end=attempt.end,
        outcome=outcome,
        version=version,
    )


def _outcome(
    attempt: Attempt, entries: Sequence[CommitEntry], result: ShownResult | None, *, is_last: bool
) -> tuple[str, int | None]:
    """Return the outcome of an attempt and its version. Decide in this order.

    1. The log has commits of the attempt: it committed, also if it failed later.
    2. The last attempt returned that its work was done before: it skipped.
    3. The last attempt returned a version without a separate commit: it read this version.
    4. It still runs: nothing is known.
    5. Otherwise: no commit.
    """
    versions = [
        entry.version for entry in entries if entry.run is not None and entry.run.try_number == attempt.try_number
    ]
    if versions:
        ending = "" if attempt.state in ("success", None, *_RUNNING_STATES) else f", then {attempt.state}"
        return f"Committed version {', '.join(map(str, sorted(versions)))}{ending}", versions[0]
    if is_last and result is not None and attempt.state == "success":
        if result.skipped and result.version is not None:
            return f"Skipped, because version {result.version} is this run's", result.version
        if result.skipped:
            return f"Skipped: {result.skip_reason or 'nothing to do'}", None
        if result.version is not None:
            verb = "Committed" if result.committed else "Read"
            return f"{verb} version {result.version}", result.version
    if attempt.state in _RUNNING_STATES:
        return "Not finished; no commit so far", None
    return "No commit", None


def _items(value: Any) -> list[Any]:
    return list(value)[:_MAX_METRICS] if isinstance(value, list | tuple) else []


def _pairs(values: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(values, Mapping):
        return ()
    return tuple((shown_text(str(name)), shown_text(value)) for name, value in list(values.items())[:_MAX_METRICS])
