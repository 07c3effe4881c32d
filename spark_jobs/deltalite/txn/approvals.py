"""Decides whether a person has accepted the result of an audit. Pure functions.

A person accepts the values in an `AuditQuestion`. The job measures again, on the rows that it commits. The approval
covers an audit if the audit's check is the same, and no value is worse than in the question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import isinf, isnan
from typing import TypeGuard

from deltalite.protocol import properties as props
from deltalite.requests import Audit, AuditKind, AuditLevel
from deltalite.requests.approvals import Approval, AskedAudit, AuditQuestion, check_digest
from deltalite.requests.audits import NOW
from deltalite.results import AuditResult
from deltalite.sizes import counted

_Number = Fraction | float  # a float is only infinite
_ZERO = Fraction(0)
_ROUNDING_HOURS = Fraction(2, 1000)
_RELATIVE_TOLERANCE = Fraction(1, 10**9)
_INFINITIES = ("inf", "-inf")  # as in `AuditResult`


def with_acceptance(
    results: Sequence[AuditResult], audits: Mapping[str, Audit], approval: Approval | None, *, now_ms: int
) -> list[AuditResult]:
    """Return the results. A result that the approval covers names the person and the time of the approval.

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
        if is_undecided(result) and _refusal_reason(approval, audits[result.name], result, now_ms) is None
        else result
        for result in results
    ]


def is_undecided(result: AuditResult) -> bool:
    """Whether a person must decide on a result. If the SQL fails, there is no value to decide on."""
    return not result.passed and result.level == AuditLevel.ASK and result.error is None and result.accepted_by is None


def question_of(
    results: Sequence[AuditResult],
    audits: Mapping[str, Audit],
    *,
    effect: str,
    samples: Mapping[str, Sequence[str]],
    now_ms: int,
    approval: Approval | None = None,
) -> AuditQuestion:
    """Return the question about the results that a person must decide on.

    `effect` is a text about the uncommitted files. The question omits it if an audit has `samples=0`, because paths can
    contain values of partition columns. `samples` are sample rows by the names of the audits.
    """
    asked_audits = tuple(
        AskedAudit(
            name=result.name,
            check=check_digest(audits[result.name]),
            text=str(result),
            measured=result.measured,
            rows=result.rows,
            before=result.before,
            reason=(_refusal_reason(approval, audits[result.name], result, now_ms) if approval else None) or "",
        )
        for result in results
        if is_undecided(result)
    )
    asked_names = {audit.name for audit in asked_audits}
    asked_samples = {name: tuple(texts) for name, texts in samples.items() if name in asked_names}
    shown_effect = "" if any(audit.samples == 0 for audit in audits.values()) else effect
    return AuditQuestion(audits=asked_audits, measured_at_ms=now_ms, effect=shown_effect, samples=asked_samples)


def _refusal_reason(approval: Approval, audit: Audit, result: AuditResult, now_ms: int) -> str | None:
    """Return the reason why the approval does not cover a result; None if it covers the result."""
    accepted = approval.find(audit.name)
    if accepted is None:
        return "the approval has no audit of this name"
    if accepted.check != check_digest(audit):
        return "the check or a limit of this audit changed, for example its as_of"
    measured, accepted_measured = _number(result.measured), _number(accepted.measured)
    if measured is None or accepted_measured is None:
        is_same = result.measured == accepted.measured and type(result.measured) is type(accepted.measured)
        return None if is_same else f"measured {result.measured}, accepted {accepted.measured}"
    if bool(_reference_row_count(audit, result)) != bool(_reference_row_count(audit, accepted)):
        return "only one of the two values was compared with a number of rows"
    tolerance = _tolerance(audit, result, accepted, measured, accepted_measured)
    waiting_hours = Fraction(max(now_ms - approval.measured_at_ms, 0), props.HOUR_MS) if audit.as_of == NOW else 0
    values = _badness(audit, result, measured, waiting_hours)
    accepted_values = _badness(audit, accepted, accepted_measured, 0)
    worse = [name for name, value in values.items() if value > accepted_values[name] + tolerance]
    if not worse:
        return None
    return f"{' and '.join(worse)} got worse: measured {_values_text(result)}, accepted {_values_text(accepted)}"


def _badness(
    audit: Audit, values: AuditResult | AskedAudit, measured: _Number, waiting_hours: _Number
) -> dict[str, _Number]:
    """Return numbers by name that grow as the measured values get worse.

    `waiting_hours` is the part of the age that passed since the question.
    """
    match audit.kind:
        case AuditKind.ROWS | AuditKind.UNIQUE | AuditKind.REFERENCES:
            rows = _reference_row_count(audit, values)
            share = _divided(measured, rows) if rows else _ZERO
            return {"the number of bad rows": measured, "their share": share}
        case AuditKind.FRESHNESS:
            return {"the age": measured - waiting_hours}
        case AuditKind.ROW_COUNT | AuditKind.AGGREGATE:
            minimum, maximum = _number(audit.min), _number(audit.max)
            distances = {
                "the distance below min": _ZERO if minimum is None else _above(-measured, -minimum),
                "the distance above max": _ZERO if maximum is None else _above(measured, maximum),
            }
            before = _reference_row_count(audit, values)
            if not before:
                return distances
            change = _divided(measured - before, before)
            max_change = _number(audit.max_change) or _ZERO
            return distances | {"the growth": _above(change, max_change), "the drop": _above(-change, max_change)}


def _reference_row_count(audit: Audit, values: AuditResult | AskedAudit) -> int | None:
    """Return the number of rows that a share or a change refers to; None if the audit has neither."""
    match audit.kind:
        case AuditKind.ROWS | AuditKind.UNIQUE | AuditKind.REFERENCES:
            return values.rows
        case _:
            return None if audit.max_change is None else values.before


def _tolerance(
    audit: Audit, result: AuditResult, accepted: AskedAudit, measured: _Number, accepted_measured: _Number
) -> _Number:
    """Return how much a number may grow without being worse.

    The sum of doubles depends on the order of the rows. An age is rounded to three digits after the point.
    """
    if audit.kind is AuditKind.FRESHNESS:
        return _ROUNDING_HOURS
    has_double = isinstance(result.measured, float) or isinstance(accepted.measured, float)
    if audit.kind is AuditKind.AGGREGATE and has_double and _is_finite(measured) and _is_finite(accepted_measured):
        return _RELATIVE_TOLERANCE * max(abs(measured), abs(accepted_measured))
    return _ZERO


def _number(value: object) -> _Number | None:
    """Return an exact number, or infinity. The result is None for a boolean, NaN and all other values."""
    if value in _INFINITIES and isinstance(value, str):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or (isinstance(value, float) and isnan(value)):
        return None
    return value if isinstance(value, float) and isinf(value) else Fraction(value)


def _above(value: _Number, limit: _Number) -> _Number:
    """Return how far a value is above a limit, at least zero. The limit is finite."""
    distance = value - limit if isinstance(value, Fraction) else value
    return distance if distance > 0 else _ZERO


def _is_finite(value: _Number) -> TypeGuard[Fraction]:
    return isinstance(value, Fraction)


def _divided(value: _Number, rows: int) -> _Number:
    return Fraction(value, rows) if isinstance(value, Fraction) else value


def _values_text(values: AuditResult | AskedAudit) -> str:
    of_rows = "" if values.rows is None else f" of {counted(values.rows, 'row')}"
    return f"{values.measured}{of_rows}{'' if values.before is None else f' (before: {values.before})'}"
