"""The version checksum (`<version>.crc`): what a writer says of the table right after its commit.

It repeats the protocol, the metadata and the small actions of a version, so that a reader may begin there instead of
replaying the log, and it counts the files, so that a replay can be compared with it. It is written after the commit
and need not exist; whatever is wrong with one, the answer is None and the reader replays the log. Protocol: Version
Checksum File.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, TypeVar

from deltalite.errors import CorruptLogError
from deltalite.protocol.actions import DomainMetadata, Metadata, Protocol, SetTransaction, from_json

_T = TypeVar("_T", SetTransaction, DomainMetadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChecksum:
    """What the file says. `transactions` and `domains` are None where it does not list them; neither has tombstones."""

    protocol: Protocol
    metadata: Metadata
    num_files: int
    table_size_bytes: int
    in_commit_timestamp_ms: int | None
    transactions: tuple[SetTransaction, ...] | None
    domains: tuple[DomainMetadata, ...] | None


def parse_version_checksum(data: bytes, source: str) -> VersionChecksum | None:
    """The content of a checksum file, or None where it is no checksum as the protocol has it; never raises.

    A file in which anything that is read here is wrong is not trusted for the rest either. `source` is its name.
    """
    try:
        body = json.loads(data)
        if not isinstance(body, dict) or _count(body["numProtocol"]) != 1 or _count(body["numMetadata"]) != 1:
            return None
        time = body.get("inCommitTimestampOpt")
        return VersionChecksum(
            protocol=from_json(Protocol, _object(body["protocol"]), source),
            metadata=from_json(Metadata, _object(body["metadata"]), source),
            num_files=_count(body["numFiles"]),
            table_size_bytes=_count(body["tableSizeBytes"]),
            in_commit_timestamp_ms=None if time is None else _count(time),
            transactions=_listed(SetTransaction, body.get("setTransactions"), source),
            domains=_listed(DomainMetadata, body.get("domainMetadata"), source),
        )
    except (ValueError, KeyError, TypeError, RecursionError, CorruptLogError):
        return None


def _listed(cls: type[_T], values: Any, source: str) -> tuple[_T, ...] | None:
    if values is None:
        return None
    if not isinstance(values, list):
        raise TypeError(values)
    return tuple(from_json(cls, _object(value), source) for value in values)


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(value)
    return value


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(value)
    return value
