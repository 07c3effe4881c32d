"""Writes the version checksum after a commit.

The file counts are those of an earlier checksum, updated by the later commits. This requires that this library made the
checksum and all these commits: its commits remove only existing files and add only new files. A checksum of another
writer may have wrong counts, and a commit of another writer may add an existing file again. In both cases the writer
counts all files. Protocol and metadata always come from log replay, and transactions are left out. Protocol: Version
Checksum File.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from deltalite.log.action_files import read_actions
from deltalite.log.commit_times import in_commit_times, in_commit_timestamp
from deltalite.log.file_table import bytes_of, deleted_rows_of
from deltalite.log.listing import list_log
from deltalite.log.replay import read_commit_info
from deltalite.log.version_checksum import VersionChecksum, parse_version_checksum
from deltalite.protocol.actions import AddFile, CommitInfo, RemoveFile
from deltalite.protocol.features import supported_features
from deltalite.protocol.file_names import checksum_name, commit_name
from deltalite.snapshot import Snapshot
from deltalite.version import is_this_library

# An earlier checksum is used only if it is at most this many versions old.
_MAX_COMMITS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCounts:
    """The numbers of active files, their bytes, deletion vectors and soft-deleted rows of a version."""

    files: int
    size_bytes: int
    vectors: int
    deleted_records: int


def write_checksum(snapshot: Snapshot, *, count_all: bool = False) -> bool:
    """Write the checksum of a version unless it exists. Returns whether it was written.

    With `count_all`, all files are counted and no earlier checksum is used.

    Raises:
        DeltaLiteError: the log cannot be read, or the checksum cannot be written.
    """
    store, version = snapshot.store, snapshot.version
    if snapshot.segment.checksum is not None:
        return False
    counts = (None if count_all else _update_earlier_counts(snapshot)) or count_files(
        snapshot.files_with(["path", "size", "deletionVector"])
    )
    has_vectors = "deletionVectors" in supported_features(snapshot.protocol)
    info = snapshot.commit_info or {}
    checksum = VersionChecksum(
        protocol=snapshot.protocol,
        metadata=snapshot.metadata,
        num_files=counts.files,
        table_size_bytes=counts.size_bytes,
        num_deleted_records=counts.deleted_records if has_vectors else None,
        num_deletion_vectors=counts.vectors if has_vectors else None,
        txn_id=info.get("txnId"),
    )
    times = in_commit_times(snapshot.protocol, snapshot.metadata)
    time_ms = in_commit_timestamp(info, commit_name(version)) if times is not None and times.covers(version) else None
    data = checksum.to_bytes(in_commit_timestamp_ms=time_ms)
    return store.write_if_absent(checksum_name(version), data)


def count_files(files: pa.Table) -> FileCounts:
    """Count files. `files` must have the columns `size` and `deletionVector`."""
    vectors = files["deletionVector"]
    return FileCounts(
        files=files.num_rows,
        size_bytes=bytes_of(files),
        vectors=len(vectors) - vectors.null_count,
        deleted_records=deleted_rows_of(files),
    )


def _update_earlier_counts(snapshot: Snapshot) -> FileCounts | None:
    """Return the counts of the newest earlier checksum, updated by the later commits.

    None if this library did not make the checksum and all these commits.
    """
    store, version = snapshot.store, snapshot.version
    listing = list_log(store, max(0, version - _MAX_COMMITS))
    base_version = max((v for v in listing.checksums if v < version), default=None)
    if base_version is None or not all(v in listing.commits for v in range(base_version, version + 1)):
        return None
    file_name = listing.checksums[base_version].name
    data = store.read(file_name)
    checksum = None if data is None else parse_version_checksum(data, file_name)
    if checksum is None or not _is_trusted(checksum, read_commit_info(store, listing.commits[base_version])):
        return None
    has_vectors = "deletionVectors" in supported_features(checksum.protocol)
    if has_vectors and (checksum.num_deletion_vectors is None or checksum.num_deleted_records is None):
        return None
    counts = FileCounts(
        files=checksum.num_files,
        size_bytes=checksum.table_size_bytes,
        vectors=checksum.num_deletion_vectors or 0,
        deleted_records=checksum.num_deleted_records or 0,
    )
    for later_version in range(base_version + 1, version + 1):
        commit = listing.commits[later_version]
        new_counts = _counts_after_commit(counts, read_actions(store, commit.name, commit.size_bytes))
        if new_counts is None:
            return None
        counts = new_counts
    return counts


def _is_trusted(checksum: VersionChecksum, info: Mapping[str, Any] | None) -> bool:
    """Whether this library made the checksum: it made the version's commit, and the checksum names that commit."""
    if info is None or not is_this_library(info.get("engineInfo")):
        return False
    return checksum.txn_id is not None and checksum.txn_id == info.get("txnId")


def _counts_after_commit(counts: FileCounts, actions: Iterable[tuple[str, Mapping[str, Any]]]) -> FileCounts | None:
    """Return the counts after a commit, or None if they are unknown.

    They are unknown in these cases:

    - Another writer made the commit.
    - A file action contains no size.
    - The commit may add existing files again.
    - A count would be negative.
    """
    files, size_bytes = counts.files, counts.size_bytes
    vectors, deleted_records = counts.vectors, counts.deleted_records
    is_by_this_library = may_add_again = has_removes = False
    for kind, body in actions:
        if kind == CommitInfo.action:
            is_by_this_library = is_this_library(body.get("engineInfo"))
        if kind not in (AddFile.action, RemoveFile.action):
            continue
        sign = 1 if kind == AddFile.action else -1
        has_removes = has_removes or kind == RemoveFile.action
        may_add_again = may_add_again or (kind == AddFile.action and body.get("dataChange") is not True)
        size, vector = body.get("size"), body.get("deletionVector")
        if not isinstance(size, int):
            return None
        files, size_bytes = files + sign, size_bytes + sign * size
        if vector is not None:
            vectors, deleted_records = vectors + sign, deleted_records + sign * int(vector["cardinality"])
    if not is_by_this_library or (may_add_again and not has_removes) or files < 0 or size_bytes < 0:
        return None
    return FileCounts(files=files, size_bytes=size_bytes, vectors=vectors, deleted_records=deleted_records)
