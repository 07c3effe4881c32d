"""The request of a restore task."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from deltalite.requests.audits import Audit, audit_list_faults, audits_of
from deltalite.requests.base import CommitRequest, Fault, faults_of_rerun_replace
from deltalite.requests.moments import version_faults
from deltalite.requests.quarantine import quarantine_level_faults


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRequest(CommitRequest):
    """A request to restore `table` to `version`, or to the newest version at `timestamp`.

    Exactly one of the two is set. `timestamp` is ISO 8601. A time without a time zone is read as UTC. `audits` examine
    the restored table before the commit.
    See `DeltaRestoreOperator` for the meaning of each parameter.
    """

    kind: ClassVar[str] = "restore"

    version: int | None = None
    timestamp: str | None = None
    ignore_missing_files: bool = False
    audits: tuple[Audit, ...] = ()

    def faults(self) -> Iterator[Fault]:
        """Yield the faults of the request, each with its remedy, the most important first."""
        yield from CommitRequest.faults(self)
        if self.version is None and self.timestamp is None:
            yield "The request names neither a version nor a time to restore.", "Give `version` or `timestamp`."
        yield from version_faults(self.version, self.timestamp)
        yield from faults_of_rerun_replace(
            self.identity,
            f"the operation is '{self.kind}'",
            "Use on_rerun='write' to restore again, or 'skip'.",
        )
        yield from audit_list_faults(self.audits, no_new_rows="a restore writes no new rows")
        yield from quarantine_level_faults(
            self.audits, "a restore brings back all rows of a version", ", 'warn' or 'ask'"
        )

    @classmethod
    def _convert_values(cls, body: dict[str, Any]) -> dict[str, Any]:
        body = super(RestoreRequest, cls)._convert_values(body)  # slots=True makes a new class, so plain super() fails
        body["audits"] = audits_of(body.get("audits", ()))
        return body
