"""The in-commit timestamp of a commit, if the table has enabled in-commit timestamps.

The timestamp is the time of the writer's clock, but at least one millisecond after the in-commit timestamp of the
version below. For the first commit with an in-commit timestamp, it is at least one millisecond after the modification
time of the commit below. A lost race changes the version below, so the commit loop computes the minimum again. The
commit that enables in-commit timestamps records its version and time in the table properties, unless it is version 0.
Protocol: In-Commit Timestamps (Writer Requirements).
"""

from __future__ import annotations

from dataclasses import replace

from deltalite.errors import VersionGapError
from deltalite.log.commit_times import commit_file, in_commit_timestamp, read_in_commit_timestamp
from deltalite.protocol.actions import Metadata, Protocol
from deltalite.protocol.features import is_in_force
from deltalite.protocol.file_names import commit_name
from deltalite.protocol.properties import ICT_ENABLEMENT_TIMESTAMP, ICT_ENABLEMENT_VERSION
from deltalite.storage.log_store import LogStore
from deltalite.txn.proposal import Proposal
from deltalite.txn.winners import Winner

_FEATURE = "inCommitTimestamp"


def needs_in_commit_timestamp(proposal: Proposal) -> bool:
    """Whether the commit of the proposal needs an in-commit timestamp."""
    return proposal.table_meets(_has_in_commit_timestamps)


def earliest_ms(store: LogStore, proposal: Proposal, below: Winner | None) -> int:
    """Return the earliest allowed time of the commit (milliseconds UTC); 0 if any time is allowed.

    Args:
        store: the table's store, for reading the commit below.
        proposal: the proposal on top of the version below.
        below: the winning commit of the version below; None if the version below is the read version.

    Raises:
        CorruptLogError: the commit below lacks its required in-commit timestamp.
        VersionGapError: the commit below is missing.
    """
    version = proposal.base.version if below is None else below.version
    if not needs_in_commit_timestamp(proposal) or version < 0:
        return 0
    was_enabled = _has_in_commit_timestamps(proposal.base.protocol, proposal.base.metadata)
    if was_enabled and below is not None:
        return in_commit_timestamp(below.info, commit_name(version)) + 1
    file = commit_file(store, version)
    if file is None:
        raise VersionGapError(
            f"Could not commit to {store.root}: {commit_name(version)} is missing, and the next in-commit timestamp "
            "must be later than the time of this file.",
            remedy="Restore the file, or write the rows to a new table.",
        )
    return (read_in_commit_timestamp(store, file) if was_enabled else file.modified_ms) + 1


def metadata_to_commit(proposal: Proposal, version: int, timestamp_ms: int) -> Metadata | None:
    """Return the metadata that the commit sets, None if the commit leaves the metadata as it is.

    If the commit enables in-commit timestamps, the metadata has the enablement properties.
    """
    if proposal.metadata is None or version == 0 or not needs_in_commit_timestamp(proposal):
        return proposal.metadata
    if _has_in_commit_timestamps(proposal.base.protocol, proposal.base.metadata):
        return proposal.metadata
    enablement = {ICT_ENABLEMENT_VERSION: str(version), ICT_ENABLEMENT_TIMESTAMP: str(timestamp_ms)}
    return replace(proposal.metadata, configuration={**proposal.metadata.configuration, **enablement})


def _has_in_commit_timestamps(protocol: Protocol | None, metadata: Metadata | None) -> bool:
    return protocol is not None and metadata is not None and is_in_force(_FEATURE, protocol, metadata)
