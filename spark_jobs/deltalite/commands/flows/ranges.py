"""The versions that a run loads from an incremental source, decided without I/O.

The offset comes from the target snapshot on which the commit is based, and the commit conflicts with every other commit
that sets an offset of this flow. So no version is loaded twice or left out.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from deltalite.errors import SourceGapError
from deltalite.protocol.actions import NOTHING_LOADED, SetTransaction
from deltalite.requests import OnGap, Source
from deltalite.results import FlowRange
from deltalite.txn.flows import flow_offsets
from deltalite.txn.transaction_retention import check_keeps_transactions

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """The lost files of a source.

    - `file_name`: the name of one of these files, which `first_version` needs.
    - `first_version`, `last_version`: the first and the last version that need a lost file.
    """

    file_name: str
    first_version: int
    last_version: int

    @property
    def reason(self) -> str:
        """A clause that says what is lost."""
        return f"a file of version {self.first_version} no longer exists, perhaps after a vacuum ({self.file_name})"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """The source table now: its id, its newest version, and the versions that can be loaded.

    - `commits`: the versions whose commits the log holds.
    - `loss`: the files that are known to be lost, None without any.
    """

    address: str
    table_id: str
    newest_version: int
    commits: Container[int]
    loss: Loss | None = None

    def earliest_available(self) -> int:
        """Return the earliest version from which the log has all commits and storage has all files.

        Without such a version, return the version after the newest one.
        """
        version = self.newest_version + 1
        while version > self._earliest_complete and version - 1 in self.commits:
            version -= 1
        return version

    @property
    def _earliest_complete(self) -> int:
        return 0 if self.loss is None else self.loss.last_version + 1


def choose_range(
    flow: str, source: Source, state: SourceState, transactions: Mapping[str, SetTransaction]
) -> FlowRange:
    """Return the versions that the target does not have yet. `max_versions` limits them, `max_bytes` does not.

    1. The flow has loaded nothing: the snapshot of the newest version, or the versions from `starting_version` on. If
       the log does not hold these, the flow cannot begin.
    2. The flow has loaded another table at this address: a gap.
    3. The newest version is below the offset: a gap.
    4. The newest version is the offset: an empty range.
    5. The log no longer holds all commits after the offset, or files of later versions are lost: a gap.
    6. Otherwise: the versions after the offset.

    Raises:
        SourceGapError: the flow cannot begin, or there is a gap and `on_gap` is not 'reload'. With 'reload', a flow
            with an offset loads the snapshot again.
    """
    offsets = loaded_versions(flow, transactions)
    if not offsets:
        if source.starting_version is None:
            return _snapshot_range(flow, state)
        offset: int | None = source.starting_version - 1
    else:
        offset = offsets.get(state.table_id)
    gap = _gap(offset, state)
    if gap is not None or offset is None:
        return reload_or_fail(flow, source, state, transactions, gap or "")
    to_version = state.newest_version
    if source.max_versions is not None:
        to_version = min(to_version, offset + source.max_versions)
    return FlowRange(flow=flow, source_table_id=state.table_id, after_version=offset, to_version=to_version)


def loaded_versions(flow: str, transactions: Mapping[str, SetTransaction]) -> dict[str, int]:
    """Return the offsets of a flow by the ids of its source tables. Leave out offsets that mean "nothing is loaded"."""
    return {
        flow_id.source_table_id: txn.version
        for flow_id, txn in flow_offsets(transactions).items()
        if flow_id.name == flow and txn.version != NOTHING_LOADED
    }


def _gap(offset: int | None, state: SourceState) -> str | None:
    """Return the reason why the versions after the offset cannot be loaded, None if they can."""
    if offset is None:
        return "the source was recreated, or another source has the same flow name"
    if state.newest_version < offset:
        return f"the newest version of the source is {state.newest_version}"
    if state.loss is not None and offset < state.loss.last_version:
        return state.loss.reason
    earliest_version = state.earliest_available()
    if state.newest_version > offset and offset + 1 < earliest_version:
        missing_version = next(v for v in range(offset + 1, earliest_version) if v not in state.commits)
        return f"the source's log no longer holds version {missing_version}"
    return None


def _snapshot_range(flow: str, state: SourceState) -> FlowRange:
    return FlowRange(flow=flow, source_table_id=state.table_id, after_version=None, to_version=state.newest_version)


def reload_or_fail(
    flow: str,
    source: Source,
    state: SourceState,
    transactions: Mapping[str, SetTransaction],
    reason: str,
    *,
    log_has_versions: bool = False,
) -> FlowRange:
    """Handle the loss of versions that the flow needs: return the range of the whole snapshot, or raise an error.

    A flow without an offset has lost nothing. Its `starting_version` skips rows that the target may have, so the flow
    never loads the snapshot.

    Args:
        flow: the name of the flow.
        source: the source.
        state: the state of the source.
        transactions: the transactions of the target.
        reason: a clause that says why the versions cannot be loaded.
        log_has_versions: whether the log holds the versions, and something else is missing, such as the change feed.

    Raises:
        SourceGapError: the flow has no offset, or the source does not have `on_gap='reload'`.
    """
    offsets = loaded_versions(flow, transactions)
    if offsets and source.on_gap is OnGap.RELOAD:
        _log.warning("Loading the complete source %s again for the flow '%s': %s.", state.address, flow, reason)
        return _snapshot_range(flow, state)
    reload_remedy = "To load the complete snapshot of the source again, set on_gap='reload' in the source."
    if not offsets:
        problem = f"The flow '{flow}' cannot begin with version {source.starting_version} of {state.address}: {reason}."
        remedy = "Correct starting_version, or leave it out to load the complete snapshot."
    elif state.table_id in offsets:
        problem = (
            f"The flow '{flow}' has loaded {state.address} up to version {offsets[state.table_id]}, and cannot "
            f"continue: {reason}."
        )
        remedy = (
            f"{reload_remedy} To accept the gap and continue at another version, use reset_flows of DeltaTableOperator."
        )
    else:
        problem = (
            f"The flow '{flow}' has loaded another table up to version {max(offsets.values())}, and cannot continue "
            f"with {state.address}: {reason}."
        )
        remedy = f"{reload_remedy} If another source has this name, give `incremental` another name."
    raise SourceGapError(problem if log_has_versions else f"{problem} {_available_versions(state)}", remedy=remedy)


def _available_versions(state: SourceState) -> str:
    """Return a sentence about the versions that can be loaded."""
    earliest_version = state.earliest_available()
    if state.loss is not None and earliest_version > state.newest_version:
        return f"No version after the loss, up to the newest version {state.newest_version}, can be loaded."
    return f"The earliest available version is {min(earliest_version, state.newest_version)}."


def last_version_within(first_version: int, sizes: Iterable[int], max_bytes: int) -> int:
    """Return the last version up to which the changed files together have at most `max_bytes`.

    At least the first version is loaded. `sizes` has the bytes of each version.
    """
    total_bytes, last_version = 0, first_version
    for version, size_bytes in enumerate(sizes, first_version):
        total_bytes += size_bytes
        if total_bytes > max_bytes:
            break
        last_version = version
    return last_version


def check_keeps_offsets(configuration: Mapping[str, str], *, table: str) -> None:
    """Check that the transactions of the target never expire.

    Raises:
        InvalidRequestError: the table has `delta.setTransactionRetentionDuration`.
    """
    check_keeps_transactions(
        configuration,
        failure=f"Could not load an incremental source into {table}",
        effect="the offset, and rows would be loaded twice",
        advice="If `deltalite flows` then shows no offset of a flow that has run, set starting_version in its source.",
    )
