"""The version checksum (`<version>.crc`): a summary of the table that a writer stores after its commit.

It repeats the protocol and metadata of a version, so a reader can use them without log replay. It also counts the
files, so a reader can verify its replay. The file is optional, and a reader replays the log if the file is invalid.
This module ignores the file's transactions: a wrong transaction would make a run write twice or not at all.
Protocol: Version Checksum File.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from deltalite.errors import CorruptLogError
from deltalite.log.json_values import parse_count, parse_optional_count, parse_optional_text
from deltalite.protocol.actions import Metadata, Protocol, from_json, to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChecksum:
    """The content of the file.

    `num_deleted_records` counts soft-deleted rows, and `num_deletion_vectors` counts their deletion vectors. `txn_id`
    identifies the commit. Each of these three is None if the file lacks it.
    """

    protocol: Protocol
    metadata: Metadata
    num_files: int
    table_size_bytes: int
    num_deleted_records: int | None = None
    num_deletion_vectors: int | None = None
    txn_id: str | None = None

    def to_bytes(self, *, in_commit_timestamp_ms: int | None) -> bytes:
        """Return the content of the file, with the in-commit timestamp of the version's commit, if any."""
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
        fields = {key: value for key, value in body.items() if value is not None}
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def parse_version_checksum(data: bytes, source: str) -> VersionChecksum | None:
    """Parse a checksum file; None if any field is invalid, because then the other fields are not trusted either.

    Never raises. `source` is the name of the file.
    """
    try:
        body = json.loads(data)
        if not isinstance(body, dict) or parse_count(body["numProtocol"]) != 1 or parse_count(body["numMetadata"]) != 1:
            return None
        return VersionChecksum(
            protocol=from_json(Protocol, _object(body["protocol"]), source),
            metadata=from_json(Metadata, _object(body["metadata"]), source),
            num_files=parse_count(body["numFiles"]),
            table_size_bytes=parse_count(body["tableSizeBytes"]),
            num_deleted_records=parse_optional_count(body.get("numDeletedRecordsOpt")),
            num_deletion_vectors=parse_optional_count(body.get("numDeletionVectorsOpt")),
            txn_id=parse_optional_text(body.get("txnId")),
        )
    except (ValueError, KeyError, TypeError, RecursionError, CorruptLogError):
        return None


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(value)
    return value
