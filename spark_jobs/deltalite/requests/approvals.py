"""The question of a job to a person about its audits, and the approval with which the job runs again.

1. If only audits of level `ask` refuse the rows, the job commits nothing and prints an `AuditQuestion`.
2. A person reads the question and decides.
3. After an approval the job runs again. Its request has the `Approval`, which names the values that the person saw.

A question has sample rows of the table. An approval has none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from deltalite.requests.audits import Audit
    from deltalite.requests.base import RunIdentity

_DIGEST_DIGITS, _CODE_DIGITS = 16, 8
_UNCHECKED_FIELDS = frozenset({"name", "level", "samples"})
Measured = bool | int | float | str | None


def check_digest(audit: Audit) -> str:
    """Return a digest of the check and the limits of an audit. An approval counts only for the same check."""
    check = {item.name: getattr(audit, item.name) for item in fields(audit) if item.name not in _UNCHECKED_FIELDS}
    return hashlib.sha256(json.dumps(check, sort_keys=True).encode()).hexdigest()[:_DIGEST_DIGITS]


def request_parts(table: str, identity: RunIdentity | None, audits: Iterable[Audit]) -> dict[str, str]:
    """Return the parts of a request that an approval belongs to: its table, and digests of its other parts."""
    parts = {"table": table}
    if identity is not None:
        parts |= {f"parameter {name}": digest for name, digest in identity.parameter_digests.items()}
        parts["request"] = identity.request_digest or ""
    return parts | {f"audit '{audit.name}'": f"{audit.level}-{check_digest(audit)}" for audit in audits}


def different_parts(parts: Mapping[str, str], other_parts: Mapping[str, str]) -> list[str]:
    """Return the names of the parts that differ in two requests; `request` only if no other part differs."""
    names = [name for name in {**parts, **other_parts} if parts.get(name) != other_parts.get(name)]
    return [name for name in names if name != "request"] or names


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedAudit:
    """An audit of level `ask` that did not pass, with the values that a person decides on.

    - `check`: the digest of its check and its limits, from `check_digest`.
    - `text`: its result as a text.
    - `measured`, `rows`, `before`: as in `AuditResult`.
    - `reason`: why an earlier approval does not cover the values; empty without an approval.
    """

    name: str
    check: str
    text: str
    measured: Measured = None
    rows: int | None = None
    before: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditQuestion:
    """The question whether to publish rows that audits of level `ask` refuse.

    - `audits`: the audits that a person decides on.
    - `measured_at_ms`: the time of the measurement, in milliseconds UTC.
    - `effect`: a text about the uncommitted files, whose paths can contain values of partition columns.
    - `samples`: sample rows as JSON texts, by the names of the audits.
    - `request`: the parts of the request that wrote the rows, from `request_parts`.
    """

    audits: tuple[AskedAudit, ...]
    measured_at_ms: int
    effect: str = ""
    request: Mapping[str, str] = field(default_factory=dict)
    samples: Mapping[str, tuple[str, ...]]

    @property
    def code(self) -> str:
        """A short text that differs if an audit, a measured value or the request differs. It begins with a letter."""
        values = [[audit.name, audit.check, audit.measured, audit.rows, audit.before] for audit in self.audits]
        text = json.dumps([values, self.request], sort_keys=True)
        return "q" + hashlib.sha256(text.encode()).hexdigest()[:_CODE_DIGITS]

    @property
    def without_samples(self) -> Self:
        """The question without sample rows, as Airflow stores it while the task waits."""
        return replace(self, samples={})

    def with_texts(self, convert: Callable[[str], str]) -> Self:
        """Return the question with converted texts and samples, such as texts without secrets."""
        return replace(
            self,
            audits=tuple(
                replace(audit, text=convert(audit.text), reason=convert(audit.reason)) for audit in self.audits
            ),
            effect=convert(self.effect),
            samples={name: tuple(map(convert, texts)) for name, texts in self.samples.items()},
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        samples = {name: list(texts) for name, texts in self.samples.items()}
        return {**asdict(self), "audits": list(map(asdict, self.audits)), "samples": samples}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the question from the values that `as_dict` returned.

        Raises:
            ValueError, TypeError, KeyError: the values have another shape.
        """
        audits = _asked_audits(values["audits"])
        samples = {str(name): tuple(map(str, texts)) for name, texts in dict(values["samples"]).items()}
        measured_at_ms = int(values["measured_at_ms"])
        request = {str(name): str(part) for name, part in dict(values["request"]).items()}
        return cls(
            audits=audits,
            measured_at_ms=measured_at_ms,
            effect=str(values["effect"]),
            samples=samples,
            request=request,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """The decision of a person to publish rows that audits of level `ask` refuse.

    - `audits`: the audits with the values that the person saw.
    - `measured_at_ms`: the time of the measurement, in milliseconds UTC.
    - `accepted_by`: the name of the person.
    - `accepted_at`: the time of the decision, in ISO 8601.
    - `request`: the parts of the request in the question, from `request_parts`.
    """

    audits: tuple[AskedAudit, ...]
    measured_at_ms: int
    accepted_by: str
    accepted_at: str
    request: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {**asdict(self), "audits": list(map(asdict, self.audits))}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the approval from the values that `as_dict` returned.

        Raises:
            ValueError, TypeError, KeyError: the values have another shape.
        """
        return cls(**{**values, "audits": _asked_audits(values["audits"])})

    def find(self, name: str) -> AskedAudit | None:
        """Return the accepted audit with this name, or None."""
        return next((audit for audit in self.audits if audit.name == name), None)


def _asked_audits(values: Any) -> tuple[AskedAudit, ...]:
    audits = tuple(AskedAudit(**audit) for audit in values)
    for audit in audits:
        if not all(isinstance(text, str) for text in (audit.name, audit.check, audit.text, audit.reason)):
            raise TypeError(audit)
    return audits
