"""The time that a commit carries, where the table keeps its times in the commits.

It is the writer's clock, and never before the commit below it: one millisecond behind the time that this one carries,
or behind its file's where ours is the commit that begins to carry times. So it depends on the version below, which a
lost race changes, and is asked for again then. The commit that begins says so in the properties of the table, unless
it is the first of all. Protocol: In-Commit Timestamps (Writer Requirements).
"""

from __future__ import annotations

from dataclasses import replace

from deltalite.errors import VersionGapError
from deltalite.log.commit_times import commit_file, required_time, time_in
from deltalite.protocol.actions import Metadata, Protocol
from deltalite.protocol.features import is_in_force
from deltalite.protocol.file_names import commit_name
from deltalite.protocol.properties import ICT_ENABLEMENT_TIMESTAMP, ICT_ENABLEMENT_VERSION
from deltalite.storage.log_store import LogStore
from deltalite.txn.proposal import Proposal
from deltalite.txn.winners import Winner

_FEATURE = "inCommitTimestamp"


def carries_time(proposal: Proposal) -> bool:
    """Whether the commit of the proposal has to carry its time."""
    return _in_force(proposal.protocol or proposal.read_protocol, proposal.metadata or proposal.read_metadata)


def earliest_ms(store: LogStore, proposal: Proposal, below: Winner | None) -> int:
    """The first millisecond that the commit may be made at; 0 where that does not matter.

    Args:
        store: where the version below is looked at, if need be.
        proposal: as it stands on the version below.
        below: the winner of that version, None where it is the one that was read.

    Raises:
        CorruptLogError: the version below should carry its time, and does not.
        VersionGapError: its commit is gone.
    """
    version = proposal.read_version if below is None else below.version
    if not carries_time(proposal) or version < 0:
        return 0
    began_before = _in_force(proposal.read_protocol, proposal.read_metadata)
    if began_before and below is not None:
        return required_time(below.info, commit_name(version)) + 1
    file = commit_file(store, version)
    if file is None:
        raise VersionGapError(
            f"Could not commit to {store.root}: {commit_name(version)} is missing, and the next in-commit timestamp "
            "must be later than the one in that file.",
            remedy="Restore the file, or write the rows to a new table.",
        )
    return (time_in(store, file) if began_before else file.modified_ms) + 1


def dated_metadata(proposal: Proposal, version: int, timestamp_ms: int) -> Metadata | None:
    """The metadata that the commit sets as `version`; with the moment, if its table carries times from there on."""
    if proposal.metadata is None or version == 0 or not carries_time(proposal):
        return proposal.metadata
    if _in_force(proposal.read_protocol, proposal.read_metadata):
        return proposal.metadata
    began = {ICT_ENABLEMENT_VERSION: str(version), ICT_ENABLEMENT_TIMESTAMP: str(timestamp_ms)}
    return replace(proposal.metadata, configuration={**proposal.metadata.configuration, **began})


def _in_force(protocol: Protocol | None, metadata: Metadata | None) -> bool:
    return protocol is not None and metadata is not None and is_in_force(_FEATURE, protocol, metadata)
