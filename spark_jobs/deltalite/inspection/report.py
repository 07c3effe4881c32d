"""The report of a verification: the number of checked objects, the findings, and the readable versions."""

from __future__ import annotations

from dataclasses import dataclass

from deltalite.inspection.findings import Finding, FindingKind, Severity
from deltalite.inspection.versions import Range


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedCounts:
    """The number of checked objects of each kind.

    `files` and `bytes` are the number and the total size of the checked data files, according to the log. `footers` and
    `deletion_vectors` count the opened footers and deletion vectors.
    """

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

    - `rebuildable`: the versions that the log can rebuild.
    - `readable`: the rebuildable versions whose checked files are all readable.
    - `findings`: the first `MAX_FINDINGS_OF_A_KIND` findings of each kind.
    - `counts`: the number of all findings of each kind, even if `findings` lacks some of them.
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
