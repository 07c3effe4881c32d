"""The verdicts of audits, and their form in the commit. Pure functions.

A commit stores the results of its audits as the operation parameter `AUDITS`, so that a retry returns them. A request
has at most `MAX_AUDITS` audits with short names, so the parameter has at most some tens of kilobytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from deltalite.protocol import properties as props
from deltalite.requests import Audit, AuditKind, AuditLevel, AuditScope
from deltalite.requests.audits import NOW
from deltalite.requests.moments import parse_moment_ms
from deltalite.results import AuditResult

AUDITS = "audits"
"""The operation parameter with the results of the audits of a commit, as JSON text."""
_AGE_DIGITS = 3
Number = bool | int | float | Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A measured value.

    - `value`: the number of bad rows, the number of rows, the value of the aggregate, or the newest time in
      milliseconds UTC; None if there is no value.
    - `rows`: the number of rows in the scope, if it was counted.
    - `before`: the number of rows of the previous version, if it was counted; None without a previous version.
    - `version`: the version of the other table that was read, if any.
    - `error`: the reason why the SQL of the audit fails for a row, if it fails.
    """

    value: Number | None
    rows: int | None = None
    before: int | None = None
    version: int | None = None
    error: str | None = None


def audit_result(audit: Audit, scope: AuditScope, measurement: Measurement, *, now_ms: int) -> AuditResult:
    """Compare a measurement with the thresholds of its audit, and return the result."""
    value = _age_hours(audit, measurement.value, now_ms) if audit.kind is AuditKind.FRESHNESS else measurement.value
    return AuditResult(
        name=audit.name,
        kind=audit.kind.value,
        on=scope.value,
        level=audit.level.value,
        passed=_passes(audit, value, measurement),
        measured=_json_number(value),
        threshold=audit.threshold,
        rows=measurement.rows,
        before=measurement.before,
        version=measurement.version,
        error=measurement.error,
    )


def _passes(audit: Audit, value: Number | None, measurement: Measurement) -> bool:
    """Whether a measured value is within the limits. A missing value is not."""
    if value is None:
        return False
    match audit.kind:
        case AuditKind.ROWS | AuditKind.UNIQUE | AuditKind.REFERENCES:
            return _allows_bad_rows(audit, int(value), measurement.rows or 0)
        case AuditKind.ROW_COUNT:
            return _is_in_range(audit, value) and _is_small_change(audit, int(value), measurement.before)
        case AuditKind.AGGREGATE:
            return value if isinstance(value, bool) else _is_in_range(audit, value)
        case AuditKind.FRESHNESS:
            return audit.max_age_hours is not None and value <= audit.max_age_hours


def _allows_bad_rows(audit: Audit, bad_rows: int, rows: int) -> bool:
    max_share = audit.share_limit
    has_no_limit = audit.max_rows is None and max_share is None
    max_rows = 0 if has_no_limit else audit.max_rows
    is_few = max_rows is None or bad_rows <= max_rows
    return is_few and (max_share is None or not bad_rows or bad_rows <= _decimal(max_share) * rows)


def _is_in_range(audit: Audit, value: Number) -> bool:
    """Whether `value` is within `min` and `max`. NaN is within no limit."""
    if value != value:  # noqa: PLR0124  a decimal cannot be compared with NaN
        return False
    number = _decimal(value)
    return (audit.min is None or number >= _decimal(audit.min)) and (audit.max is None or number <= _decimal(audit.max))


def _decimal(number: Number) -> Decimal:
    """Return the number as people write it, so that a limit of 0.29 allows 29 of 100 rows.

    The binary value of 0.29 is a little less.
    """
    return number if isinstance(number, Decimal) else Decimal(str(number))


def _is_small_change(audit: Audit, rows: int, before: int | None) -> bool:
    """Whether the row count changed by at most `max_change`. True if no rows existed before."""
    return audit.max_change is None or not before or abs(rows - before) <= (_decimal(audit.max_change) * before)


def _age_hours(audit: Audit, newest_ms: Number | None, now_ms: int) -> float | None:
    """Return the hours between the newest value and the audit's `as_of` (by default now); None without a value."""
    if newest_ms is None:
        return None
    as_of_ms = now_ms if audit.as_of in (None, NOW) else parse_moment_ms(audit.as_of or NOW)
    return round((as_of_ms - int(newest_ms)) / props.HOUR_MS, _AGE_DIGITS)


def _json_number(value: Number | None) -> bool | int | float | str | None:
    """Return the value as JSON stores it: a decimal as a number, and NaN and infinity as texts."""
    if isinstance(value, Decimal):
        value = int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def failed_audits(results: Iterable[AuditResult]) -> list[AuditResult]:
    """Return the audits that refuse a commit: those of the levels `fail` and `quarantine` that did not pass.

    An audit of level `ask` counts too if its SQL fails, because a person then has no value to accept.
    """
    return [
        result
        for result in results
        if not result.passed
        and (
            result.level in (AuditLevel.FAIL, AuditLevel.QUARANTINE)
            or (result.level == AuditLevel.ASK and result.error is not None)
        )
    ]


def audits_parameter(results: Iterable[AuditResult]) -> str:
    """Return the value of the operation parameter `AUDITS`."""
    return json.dumps([result.as_dict() for result in results])


def audit_results_of(parameters: Any) -> tuple[AuditResult, ...]:
    """Return the results of the audits of a commit, from the operation parameters of the commit.

    The result is empty if the parameters have no valid value for `AUDITS`.
    """
    text = parameters.get(AUDITS) if isinstance(parameters, Mapping) else None
    try:
        return tuple(map(AuditResult.from_dict, json.loads(text))) if isinstance(text, str) else ()
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return ()
