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
from deltalite.phases import Phase

if TYPE_CHECKING:
    from airflow_provider_deltalite.page.database import Attempt

_MAX_ITEMS = 60
_UNFINISHED_STATES = frozenset({"running", "queued", "scheduled", "deferred", "restarting", "up_for_retry"})
_STATES_AFTER_AN_ATTEMPT = frozenset({"success", "failed", "up_for_retry"})
BAR_WIDTH = 1000
_LONGEST_PHASE_S = 10**9
_PHASE_TEXTS = {
    Phase.START: ("Start", "from the start of the driver until Spark is ready"),
    Phase.PLAN: ("Plan", "read logs, check the request, find the files to change"),
    Phase.WRITE: ("Write", "compute rows and write files"),
    Phase.AUDIT: ("Audit", "examine rows"),
    Phase.DELETE: ("Delete", "delete files that no version needs"),
    Phase.MAINTAIN: ("Maintain", "run the due steps of the tables"),
    Phase.COMMIT: ("Commit", "write the version to the log, and wait after a conflict"),
    Phase.AFTER_COMMIT: ("After the commit", "write checksum and checkpoint, clean the log"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRow:
    """A phase of a job: its name, its work and its seconds. `x` and `width` are its part of a bar of `BAR_WIDTH`."""

    phase: str
    label: str
    work: str
    seconds: float
    x: float
    width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownResult:
    """The parts of a task's return value that the page shows.

    - `address`: the address of the table. The page looks it up among the known tables, and opens no other table.
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
    phases: tuple[PhaseRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """A task attempt and its outcome for the table.

    - `version`: the version that the attempt committed or read, or that made it skip.
    """

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
                phases=_phase_rows(value.get("phases")),
            )
        case _:
            return None


def phases_of_last_attempt(
    attempts: Sequence[Attempt], result: ShownResult | None, stored_at: datetime | None
) -> tuple[PhaseRow, ...]:
    """Return the phases of the job of the last attempt.

    The stored result may belong to an earlier attempt: while the last attempt runs, and also after it has failed before
    its worker started. The function then returns no phases.

    `stored_at` is the time at which Airflow stored the result.
    """
    if result is None or not attempts or attempts[-1].state not in _STATES_AFTER_AN_ATTEMPT:
        return ()
    earlier_end = attempts[-2].end if len(attempts) > 1 else None
    is_of_earlier_attempt = stored_at is not None and earlier_end is not None and stored_at <= earlier_end
    return () if is_of_earlier_attempt else result.phases


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

    1. The log has commits of the attempt: it committed, even if it failed later.
    2. The last attempt returned that it skipped: its sources had nothing new, or the run had committed before.
    3. The last attempt returned a version, which it committed or read.
    4. Its state is not final: no commit so far.
    5. Otherwise: no commit.
    """
    versions = [
        entry.version for entry in entries if entry.run is not None and entry.run.try_number == attempt.try_number
    ]
    if versions:
        ending = "" if attempt.state in ("success", None, *_UNFINISHED_STATES) else f", then {attempt.state}"
        return f"Committed version {', '.join(map(str, sorted(versions)))}{ending}", versions[0]
    if is_last and result is not None and attempt.state == "success":
        if result.skipped and (result.skip_reason or result.version is None):
            return f"Skipped: {result.skip_reason or 'nothing to do'}", None
        if result.skipped:
            return f"Skipped: this run has already committed version {result.version}", result.version
        if result.version is not None:
            verb = "Committed" if result.committed else "Read"
            return f"{verb} version {result.version}", result.version
    if attempt.state in _UNFINISHED_STATES:
        return "Not finished; no commit so far", None
    return "No commit", None


def _phase_rows(values: Any) -> tuple[PhaseRow, ...]:
    """Return the known phases with valid seconds, in the order of `Phase`."""
    if not isinstance(values, Mapping):
        return ()
    seconds_by_phase = {phase: values[phase] for phase in Phase if _is_duration(values.get(phase))}
    total_s = sum(seconds_by_phase.values())
    if not total_s:
        return ()
    rows, end = [], 0.0
    for phase, seconds in seconds_by_phase.items():
        x, end = end, end + seconds / total_s * BAR_WIDTH
        label, work = _PHASE_TEXTS[phase]
        width = round(end, 1) - round(x, 1)
        rows.append(
            PhaseRow(phase=phase, label=label, work=work, seconds=seconds, x=round(x, 1), width=round(width, 1))
        )
    return tuple(rows)


def _is_duration(seconds: Any) -> bool:
    """Whether a value is a number of seconds. NaN and infinity do not count."""
    return type(seconds) in (int, float) and 0 <= seconds <= _LONGEST_PHASE_S


def _items(value: Any) -> list[Any]:
    return list(value)[:_MAX_ITEMS] if isinstance(value, list | tuple) else []


def _pairs(values: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(values, Mapping):
        return ()
    return tuple((shown_text(str(name)), shown_text(value)) for name, value in list(values.items())[:_MAX_ITEMS])
