"""The audits of a request: named checks of rows, each with thresholds.

An audit has exactly one kind, named by its key (`rows`, `unique`, `references`, `row_count`, `aggregate` or
`freshness`). Audits of an operation that changes rows run on the files of the commit, before the commit. The classes
here reject faults that do not depend on the table. The job checks the SQL against the table's columns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any

from deltalite.errors import InvalidRequestError
from deltalite.requests.base import Fault, convert_to_enum, repeated_name
from deltalite.requests.moments import parse_moment_ms

MAX_AUDITS, MAX_NAME_LENGTH = 100, 100
"""These limits bound the size of the results, which the commit stores."""
DEFAULT_SAMPLES, MAX_SAMPLES = 5, 20
NOW = "now"
"""The value of `as_of` that stands for the time of the audit."""
DEFAULT_MAX_REJECTED_SHARE = 0.5
"""The `max_share` of an audit of level `quarantine` without a limit, as for the bad records of a copy."""


class AuditKind(StrEnum):
    """The kinds of audits."""

    ROWS = "rows"
    UNIQUE = "unique"
    REFERENCES = "references"
    ROW_COUNT = "row_count"
    AGGREGATE = "aggregate"
    FRESHNESS = "freshness"


class AuditScope(StrEnum):
    """The rows that an audit examines: the new rows of the operation, or all rows of the table after it."""

    NEW_ROWS = "new_rows"
    TABLE = "table"


class AuditLevel(StrEnum):
    """The effect of an audit that does not pass."""

    FAIL = "fail"
    ASK = "ask"
    WARN = "warn"
    QUARANTINE = "quarantine"


# The keys that each kind allows, in addition to `name`, `on` and `level`.
_KEYS: Mapping[AuditKind, tuple[str, ...]] = {
    AuditKind.ROWS: ("max_rows", "max_share", "samples"),
    AuditKind.UNIQUE: ("max_rows", "max_share", "samples"),
    AuditKind.REFERENCES: ("max_rows", "max_share", "samples", "in_table", "version_as_of"),
    AuditKind.ROW_COUNT: ("min", "max", "max_change"),
    AuditKind.AGGREGATE: ("min", "max"),
    AuditKind.FRESHNESS: ("max_age_hours", "as_of"),
}
_THRESHOLDS = ("min", "max", "max_rows", "max_share", "max_change", "max_age_hours", "as_of")
_NUMBERS = ("min", "max", "max_share", "max_change", "max_age_hours")
_KINDS_ON_NEW_ROWS = frozenset({AuditKind.ROWS, AuditKind.REFERENCES, AuditKind.AGGREGATE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """One audit.

    - `rows`: SQL that is true for a bad row.
    - `unique`: columns of a key. A row is bad if another row has the same key. Keys with a NULL do not count.
    - `references`: columns of the table `in_table`, by the columns that refer to them. A row is bad if `in_table`, at
      `version_as_of` or its newest version, has no such row. Rows with a NULL do not count.
    - `row_count`: True for an audit of the number of rows.
    - `aggregate`: SQL with aggregate functions that returns a number, or a boolean that must be true.
    - `freshness`: a column of dates or timestamps. Its newest value must be at most `max_age_hours` before `as_of`.

    `max_rows` and `max_share` (a number from 0 to 1) limit the bad rows. Without both, no row may be bad. `min` and
    `max` limit a number.
    `max_change` limits the difference between the row counts before and after, as a share of the count before.
    `samples` is the number of bad rows that the log shows if the audit does not pass; 0 for none.

    An audit of level `quarantine` leaves its bad rows out of the commit. Its default limit is `max_share=0.5`. All
    audits with this default together may reject at most the same share.
    """

    name: str
    rows: str | None = None
    unique: tuple[str, ...] = ()
    references: Mapping[str, str] = field(default_factory=dict)
    in_table: str | None = None
    version_as_of: int | None = None
    row_count: bool = False
    aggregate: str | None = None
    freshness: str | None = None
    max_rows: int | None = None
    max_share: float | None = None
    min: float | None = None
    max: float | None = None
    max_change: float | None = None
    max_age_hours: float | None = None
    as_of: str | None = None
    samples: int | None = None
    on: AuditScope | None = None
    level: AuditLevel = AuditLevel.FAIL

    def __post_init__(self) -> None:
        if self.on is not None:
            convert_to_enum(self, "on", AuditScope)
        convert_to_enum(self, "level", AuditLevel)
        for name in _NUMBERS:
            number: object = getattr(self, name)
            if isinstance(number, Decimal):  # JSON has no decimals
                object.__setattr__(self, name, float(number))
        for problem, remedy in _faults(self):
            raise InvalidRequestError(problem, remedy=remedy)

    @property
    def kind(self) -> AuditKind:
        """The kind. A valid audit has exactly one."""
        return _kinds_of(self)[0]

    def scope(self, *, has_new_rows: bool) -> AuditScope:
        """Return the rows that the audit examines. By default, the kind decides.

        `has_new_rows` is False for an operation that adds no rows.
        """
        if self.on is not None:
            return self.on
        return AuditScope.NEW_ROWS if has_new_rows and self.kind in _KINDS_ON_NEW_ROWS else AuditScope.TABLE

    @property
    def sample_count(self) -> int:
        """The number of sample rows if the audit does not pass. Only audits of bad rows have samples."""
        if "samples" not in _KEYS[self.kind]:
            return 0
        return DEFAULT_SAMPLES if self.samples is None else self.samples

    @property
    def has_default_limit(self) -> bool:
        """Whether the limit is the default of the level `quarantine`, which also limits all such audits together."""
        return self.level is AuditLevel.QUARANTINE and self.max_rows is None and self.max_share is None

    @property
    def share_limit(self) -> float | None:
        """`max_share`, or its default; None without such a limit."""
        return DEFAULT_MAX_REJECTED_SHARE if self.has_default_limit else self.max_share

    @property
    def threshold(self) -> str:
        """The thresholds as a text, such as `max_rows=0`."""
        limits = {name: getattr(self, name) for name in _THRESHOLDS} | {"max_share": self.share_limit}
        values = {name: limit for name, limit in limits.items() if limit is not None}
        if not values and self.kind in (AuditKind.ROWS, AuditKind.UNIQUE, AuditKind.REFERENCES):
            values = {"max_rows": 0}
        return ", ".join(f"{name}={value}" for name, value in values.items()) or "true"


def audits_of(body: Collection[Mapping[str, Any]]) -> tuple[Audit, ...]:
    """Build the audits from a request's JSON."""
    return tuple(Audit(**{**values, "unique": tuple(values.get("unique") or ())}) for values in body)


def audit_list_faults(audits: Collection[Audit], *, no_new_rows: str | None = None) -> Iterator[Fault]:
    """Yield the faults of the audits of one request, each with its remedy.

    `no_new_rows` is the reason why the operation has no new rows, or None if it may have new rows.
    """
    if len(audits) > MAX_AUDITS:
        yield f"The request has {len(audits)} audits.", f"Give at most {MAX_AUDITS}."
    repeated = repeated_name(audit.name for audit in audits)
    if repeated is not None:
        yield f"Two audits have the name '{repeated}'.", "Give each audit another name."
    if no_new_rows is None:
        return
    for audit in audits:
        if audit.on is AuditScope.NEW_ROWS:
            yield (
                f"The audit '{audit.name}' examines the new rows, but {no_new_rows}.",
                "Leave `on` out, or set on='table'.",
            )


def _kinds_of(audit: Audit) -> list[AuditKind]:
    return [kind for kind in AuditKind if getattr(audit, kind) not in (None, False, ()) and getattr(audit, kind) != {}]


def _faults(audit: Audit) -> Iterator[Fault]:
    """Yield the faults of an audit, each with its remedy, the most important first."""
    if not audit.name.strip() or len(audit.name) > MAX_NAME_LENGTH or not audit.name.isprintable():
        yield (
            f"The name of an audit is {audit.name!r}.",
            f"Give a name of at most {MAX_NAME_LENGTH} characters in one line.",
        )
    kinds = _kinds_of(audit)
    if len(kinds) != 1:
        yield (
            f"The audit '{audit.name}' has {' and '.join(kinds) or 'no check'}.",
            f"Give exactly one of {', '.join(AuditKind)}.",
        )
        return
    kind = kinds[0]
    if audit.level is AuditLevel.QUARANTINE and kind is not AuditKind.ROWS:
        yield (
            f"The audit '{audit.name}' has the level 'quarantine', and {kind} does not tell good rows from bad ones.",
            "Write the check as `rows`, or set level='fail'.",
        )
        return
    for key in {key: None for keys in _KEYS.values() for key in keys}:
        if key not in _KEYS[kind] and getattr(audit, key) is not None:
            yield (
                f"The audit '{audit.name}' has the key {key}, which does not apply to {kind}.",
                f"Keys for {kind} are {', '.join(_KEYS[kind])}.",
            )
    if wrong_types := list(_type_faults(audit)):
        yield from wrong_types
        return
    yield from _range_faults(audit)
    yield from _FAULTS_OF_KIND[kind](audit)
    if audit.level is AuditLevel.QUARANTINE and audit.on is AuditScope.TABLE:
        yield (
            f"The audit '{audit.name}' has the level 'quarantine', which leaves out new rows, but on is 'table'.",
            "Leave `on` out, or set level='fail'.",
        )


def _sql_faults(audit: Audit) -> Iterator[Fault]:
    if not str(getattr(audit, audit.kind)).strip():
        yield f"{audit.kind} of the audit '{audit.name}' is empty.", "Give the SQL of the check."


def _key_faults(audit: Audit) -> Iterator[Fault]:
    repeated = repeated_name(audit.unique)
    if repeated is not None:
        yield f"unique of the audit '{audit.name}' names '{repeated}' twice.", "Name each column once."


def _row_count_faults(audit: Audit) -> Iterator[Fault]:
    if (audit.min, audit.max, audit.max_change) == (None, None, None):
        yield f"The audit '{audit.name}' has no limit.", "Give min, max or max_change."
    if audit.max_change is not None and audit.on is AuditScope.NEW_ROWS:
        yield (
            f"max_change of the audit '{audit.name}' compares two versions of the table, but on is 'new_rows'.",
            "Leave `on` out, or limit the new rows with min and max.",
        )


def _type_faults(audit: Audit) -> Iterator[Fault]:
    """Yield a fault for each parameter that must be a number, or a whole number, and is not."""
    for names, types, text in (
        (("max_rows", "samples", "version_as_of"), (int,), "a whole number"),
        (_NUMBERS, (int, float), "a number"),
    ):
        for name in names:
            value = getattr(audit, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, types)):
                yield f"{name} of the audit '{audit.name}' is {value!r}, which is not {text}.", f"Give {text}."


def _range_faults(audit: Audit) -> Iterator[Fault]:
    """Yield the faults of thresholds that are outside their ranges."""
    for name in ("max_rows", "max_change", "version_as_of"):
        value = getattr(audit, name)
        if value is not None and not value >= 0:
            yield f"{name} of the audit '{audit.name}' is {value}.", "Give 0 or more."
    if audit.samples is not None and not 0 <= audit.samples <= MAX_SAMPLES:
        yield f"samples of the audit '{audit.name}' is {audit.samples}.", f"Give a number from 0 to {MAX_SAMPLES}."
    if audit.max_share is not None and not 0 <= audit.max_share <= 1:
        yield f"max_share of the audit '{audit.name}' is {audit.max_share}.", "Give a number from 0 to 1."
    for name in ("min", "max"):
        value = getattr(audit, name)
        if value is not None and value != value:  # noqa: PLR0124  NaN
            yield f"{name} of the audit '{audit.name}' is NaN, which is no limit.", "Give a number."
    if audit.min is not None and audit.max is not None and not audit.min <= audit.max:
        yield f"min of the audit '{audit.name}' is {audit.min}, and max is {audit.max}.", "Give a max of at least min."


def _freshness_faults(audit: Audit) -> Iterator[Fault]:
    yield from _sql_faults(audit)
    if audit.max_age_hours is None or not audit.max_age_hours >= 0:
        yield (
            f"max_age_hours of the audit '{audit.name}' is {audit.max_age_hours}.",
            "Give the number of hours by which the newest value may be older than `as_of`.",
        )
    if audit.as_of is None:
        yield (
            f"The audit '{audit.name}' has no as_of, the time that the newest value is compared with.",
            "Give a time such as '{{ data_interval_end }}', which a rerun repeats, or 'now'.",
        )
    elif audit.as_of != NOW:
        try:
            parse_moment_ms(audit.as_of)
        except InvalidRequestError as error:
            yield f"as_of of the audit '{audit.name}': {error.problem}", error.remedy


def _reference_faults(audit: Audit) -> Iterator[Fault]:
    if not audit.in_table:
        yield f"The audit '{audit.name}' has no in_table.", "Give the address of the Delta table that it refers to."
    if not all(name.strip() and other.strip() for name, other in audit.references.items()):
        yield f"references of the audit '{audit.name}' has an empty name.", "Give names of columns."


_FAULTS_OF_KIND: Mapping[AuditKind, Callable[[Audit], Iterator[Fault]]] = {
    AuditKind.ROWS: _sql_faults,
    AuditKind.UNIQUE: _key_faults,
    AuditKind.REFERENCES: _reference_faults,
    AuditKind.ROW_COUNT: _row_count_faults,
    AuditKind.AGGREGATE: _sql_faults,
    AuditKind.FRESHNESS: _freshness_faults,
}
