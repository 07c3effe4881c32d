"""The version checksum (`<version>.crc`): what a writer says of the table right after its commit.

It repeats the protocol and the metadata of a version, so that a reader may begin there instead of replaying the log,
and it counts the files, so that a replay can be compared with it. It is written after the commit and need not exist;
whatever is wrong with one, the answer is None and the reader replays the log. The transactions that it may list are
neither read nor written: a run that is told of a wrong one would write twice, or never. Protocol: Version Checksum
File.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from deltalite.errors import CorruptLogError
from deltalite.protocol.actions import Metadata, Protocol, from_json, to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChecksum:
    """What the file says.

    `num_deleted_records` and `num_deletion_vectors` count what deletion vectors mark. `txn_id` names the commit.
    Each is None where the file does not say.
    """

    protocol: Protocol
    metadata: Metadata
    num_files: int
    table_size_bytes: int
    num_deleted_records: int | None = None
    num_deletion_vectors: int | None = None
    txn_id: str | None = None

    def to_bytes(self, *, in_commit_timestamp_ms: int | None) -> bytes:
        """The content of the file, with the time that the version's commit carries."""
        body = {
            "txnId": self.txn_id,
            "tableSizeBytes": self.table_size_bytes,
            "numFiles": self.num_files,
            "numMetadata": 1,
            "numProtocol": 1,
            "inCommitTimestampOpt": in_commit_timestamp_ms,
            "numDeletedRecordsOpt": self.num_deleted_records,
            "numDeletionVectorsOpt": self.num_deletion_vectors,
            "metadata": to_json(self.metadata),
            "protocol": to_json(self.protocol),
        }
        said = {key: value for key, value in body.items() if value is not None}
        return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()


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
            num_deleted_records=_optional_count(body.get("numDeletedRecordsOpt")),
            num_deletion_vectors=_optional_count(body.get("numDeletionVectorsOpt")),
            txn_id=_optional_text(body.get("txnId")),
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


def _optional_text(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError(value)
    return value


def _optional_count(value: Any) -> int | None:
    return None if value is None else _count(value)
