"""Whether a person has accepted the values of an audit. Pure functions.

A person accepts the values of a question. The job measures again before it commits, on the rows that it commits. An
approval counts for an audit if its check is the same and no value is worse than in the question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from deltalite.protocol import properties as props
from deltalite.requests import Audit, AuditKind, AuditLevel
from deltalite.requests.approvals import Approval, AskedAudit, AuditQuestion, check_digest
from deltalite.requests.audits import NOW
from deltalite.results import AuditResult

_ROUNDING_HOURS = 0.002  # an age has three digits


def with_acceptance(
    results: Sequence[AuditResult], audits: Mapping[str, Audit], approval: Approval | None, *, now_ms: int
) -> list[AuditResult]:
    """Return the results. Those that the approval covers name the person and the time.

    Args:
        results: the results of this attempt.
        audits: the audits by name.
        approval: the approval of the request, or None.
        now_ms: the time of the measurement, in milliseconds UTC.
    """
    if approval is None:
        return list(results)
    return [
        replace(result, accepted_by=approval.accepted_by, accepted_at=approval.accepted_at)
        if is_undecided(result) and _covers(approval, audits[result.name], result, now_ms)
        else result
        for result in results
    ]


def is_undecided(result: AuditResult) -> bool:
    """Whether a person must decide on a result. SQL that cannot be computed is an error, and no decision."""
    return not result.passed and result.level == AuditLevel.ASK and result.error is None and result.accepted_by is None


def question_of(
    results: Sequence[AuditResult],
    audits: Mapping[str, Audit],
    *,
    effect: str,
    samples: Mapping[str, Sequence[str]],
    now_ms: int,
) -> AuditQuestion:
    """Return the question about the results that a person must decide on."""
    asked_audits = tuple(
        AskedAudit(
            name=result.name,
            check=check_digest(audits[result.name]),
            text=str(result),
            measured=result.measured,
            rows=result.rows,
            before=result.before,
        )
        for result in results
        if is_undecided(result)
    )
    asked_names = {audit.name for audit in asked_audits}
    asked_samples = {name: tuple(texts) for name, texts in samples.items() if name in asked_names}
    return AuditQuestion(audits=asked_audits, measured_at_ms=now_ms, effect=effect, samples=asked_samples)


def _covers(approval: Approval, audit: Audit, result: AuditResult, now_ms: int) -> bool:
    accepted = approval.find(audit.name)
    if accepted is None or accepted.check != check_digest(audit):
        return False
    measured = result.measured
    if not _is_number(measured) or not _is_number(accepted.measured):
        return measured == accepted.measured and type(measured) is type(accepted.measured)
    waiting_hours = (now_ms - approval.measured_at_ms) / props.HOUR_MS if audit.as_of == NOW else 0.0
    return all(
        value <= accepted_value
        for value, accepted_value in zip(
            _badness(audit, result, waiting_hours), _badness(audit, accepted, -_ROUNDING_HOURS), strict=True
        )
    )


def _badness(audit: Audit, values: AuditResult | AskedAudit, waiting_hours: float) -> tuple[float, ...]:
    """Return numbers that grow as the measured values get worse.

    `waiting_hours` is the part of an age that passed after the question.
    """
    measured = float(values.measured or 0)
    match audit.kind:
        case AuditKind.ROWS | AuditKind.UNIQUE | AuditKind.REFERENCES:
            share = measured / values.rows if audit.max_share is not None and values.rows else 0.0
            return measured, share
        case AuditKind.FRESHNESS:
            return (measured - waiting_hours,)
        case AuditKind.ROW_COUNT | AuditKind.AGGREGATE:
            below = 0.0 if audit.min is None else audit.min - measured
            above = 0.0 if audit.max is None else measured - audit.max
            before = values.before or 0
            change = abs(measured - before) / before if audit.max_change is not None and before else 0.0
            return max(below, above, 0.0), change


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
