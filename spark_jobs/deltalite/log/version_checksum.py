"""The version checksum (`<version>.crc`): a summary of the table that a writer stores after its commit.

It repeats the protocol and metadata of a version, so a reader can use them without log replay. It also counts the
files, so a replay can be verified. The file is optional. If it is invalid, the result is None and the reader replays
the log. Its transactions are neither read nor written, because a wrong one would make a run write twice or not at all.
Protocol: Version Checksum File.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from deltalite.errors import CorruptLogError
from deltalite.log.json_values import count, optional_count, optional_text
from deltalite.protocol.actions import Metadata, Protocol, from_json, to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChecksum:
    """The content of the file.

    `num_deleted_records` counts soft-deleted rows, and `num_deletion_vectors` the vectors. `txn_id` identifies the
    commit. Each of them is None if the file lacks it.
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
        known = {key: value for key, value in body.items() if value is not None}
        return json.dumps(known, ensure_ascii=False, separators=(",", ":")).encode()


def parse_version_checksum(data: bytes, source: str) -> VersionChecksum | None:
    """Parse a checksum file; None if any field is invalid, because then the other fields are not trusted either.

    Never raises. `source` is the name of the file.
    """
    try:
        body = json.loads(data)
        if not isinstance(body, dict) or count(body["numProtocol"]) != 1 or count(body["numMetadata"]) != 1:
            return None
        return VersionChecksum(
            protocol=from_json(Protocol, _object(body["protocol"]), source),
            metadata=from_json(Metadata, _object(body["metadata"]), source),
            num_files=count(body["numFiles"]),
            table_size_bytes=count(body["tableSizeBytes"]),
            num_deleted_records=optional_count(body.get("numDeletedRecordsOpt")),
            num_deletion_vectors=optional_count(body.get("numDeletionVectorsOpt")),
            txn_id=optional_text(body.get("txnId")),
        )
    except (ValueError, KeyError, TypeError, RecursionError, CorruptLogError):
        return None


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(value)
    return value
