"""The request of a check task."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from deltalite.errors import InvalidRequestError
from deltalite.requests.audits import Audit, AuditLevel, audit_list_faults, audits_of
from deltalite.requests.base import Fault, Request
from deltalite.requests.moments import version_faults
from deltalite.requests.quarantine import quarantine_level_faults


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRequest(Request):
    """A request to run `audits` on a version of `table`. The job does not change the table.

    The version is `version`, the newest version at `timestamp` (ISO 8601), or else the newest version. A time without a
    time zone is read as UTC.
    """

    kind: ClassVar[str] = "check"

    audits: tuple[Audit, ...]
    version: int | None = None
    timestamp: str | None = None

    def __post_init__(self) -> None:
        Request.__post_init__(self)
        for problem, remedy in self.faults():
            raise InvalidRequestError(problem, remedy=remedy)

    def faults(self) -> Iterator[Fault]:
        """Yield the faults of the request, each with its remedy, the most important first."""
        if not self.audits:
            yield "The check has no audit.", "Give at least one audit."
        yield from version_faults(self.version, self.timestamp)
        for audit in self.audits:
            if audit.level is AuditLevel.ASK:
                yield (
                    f"The audit '{audit.name}' has the level 'ask', but a check publishes no rows.",
                    "Give the level to an audit of the task that writes, or choose 'fail' or 'warn'.",
                )
        yield from audit_list_faults(self.audits, no_new_rows="a version that exists has no new rows")
        yield from quarantine_level_faults(self.audits, "a check changes no row", " or 'warn'")

    @classmethod
    def _convert_values(cls, body: dict[str, Any]) -> dict[str, Any]:
        body["audits"] = audits_of(body.get("audits", ()))
        return body
