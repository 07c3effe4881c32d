"""What verifying a table comes to: how much was looked at, what was found, and which versions can be read."""

from __future__ import annotations

from dataclasses import dataclass

from deltalite.inspection.findings import Finding, FindingKind, Severity
from deltalite.inspection.versions import Range


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """How much was looked at."""

    commits: int
    checkpoints: int
    compactions: int
    checksums: int
    files: int
    bytes: int
    footers: int
    deletion_vectors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """What was found. `rebuildable` are the versions that the log leads to, `readable` those whose files are there too.

    `counts` says how many findings there are of each kind, of which `findings` has the first `MOST_OF_A_KIND`.
    """

    root: str
    newest_version: int
    rebuildable: tuple[Range, ...]
    readable: tuple[Range, ...]
    findings: tuple[Finding, ...]
    counts: dict[FindingKind, int]
    checked: Checked

    @property
    def has_errors(self) -> bool:
        """Whether any finding is an error."""
        return self.count(Severity.ERROR) > 0

    def count(self, severity: Severity) -> int:
        """How many findings are that grave."""
        return sum(count for kind, count in self.counts.items() if kind.severity is severity)
