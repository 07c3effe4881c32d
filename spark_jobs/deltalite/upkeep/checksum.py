"""Writes the version checksum after a commit. Protocol: Version Checksum File."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deltalite.log.commit_times import in_commit_settings, in_commit_timestamp
from deltalite.log.version_checksum import VersionChecksum
from deltalite.protocol.actions import Metadata, Protocol
from deltalite.protocol.features import supported_features
from deltalite.protocol.file_names import checksum_name, commit_name
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore
from deltalite.upkeep.derived_state import DerivedState, derive_state
from deltalite.upkeep.file_counts import FileCounts, count_files


def write_checksum(snapshot: Snapshot, *, count_all: bool = False) -> bool:
    """Write the checksum of a version unless it exists. Returns whether it was written.

    Protocol and metadata are those of the snapshot. The file counts come from `derive_state`, or from the files if the
    counts cannot be derived. With `count_all`, all files are counted and no earlier checksum is used.

    Raises:
        DeltaLiteError: the log cannot be read, or the checksum cannot be written.
    """
    if snapshot.segment.checksum is not None:
        return False
    derived = None if count_all else derive_state(snapshot.store, snapshot.version)
    counts = count_files(snapshot.files_with(["path", "size", "deletionVector"])) if derived is None else derived.counts
    return _write(
        snapshot.store, snapshot.version, snapshot.protocol, snapshot.metadata, counts, snapshot.commit_info or {}
    )


def write_derived_checksum(store: LogStore, version: int, state: DerivedState) -> bool:
    """Write the checksum of a version with a derived state unless it exists. Returns whether it was written.

    Raises:
        DeltaLiteError: the checksum cannot be written.
    """
    return _write(store, version, state.protocol, state.metadata, state.counts, state.commit_info)


def _write(
    store: LogStore,
    version: int,
    protocol: Protocol,
    metadata: Metadata,
    counts: FileCounts,
    commit_info: Mapping[str, Any],
) -> bool:
    has_vectors = "deletionVectors" in supported_features(protocol)
    checksum = VersionChecksum(
        protocol=protocol,
        metadata=metadata,
        num_files=counts.files,
        table_size_bytes=counts.size_bytes,
        num_deleted_records=counts.deleted_records if has_vectors else None,
        num_deletion_vectors=counts.vectors if has_vectors else None,
        txn_id=commit_info.get("txnId"),
    )
    in_commit = in_commit_settings(protocol, metadata)
    has_time = in_commit is not None and in_commit.covers(version)
    time_ms = in_commit_timestamp(commit_info, commit_name(version)) if has_time else None
    return store.write_if_absent(checksum_name(version), checksum.to_bytes(in_commit_timestamp_ms=time_ms))
