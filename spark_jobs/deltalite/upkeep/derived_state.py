"""The state of a version, derived from the newest earlier checksum and the later commits.

A writer usually knows the checksum of the version below its commit, and the content of its commit. In this case
`state_after_commit` sends no request. Otherwise `derive_state` takes four requests after a small commit: it lists the
log once, and reads three small files.

The derivation requires that this library made the checksum and all these commits, which remove only existing files and
add only new files. A checksum of another writer may be wrong, and a commit of another writer may add an existing file
again. Protocol: Version Checksum File.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from deltalite.log.action_files import actions_in, read_actions
from deltalite.log.listing import Listing, list_log
from deltalite.log.replay import read_commit_info
from deltalite.log.version_checksum import VersionChecksum, parse_version_checksum
from deltalite.protocol.actions import CommitInfo, Metadata, Protocol, parse_action
from deltalite.protocol.features import supported_features
from deltalite.storage.log_store import LogStore
from deltalite.upkeep.file_counts import FileCounts, counts_after_commit
from deltalite.version import is_this_library

# An earlier checksum is used only if it is at most this many versions old.
_MAX_COMMITS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedState:
    """The protocol, metadata and file counts of a version, and the provenance of its commit."""

    protocol: Protocol
    metadata: Metadata
    counts: FileCounts
    commit_info: Mapping[str, Any]


def derive_state(store: LogStore, version: int) -> DerivedState | None:
    """Derive the state of a version from the newest earlier checksum and the later commits.

    Return None in these cases:

    - The version has a checksum.
    - None of the last 20 versions has a checksum, or the newest checksum of these versions is invalid.
    - The commit of this checksum's version, or a later commit, is missing.
    - This library did not make the checksum and all later commits.
    - The checksum lacks a number of deleted rows or vectors, or the counts are unknown after a later commit
      (`counts_after_commit`).

    Raises:
        CorruptLogError: a commit is malformed.
        StorageError: storage failed.
    """
    listing = list_log(store, max(0, version - _MAX_COMMITS))
    base_version = max((v for v in listing.checksums if v <= version), default=version)
    if base_version == version or not all(v in listing.commits for v in range(base_version, version + 1)):
        return None
    state = _state_of_checksum(store, listing, base_version)
    for later_version in range(base_version + 1, version + 1):
        if state is None:
            return None
        commit = listing.commits[later_version]
        state = _state_after_commit(state, read_actions(store, commit.name, commit.size_bytes), commit.name)
    return state


def state_after_commit(
    checksum: VersionChecksum, commit_info: Mapping[str, Any], commit: bytes, commit_name: str
) -> DerivedState | None:
    """Return the state of a version from the checksum of the version below.

    Args:
        checksum: the checksum of the version below.
        commit_info: the provenance of the commit of the version below.
        commit: the content of the version's commit.
        commit_name: its file name.

    Returns:
        The state, or None if this library did not make the checksum and the commits, or counts are unknown, as in
        `derive_state`.
    """
    state = _trusted_state(checksum, commit_info)
    return None if state is None else _state_after_commit(state, actions_in(commit, commit_name), commit_name)


def _state_of_checksum(store: LogStore, listing: Listing, version: int) -> DerivedState | None:
    """Return the state in the checksum of a version.

    None if this library did not make the checksum, or if the checksum is invalid or lacks a count.
    """
    file_name = listing.checksums[version].name
    data = store.read(file_name)
    checksum = None if data is None else parse_version_checksum(data, file_name)
    info = None if checksum is None else read_commit_info(store, listing.commits[version])
    return None if checksum is None or info is None else _trusted_state(checksum, info)


def _trusted_state(checksum: VersionChecksum, info: Mapping[str, Any]) -> DerivedState | None:
    """Return the state in a checksum; None if this library did not make the checksum, or the checksum lacks a count."""
    if not _is_trusted(checksum, info):
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
    return DerivedState(protocol=checksum.protocol, metadata=checksum.metadata, counts=counts, commit_info=info)


def _is_trusted(checksum: VersionChecksum, info: Mapping[str, Any]) -> bool:
    """Whether this library made the checksum: it made the version's commit, and the checksum names that commit."""
    if not is_this_library(info.get("engineInfo")):
        return False
    return checksum.txn_id is not None and checksum.txn_id == info.get("txnId")


def _state_after_commit(
    state: DerivedState, actions: Iterable[tuple[str, Mapping[str, Any]]], commit_name: str
) -> DerivedState | None:
    """Return the state after a commit, or None if another writer made the commit or its counts are unknown."""
    changes: dict[str, Any] = {"commit_info": {}}

    def collect_small_actions() -> Iterator[tuple[str, Mapping[str, Any]]]:
        for kind, body in actions:
            if kind == CommitInfo.action:
                changes["commit_info"] = body
            elif kind in (Protocol.action, Metadata.action):
                name = "protocol" if kind == Protocol.action else "metadata"
                changes[name] = parse_action(kind, body, commit_name)
            yield kind, body

    counts = counts_after_commit(state.counts, collect_small_actions())
    return None if counts is None else replace(state, counts=counts, **changes)
