"""The findings of a verification: kinds, severities and messages.

An error makes a version unreadable, or makes a reader that follows the protocol return wrong rows. A warning does not
affect the rows that readers return. A missing file that only older versions need is not a finding, because VACUUM
deletes such files; the report lists the readable versions. The names of kinds are a stable interface.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from deltalite.inspection.versions import Range

MAX_FINDINGS_OF_A_KIND = 1_000
"""The maximum number of findings of one kind in memory; all further findings are only counted."""


class Severity(StrEnum):
    """The severity of a finding."""

    ERROR = "error"
    WARNING = "warning"


class FindingKind(StrEnum):
    """The kind of a finding. Findings name files as in the log, relative to the table."""

    MISSING_COMMIT = "missing-commit"
    """Commits between the oldest and the newest are missing."""
    UNREADABLE_COMMIT = "unreadable-commit"
    """A commit is not a list of valid actions."""
    UNREADABLE_VERSION = "unreadable-version"
    """The log cannot rebuild any version, or it can rebuild an older version but not this version."""
    UNREADABLE_CHECKPOINT = "unreadable-checkpoint"
    """A checkpoint, or a sidecar of it, is missing or damaged; readers use another checkpoint or the commits."""
    CHECKPOINT_DIFFERS = "checkpoint-differs"
    """A checkpoint differs from the commits before it."""
    COMPACTION_DIFFERS = "compaction-differs"
    """A log compaction differs from its commits, or cannot be read."""
    UNREADABLE_CHECKSUM = "unreadable-checksum"
    """A version checksum is not valid by the protocol; readers ignore it."""
    CHECKSUM_DIFFERS = "checksum-differs"
    """A version checksum differs from the log."""
    LAST_CHECKPOINT = "last-checkpoint"
    """`_last_checkpoint` cannot be read, or names a missing checkpoint; readers list the log instead."""
    COMMIT_TIME = "commit-time"
    """A commit lacks its in-commit timestamp, or the timestamp is not after the previous commit's."""
    MISSING_FILE = "missing-file"
    """A data file of the newest version is missing."""
    UNREADABLE_FILE = "unreadable-file"
    """A data file is not valid Parquet, or does not fit the schema."""
    WRONG_SIZE = "wrong-size"
    """The size of a data file differs from the log."""
    WRONG_STATISTICS = "wrong-statistics"
    """The statistics of a data file contradict its footer, so data skipping may lose rows, or counts are wrong."""
    WRONG_PARTITION_VALUE = "wrong-partition-value"
    """A partition value is missing, or does not have the type of its column."""
    BAD_DELETION_VECTOR = "bad-deletion-vector"
    """A deletion vector is missing, damaged, or removes rows that its file does not contain."""
    WRONG_ROW_IDS = "wrong-row-ids"
    """With row tracking, files of the newest version share row ids, lack them, or have ids that were never assigned."""
    UNCHECKED_FILES = "unchecked-files"
    """Files were not checked, because their storage or folder is not accessible, or their types are unknown."""

    @property
    def severity(self) -> Severity:
        """The severity of all findings of this kind."""
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
    """One finding: its kind, a message, and the affected file and versions."""

    kind: FindingKind
    message: str
    file: str | None = None
    versions: tuple[Range, ...] = ()


class Findings:
    """A collection of findings in bounded memory: the first ones of each kind, and the count of each kind."""

    def __init__(self) -> None:
        self.stored: list[Finding] = []
        self.counts: Counter[FindingKind] = Counter()

    def add(self, finding: Finding) -> None:
        """Count a finding, and store it if there are at most `MAX_FINDINGS_OF_A_KIND` of its kind."""
        self.counts[finding.kind] += 1
        if self.counts[finding.kind] <= MAX_FINDINGS_OF_A_KIND:
            self.stored.append(finding)
