"""The listing of the log: commits, complete checkpoints, compactions and version checksums.

The name of a file tells its kind. Incomplete multi-part checkpoints and empty files other than commits come from killed
writers, and are ignored. The newest commit is ignored too while it is empty, because some storages show the name of a
file before its content. Any other empty commit counts as a commit without actions. A version may have several
checkpoints with the same content; `CheckpointFiles.preference` orders them as delta-spark does. This module opens no
files. Protocol: Checkpoints, Log Compaction Files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from deltalite.protocol.file_names import LogFileKind, LogFileName, first_name_of, parse_log_name
from deltalite.storage.log_store import LogStore, StoredFile


class CheckpointKind(IntEnum):
    """The naming scheme of a checkpoint; a greater kind is preferred. A classic checkpoint may have V2 content."""

    CLASSIC = 0
    MULTI_PART = 1
    UUID_NAMED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFiles:
    """A complete checkpoint: the names of its main files, with parts in order. The main files name the sidecars."""

    version: int
    kind: CheckpointKind = CheckpointKind.CLASSIC
    names: tuple[str, ...]

    @property
    def parts(self) -> int | None:
        """The number of parts of a multi-part checkpoint, None for another kind."""
        return len(self.names) if self.kind is CheckpointKind.MULTI_PART else None

    @property
    def preference(self) -> tuple[int, int, int, tuple[str, ...]]:
        """The sort key, with the best checkpoint last: by version, kind, number of parts, and names."""
        return self.version, self.kind, len(self.names), self.names

    def is_among(self, names: frozenset[str]) -> bool:
        """Whether a main file of the checkpoint is among `names`."""
        return not names.isdisjoint(self.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """A commit, or a compaction of the commits `first_version` to `last_version` (both inclusive)."""

    first_version: int
    last_version: int
    file: StoredFile

    @property
    def is_compaction(self) -> bool:
        """Whether the entry replaces several commits, and therefore has no provenance."""
        return self.last_version > self.first_version


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The log files from some version on, by kind. Compactions are in no particular order."""

    commits: Mapping[int, StoredFile]
    checkpoints: tuple[CheckpointFiles, ...]
    compactions: tuple[LogEntry, ...]
    checksums: Mapping[int, StoredFile]

    @property
    def newest_version(self) -> int:
        """The newest version of any commit, checkpoint or compaction, or -1. Checksums do not count."""
        return max(
            (
                *self.commits,
                *(checkpoint.version for checkpoint in self.checkpoints),
                *(compaction.last_version for compaction in self.compactions),
            ),
            default=-1,
        )


def list_log(store: LogStore, from_version: int) -> Listing:
    """List the log files from a version on, with one listing."""
    commits: dict[int, StoredFile] = {}
    checksums: dict[int, StoredFile] = {}
    checkpoints: list[CheckpointFiles] = []
    compactions: list[LogEntry] = []
    parts: dict[tuple[int, int], dict[int, str]] = {}
    for stored in store.list_from(first_name_of(from_version)):
        parsed = parse_log_name(stored.name)
        if parsed is None:
            continue
        version = parsed.version
        match parsed.kind:
            case LogFileKind.COMMIT:
                commits[version] = stored
            case _ if stored.size_bytes == 0:  # a killed writer left the empty file
                pass
            case LogFileKind.CLASSIC_CHECKPOINT:
                checkpoints.append(_checkpoint(version, CheckpointKind.CLASSIC, stored.name))
            case LogFileKind.UUID_CHECKPOINT:
                checkpoints.append(_checkpoint(version, CheckpointKind.UUID_NAMED, stored.name))
            case LogFileKind.MULTI_PART_CHECKPOINT:
                _collect_part(parts, parsed)
            case LogFileKind.COMPACTION:
                compactions += _compaction(parsed, stored)
            case LogFileKind.CHECKSUM:
                checksums[version] = stored
    checkpoints += [
        _checkpoint(version, CheckpointKind.MULTI_PART, *(names[part] for part in sorted(names)))
        for (version, count), names in parts.items()
        if len(names) == count
    ]
    return Listing(
        commits=_without_empty_newest(commits),
        checkpoints=tuple(checkpoints),
        compactions=tuple(compactions),
        checksums=checksums,
    )


def _without_empty_newest(commits: Mapping[int, StoredFile]) -> Mapping[int, StoredFile]:
    """Return all commits, except the newest one if it is empty."""
    newest = max(commits, default=-1)
    if newest < 0 or commits[newest].size_bytes:
        return commits
    return {version: commit for version, commit in commits.items() if version != newest}


def _checkpoint(version: int, kind: CheckpointKind, *names: str) -> CheckpointFiles:
    return CheckpointFiles(version=version, kind=kind, names=names)


def _compaction(parsed: LogFileName, stored: StoredFile) -> list[LogEntry]:
    """Return the compaction, or nothing if its range is a single version or runs backwards."""
    last = parsed.last_version
    if last is None or last <= parsed.version:
        return []
    return [LogEntry(first_version=parsed.version, last_version=last, file=stored)]


def _collect_part(parts: dict[tuple[int, int], dict[int, str]], parsed: LogFileName) -> None:
    """Collect a part of a multi-part checkpoint. Checkpoints with different numbers of parts are kept separate."""
    part, count = parsed.part, parsed.parts
    if part is not None and count is not None and 1 <= part <= count:
        parts.setdefault((parsed.version, count), {})[part] = parsed.name
