"""The version checksum (`<version>.crc`): what a writer says of the table right after its commit.

It repeats the protocol and the metadata of a version, so that a reader may begin there instead of replaying the log,
and it counts the files, so that a replay can be compared with it. It is written after the commit and need not exist;
whatever is wrong with one, the answer is None and the reader replays the log. The transactions that it may list are not
read: a run that is told of a wrong one would write twice, or never. Protocol: Version Checksum File.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from deltalite.errors import CorruptLogError
from deltalite.protocol.actions import Metadata, Protocol, from_json


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChecksum:
    """What the file says."""

    protocol: Protocol
    metadata: Metadata
    num_files: int
    table_size_bytes: int


def parse_version_checksum(data: bytes, source: str) -> VersionChecksum | None:
    """The content of a checksum file, or None where it is no checksum as the protocol has it; never raises.

    A file in which anything that is read here is wrong is not trusted for the rest either. `source` is its name.
    """
    try:
        body = json.loads(data)
        if not isinstance(body, dict) or _count(body["numProtocol"]) != 1 or _count(body["numMetadata"]) != 1:
            return None
        return VersionChecksum(
            protocol=from_json(Protocol, _object(body["protocol"]), source),
            metadata=from_json(Metadata, _object(body["metadata"]), source),
            num_files=_count(body["numFiles"]),
            table_size_bytes=_count(body["tableSizeBytes"]),
        )
    except (ValueError, KeyError, TypeError, RecursionError, CorruptLogError):
        return None


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(value)
    return value


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(value)
    return value
