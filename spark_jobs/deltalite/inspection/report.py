"""The report of a verification: the number of checked objects, the findings, and the readable versions."""

from __future__ import annotations

from dataclasses import dataclass

from deltalite.inspection.findings import Finding, FindingKind, Severity
from deltalite.inspection.versions import Range


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedCounts:
    """The number of checked objects of each kind; `bytes` is the size of the checked data files."""

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
    """The result of a verification.

    `rebuildable` are the versions that the log can rebuild. `readable` are the rebuildable versions with readable data
    files. `counts` is the number of findings of each kind. `findings` contains the first `MAX_FINDINGS_OF_A_KIND`
    findings of each kind.
    """

    root: str
    newest_version: int
    rebuildable: tuple[Range, ...]
    readable: tuple[Range, ...]
    findings: tuple[Finding, ...]
    counts: dict[FindingKind, int]
    checked: CheckedCounts

    @property
    def has_errors(self) -> bool:
        """Whether any finding is an error."""
        return self.count(Severity.ERROR) > 0

    def count(self, severity: Severity) -> int:
        """Return the number of findings of a severity."""
        return sum(count for kind, count in self.counts.items() if kind.severity is severity)
