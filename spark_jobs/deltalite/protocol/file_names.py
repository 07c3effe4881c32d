"""The names of the files in `_delta_log/`, and their parser.

Names are relative to the table's root and use `/`. The parser returns None for a name that matches no rule, such as
a temporary file or a future kind of file. Such a name is never an error.
Protocol: Delta Log Entries, Checkpoints, Sidecar Files, Log Compaction Files, Version Checksum File.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from deltalite.protocol.paths import decode_path

LOG_DIR = "_delta_log"
SIDECAR_DIR = f"{LOG_DIR}/_sidecars"
# Engines ignore this folder. Its file names must not begin with a version: a recursive listing, such as that of
# delta-rs on object stores, could show them as commits.
LOADED_FILES_DIR = f"{LOG_DIR}/_deltalite_copy"
LAST_CHECKPOINT = f"{LOG_DIR}/_last_checkpoint"
# This file of delta-spark holds the version up to which a vacuum deleted files. It is not in the protocol.
LAST_VACUUM = f"{LOG_DIR}/_last_vacuum_info"
# This library writes files here before it moves them to their final folder.
STAGING_DIR = "_deltalite_staging"
# This folder of delta-spark holds lists of files for engines with SymlinkTextInputFormat. It is not in the protocol.
MANIFEST_DIR = "_symlink_format_manifest"


class LogFileKind(StrEnum):
    """The kind of a log file."""

    COMMIT = "commit"
    CLASSIC_CHECKPOINT = "classic checkpoint"
    MULTI_PART_CHECKPOINT = "multi-part checkpoint"
    UUID_CHECKPOINT = "uuid-named checkpoint"
    COMPACTION = "log compaction"
    CHECKSUM = "version checksum"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFileName:
    """A parsed name.

    `part` and `parts` are set for multi-part checkpoints: the number of the part, from 1 on, and the number of parts. A
    compaction covers `version` to `last_version`, both inclusive.
    """

    name: str
    kind: LogFileKind
    version: int
    last_version: int | None = None
    part: int | None = None
    parts: int | None = None


# 00000000000000000010.json, ...10.crc, ...10.checkpoint.parquet
# 00000000000000000010.checkpoint.0000000001.0000000003.parquet
# 00000000000000000010.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.parquet (or .json)
# 00000000000000000004.00000000000000000006.compacted.json
_PATTERNS = (
    (LogFileKind.COMMIT, re.compile(r"(?P<version>\d{20})\.json")),
    (LogFileKind.CLASSIC_CHECKPOINT, re.compile(r"(?P<version>\d{20})\.checkpoint\.parquet")),
    (
        LogFileKind.MULTI_PART_CHECKPOINT,
        re.compile(r"(?P<version>\d{20})\.checkpoint\.(?P<part>\d{10})\.(?P<parts>\d{10})\.parquet"),
    ),
    (LogFileKind.UUID_CHECKPOINT, re.compile(r"(?P<version>\d{20})\.checkpoint\.[0-9a-fA-F-]{36}\.(?:json|parquet)")),
    (LogFileKind.COMPACTION, re.compile(r"(?P<version>\d{20})\.(?P<last>\d{20})\.compacted\.json")),
    (LogFileKind.CHECKSUM, re.compile(r"(?P<version>\d{20})\.crc")),
)


def commit_name(version: int) -> str:
    """Return `_delta_log/00000000000000000010.json` for version 10."""
    return f"{LOG_DIR}/{version:020d}.json"


def checkpoint_name(version: int) -> str:
    """Return `_delta_log/00000000000000000010.checkpoint.parquet` for version 10."""
    return f"{LOG_DIR}/{version:020d}.checkpoint.parquet"


def uuid_checkpoint_name(version: int, checkpoint_uuid: str) -> str:
    """Return `_delta_log/00000000000000000010.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.parquet` for version 10.

    The uuid is `checkpoint_uuid`.
    """
    return f"{LOG_DIR}/{version:020d}.checkpoint.{checkpoint_uuid}.parquet"


def part_name(version: int, part: int, parts: int) -> str:
    """Return `_delta_log/00000000000000000010.checkpoint.0000000001.0000000003.parquet` for part 1 of 3, version 10."""
    return f"{LOG_DIR}/{version:020d}.checkpoint.{part:010d}.{parts:010d}.parquet"


def checksum_name(version: int) -> str:
    """Return `_delta_log/00000000000000000010.crc` for version 10."""
    return f"{LOG_DIR}/{version:020d}.crc"


def compaction_name(first_version: int, last_version: int) -> str:
    """Return `_delta_log/00000000000000000004.00000000000000000006.compacted.json` for versions 4 to 6."""
    return f"{LOG_DIR}/{first_version:020d}.{last_version:020d}.compacted.json"


def sidecar_name(path: str) -> str:
    """Return the name of the sidecar file that a checkpoint calls `path`, which is URI-encoded.

    Sidecars are always in the table's `_sidecars`. Only the last segment of the path counts, because a copied table
    may still have the absolute paths of the original.
    """
    return f"{SIDECAR_DIR}/{decode_path(path).rpartition('/')[2]}"


def first_name_of(version: int) -> str:
    """Return a name that sorts at or before each file of `version`, and after each file of lower versions."""
    return f"{LOG_DIR}/{version:020d}"


def parse_log_name(name: str) -> LogFileName | None:
    """Parse a name relative to the table's root; return None if it is not a log file of a known kind."""
    folder, _, base_name = name.rpartition("/")
    if folder != LOG_DIR:
        return None
    for kind, pattern in _PATTERNS:
        match = pattern.fullmatch(base_name)
        if match:
            groups = match.groupdict()
            part, parts, last = groups.get("part"), groups.get("parts"), groups.get("last")
            return LogFileName(
                name=name,
                kind=kind,
                version=int(groups["version"]),
                last_version=int(last) if last else None,
                part=int(part) if part else None,
                parts=int(parts) if parts else None,
            )
    return None
