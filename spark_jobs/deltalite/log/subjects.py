"""The subjects of actions. Of all actions about one subject, the newest action applies.

Adds and removes of one file have the same subject, and so have all metadata actions. A log compaction is reconciled, so
it names each subject once. A compaction that names a subject twice is invalid, because the order of its lines does not
tell which action is newer. Protocol: Action Reconciliation, Log Compaction Files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deltalite.errors import CorruptLogError
from deltalite.log.file_table import file_key
from deltalite.protocol.actions import AddFile, DomainMetadata, Metadata, Protocol, RemoveFile, SetTransaction

RECONCILED_KINDS = (
    Protocol.action,
    Metadata.action,
    SetTransaction.action,
    DomainMetadata.action,
    AddFile.action,
    RemoveFile.action,
)
"""The kinds of action that are part of a version's state."""


def subject_of(kind: str, body: Mapping[str, Any]) -> tuple[str, str]:
    """Return the subject of an action of one of `RECONCILED_KINDS`."""
    match kind:
        case AddFile.action | RemoveFile.action:
            return "file", file_key(body["path"], body.get("deletionVector"))
        case SetTransaction.action:
            return kind, str(body.get("appId"))
        case DomainMetadata.action:
            return kind, str(body.get("domain"))
        case _:
            return kind, ""


class DuplicateCheck:
    """A check that a compaction names each subject once; `name` is the file of the compaction."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._files: set[str] = set()
        self._subjects: set[tuple[str, str]] = set()

    def take_file(self, key: str) -> None:
        """Record an add or remove by its `file_key`.

        Raises:
            CorruptLogError: the action is the second one of its file.
        """
        if key in self._files:
            self._reject(f"the file {key!r:.200}")
        self._files.add(key)

    def take(self, kind: str, body: Mapping[str, Any]) -> None:
        """Record an action other than an add or remove. A kind that is not in `RECONCILED_KINDS` is ignored.

        Raises:
            CorruptLogError: the action is the second one of its subject.
        """
        if kind in RECONCILED_KINDS:
            subject = subject_of(kind, body)
            if subject in self._subjects:
                self._reject(f"the {kind} {subject[1]!r:.200}" if subject[1] else f"the {kind}")
            self._subjects.add(subject)

    def _reject(self, subject: str) -> None:
        raise CorruptLogError(
            f"Could not use the log compaction {self._name}: it names {subject} twice, so it was never reconciled.",
            remedy="Delete the compaction if its commits are still there; otherwise restore them from a backup.",
        )
