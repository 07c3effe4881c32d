"""What is wrong with a table, as values: kinds of findings, each with how grave it is.

An error is what makes a version unreadable, or read wrongly by a reader that keeps to the protocol; a warning is what
readers get along with. A file that is gone and that only older versions need is neither: VACUUM took it, and the report
says which versions can still be read. The names of kinds are a stable interface.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from deltalite.inspection.versions import Range

MOST_OF_A_KIND = 1_000
"""So many findings of one kind are kept in full; the rest is counted."""


class Severity(StrEnum):
    """How grave a finding is."""

    ERROR = "error"
    WARNING = "warning"


class FindingKind(StrEnum):
    """What is wrong. Files are called as in the log, relative to the table."""

    MISSING_COMMIT = "missing-commit"
    """Commits between the oldest and the newest are not there."""
    UNREADABLE_COMMIT = "unreadable-commit"
    """A commit is no list of actions as the protocol has them."""
    UNREADABLE_VERSION = "unreadable-version"
    """The newest version, or one between versions that can be read, cannot be rebuilt from the log."""
    UNREADABLE_CHECKPOINT = "unreadable-checkpoint"
    """A checkpoint, or a sidecar of it, is missing or damaged; readers fall back to others or to the commits."""
    CHECKPOINT_DIFFERS = "checkpoint-differs"
    """A checkpoint says something else than the commits that lead to it."""
    COMPACTION_DIFFERS = "compaction-differs"
    """A log compaction says something else than its commits, or cannot be read."""
    UNREADABLE_CHECKSUM = "unreadable-checksum"
    """A version checksum is not as the protocol has it; readers pass over it."""
    CHECKSUM_DIFFERS = "checksum-differs"
    """A version checksum says something else of the version than the log."""
    LAST_CHECKPOINT = "last-checkpoint"
    """`_last_checkpoint` cannot be read, or names a checkpoint that is not there; readers list the log instead."""
    COMMIT_TIME = "commit-time"
    """A commit does not carry the time that it should, or one that is not after the one before."""
    MISSING_FILE = "missing-file"
    """A data file of the newest version is not there."""
    UNREADABLE_FILE = "unreadable-file"
    """A data file is no Parquet, or does not fit the schema."""
    WRONG_SIZE = "wrong-size"
    """A data file has another size than the log says."""
    WRONG_STATISTICS = "wrong-statistics"
    """The statistics of a data file contradict its footer: data skipping loses rows, or counts are wrong."""
    WRONG_PARTITION_VALUE = "wrong-partition-value"
    """A partition value is missing, or none of its column's type."""
    BAD_DELETION_VECTOR = "bad-deletion-vector"
    """A deletion vector is missing, damaged, or marks rows that its file does not have."""
    UNCHECKED_FILES = "unchecked-files"
    """Files are on a storage, or in a folder, that cannot be looked into from here."""

    @property
    def severity(self) -> Severity:
        """How grave it is."""
        return Severity.WARNING if self in _WARNINGS else Severity.ERROR


_WARNINGS = frozenset(
    {
        FindingKind.UNREADABLE_CHECKPOINT,
        FindingKind.UNREADABLE_CHECKSUM,
        FindingKind.LAST_CHECKPOINT,
        FindingKind.UNCHECKED_FILES,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong: its kind, the file it is about, what it is, and the versions that it concerns."""

    kind: FindingKind
    message: str
    file: str | None = None
    versions: tuple[Range, ...] = ()


class Findings:
    """What was found so far, bounded in memory."""

    def __init__(self) -> None:
        self.kept: list[Finding] = []
        self.counts: Counter[FindingKind] = Counter()

    def add(self, finding: Finding) -> None:
        """Take over a finding."""
        self.counts[finding.kind] += 1
        if self.counts[finding.kind] <= MOST_OF_A_KIND:
            self.kept.append(finding)
