"""Optimistic commit: put the next version if it is absent; otherwise compare with the winning commits.

A lost race is an error if the winning commit conflicts with the proposal. This module gives the commit a `txnId`.
If storage does not answer a put (`put.py`), this id in the log shows that the put succeeded. Protocol: Delta Log
Entries (atomic creation), Commit Provenance Information.
"""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from deltalite.errors import (
    CommitStateUnknownError,
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentModificationException,
    ConcurrentWriteException,
    DeltaLiteError,
    StorageError,
)
from deltalite.log.listing import list_log
from deltalite.protocol.actions import Action, CommitInfo, DomainMetadata, Metadata, commit_to_bytes
from deltalite.protocol.file_names import commit_name, first_name_of
from deltalite.protocol.properties import CHECKPOINT_PROTECTION_VERSION
from deltalite.protocol.row_tracking import high_water_mark
from deltalite.storage.log_store import LogStore
from deltalite.txn.commit_time import earliest_ms, metadata_to_commit, needs_in_commit_timestamp
from deltalite.txn.proposal import BaseState, Proposal, ReadSet
from deltalite.txn.put import put_commit
from deltalite.txn.record_counts import needs_record_counts, with_checked_record_counts
from deltalite.txn.row_ids import PRESERVED_TAG, has_row_ids, needs_row_ids, with_row_ids
from deltalite.txn.row_level import RowMerger
from deltalite.txn.winners import (
    RETRY_REMEDY,
    AlreadyDone,
    IsThisCommit,
    NoConflict,
    Verdict,
    Winner,
    judge,
    read_winner,
)
from deltalite.version import ENGINE_INFO

# Seconds between two puts. A commit takes about ten milliseconds, so a longer pause would leave the table idle.
_LONGEST_PAUSE_SECONDS = 0.05
# A larger commit is not kept in memory after its put.
_LARGEST_KEPT_BYTES = 1024 * 1024
# A longer first line of a commit is not compared with the `txnId` of the read version.
_LONGEST_PROVENANCE_BYTES = 64 * 1024
# The conflicts that a merge of both deletion vectors may resolve.
_RESOLVABLE_CONFLICTS = (ConcurrentAppendException, ConcurrentDeleteReadException, ConcurrentDeleteDeleteException)


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """The outcome if the proposal was committed as `version`, at `timestamp_ms` (milliseconds UTC).

    `data` is the content of the commit. It is None if the content is large, or if only the log shows that the put
    succeeded.
    """

    version: int
    timestamp_ms: int
    data: bytes | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedByAnotherAttempt:
    """The outcome if another attempt of the run `app_id` committed `version`; the proposal was not committed."""

    version: int
    app_id: str


def commit(
    store: LogStore,
    proposal: Proposal,
    *,
    clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    max_attempts: int = 1000,
    pause: Callable[[float], None] = time.sleep,
) -> Committed | CommittedByAnotherAttempt:
    """Commit a proposal on top of its read version, or on top of later commits without a conflict.

    Returns the outcome: `Committed`, or `CommittedByAnotherAttempt` if another attempt of the same run was faster.

    Raises:
        ConcurrentModificationException: a winning commit conflicts with the proposal, all attempts failed, or the log
            no longer holds the read version.
        CommitStateUnknownError: it is unknown whether the commit is in the log or may still appear there.
        InvalidRequestError: the statistics of an added file lack the number of records, which the table needs.
        ConstraintViolationError: the table has used up its row ids.
        CorruptLogError, CorruptDataFileError: a winning commit, the commit below or a deletion vector is invalid, or
            the commit below is missing.
        StorageError: storage failed, and the commit is not in the log.
    """
    _check_base(store, proposal.base)
    merger = RowMerger(store)
    try:
        outcome, committed = _put_until_settled(store, proposal, merger, clock_ms, max_attempts, pause)
    except DeltaLiteError as error:
        if not isinstance(error, CommitStateUnknownError):
            merger.delete_unused_vectors()  # any other DeltaLiteError means that the commit is not in the log
        raise
    merger.delete_unused_vectors(committed=committed)
    return outcome


def _put_until_settled(
    store: LogStore,
    proposal: Proposal,
    merger: RowMerger,
    clock_ms: Callable[[], int],
    max_attempts: int,
    pause: Callable[[float], None],
) -> tuple[Committed | CommittedByAnotherAttempt, Proposal | None]:
    """Put the commit until it succeeds or fails for good.

    Returns the outcome, and the proposal in its committed form. The proposal is None if another attempt has committed.
    """
    txn_id = str(uuid.uuid4())
    version = proposal.base.version + 1
    winner_below: Winner | None = None
    earliest_time_ms = earliest_ms(store, proposal, winner_below)
    for attempt in range(max_attempts):
        timestamp_ms = max(clock_ms(), earliest_time_ms)
        data = commit_to_bytes(_actions(proposal, version, txn_id, timestamp_ms))
        existing_content = put_commit(store, version, data, pause=pause)
        if existing_content is None:
            if attempt > 0:
                _check_version_below(store, version)
            kept_data = data if len(data) <= _LARGEST_KEPT_BYTES else None
            return Committed(version=version, timestamp_ms=timestamp_ms, data=kept_data), proposal
        for winner in _winners(store, version, existing_content):
            verdict = judge(proposal, winner, txn_id)
            if isinstance(verdict, _RESOLVABLE_CONFLICTS):
                proposal, verdict = _judge_row_by_row(merger, proposal, winner, txn_id, verdict)
            match verdict:
                case NoConflict(reads=reads):
                    version, proposal, winner_below = winner.version + 1, _rebase_on(winner, proposal, reads), winner
                case IsThisCommit():
                    return Committed(version=winner.version, timestamp_ms=timestamp_ms), proposal
                case AlreadyDone(app_id=app_id):
                    return CommittedByAnotherAttempt(version=winner.version, app_id=app_id), None
                case ConcurrentModificationException():
                    raise verdict
        earliest_time_ms = earliest_ms(store, proposal, winner_below)
        longest_pause = min(0.01 * 2 ** min(attempt, 6), _LONGEST_PAUSE_SECONDS)
        pause(random.uniform(0, longest_pause))  # noqa: S311  jitter, not a secret
    raise ConcurrentWriteException(
        f"Could not commit to {store.root}: other writers won all {max_attempts} attempts, the last one for version "
        f"{version}.",
        remedy="Run the task again, or let fewer tasks write to the table at the same time.",
    )


def _judge_row_by_row(
    merger: RowMerger, proposal: Proposal, winner: Winner, txn_id: str, verdict: ConcurrentModificationException
) -> tuple[Proposal, Verdict]:
    """Merge deletion vectors, and return the proposal and the verdict. If a merge is impossible, both are unchanged.

    If the merged proposal conflicts, return the unmerged proposal and the new conflict.
    """
    merge_result = merger.merge(proposal, winner)
    if merge_result is None:
        return proposal, verdict
    merged_proposal, merged_winner = merge_result
    merged_verdict = judge(merged_proposal, merged_winner, txn_id)
    return (merged_proposal, merged_verdict) if isinstance(merged_verdict, NoConflict) else (proposal, merged_verdict)


def _check_base(store: LogStore, base: BaseState) -> None:
    """Check that the log still holds the read version.

    After log cleanup, the commit name of a version that was committed before is free again. A recreated table may have
    another commit of the same version. The check notices this commit if the operation has read a `txnId` of the
    version. A replay from a checkpoint of the version reads none.

    A log that was empty at the read must be empty now or begin at version 0.

    Raises:
        ConcurrentWriteException: the log does not hold the version.
    """
    version, txn_id = base.version, (base.commit_info or {}).get("txnId")
    if version < 0:
        log = list_log(store, 0)
        if log.newest_version < 0 or 0 in log.commits:
            return
        problem = (
            "was empty when this operation read it, and now has versions but not version 0: a listing was incomplete."
        )
    else:
        if _has_version(store, version, txn_id):
            return
        problem = (
            f"no longer has version {version} as this operation read it: log cleanup removed it, or the table was "
            "dropped or recreated."
        )
    raise ConcurrentWriteException(
        f"Could not commit: the log of {store.root} {problem}",
        remedy=RETRY_REMEDY,
    )


def _check_version_below(store: LogStore, version: int) -> None:
    """Check that the version below a new commit exists. If it is missing, log cleanup had freed the commit's name.

    The commit loop reads winners in ascending order, and log cleanup deletes commits in the same order. If log cleanup
    has deleted a commit that the loop did not read yet, it has deleted the version below too.

    Raises:
        ConcurrentWriteException: log cleanup had freed the name. The new commit is deleted.
        CommitStateUnknownError: log cleanup had freed the name, and the new commit could not be deleted.
    """
    try:
        if _has_version(store, version - 1):
            return
    except StorageError:  # the put succeeded, and the failed check does not show that the commit is invalid
        return
    problem = (
        f"Could not commit version {version} of {store.root}: log cleanup had deleted that version, so its name was "
        "free."
    )
    try:
        store.delete(commit_name(version))
    except StorageError as error:
        raise CommitStateUnknownError(
            f"{problem} The new commit could not be deleted ({error.problem}), so it may still be in the log.",
            remedy=f"Delete {commit_name(version)} if the version below it is missing. Then run the task again.",
        ) from error
    raise ConcurrentWriteException(
        problem,
        remedy=RETRY_REMEDY,
    )


def _has_version(store: LogStore, version: int, txn_id: str | None = None) -> bool:
    """Whether the log still has a file of the version, such as its commit or a checkpoint.

    With `txn_id`, the commit must not begin with the provenance of another transaction. This function calls `open`,
    because a client of S3 may answer a read of a listed file from its cache.
    """
    with suppress(OSError), store.open(commit_name(version)) as commit:
        return txn_id is None or _may_have_txn_id(commit.read(_LONGEST_PROVENANCE_BYTES), txn_id)
    first = next(iter(store.list_from(first_name_of(version))), None)
    return first is not None and first.name.startswith(first_name_of(version))


def _may_have_txn_id(start: bytes, txn_id: str) -> bool:
    """Whether a commit that begins with these bytes may have this id. False if its first line shows another id."""
    line, newline, _ = start.partition(b"\n")
    try:
        info = json.loads(line)[CommitInfo.action] if newline else None
    except (ValueError, LookupError, TypeError, RecursionError):
        return True
    return not isinstance(info, dict) or info.get("txnId") == txn_id


def _winners(store: LogStore, version: int, data: bytes | None) -> Iterator[Winner]:
    """Yield the existing commits from `version` on; `data` is the content of the first one.

    The loop ends at an empty commit, whose content the storage does not show yet. `put_commit` waits for the content.
    """
    while data:
        yield read_winner(version, data)
        version += 1
        data = store.read(commit_name(version))


def _rebase_on(winner: Winner, proposal: Proposal, reads: ReadSet) -> Proposal:
    """Return the proposal with the read set `reads`, and the protocol, metadata and row id mark after the winner."""
    domains = {a.domain: a for a in winner.small_actions if isinstance(a, DomainMetadata)}
    base = replace(
        proposal.base,
        row_id_mark=max(proposal.base.row_id_mark, high_water_mark(domains)),
        protocol=winner.protocol or proposal.base.protocol,
        metadata=winner.metadata or proposal.base.metadata,
    )
    return replace(proposal, base=base, reads=reads)


def _actions(proposal: Proposal, version: int, txn_id: str, timestamp_ms: int) -> Iterator[Action]:
    """Yield the actions of the commit, with the provenance first, as the protocol requires.

    The protocol, the metadata, the transactions and the domains come before the file actions that depend on them.
    """
    yield CommitInfo(values=_commit_info(proposal, txn_id, timestamp_ms))
    metadata = metadata_to_commit(proposal, version, timestamp_ms)
    if proposal.protects_checkpoints and metadata is not None:
        metadata = _with_protected_checkpoints(metadata, version)
    yield from (a for a in (proposal.protocol, metadata, proposal.txn) if a is not None)
    yield from proposal.offsets
    yield from proposal.domains
    yield from proposal.removes
    yield from _adds_and_mark(proposal, version)
    yield from proposal.changes


def _with_protected_checkpoints(metadata: Metadata, version: int) -> Metadata:
    """Return the metadata that protects the checkpoints before the version. Protocol: Checkpoint Protection (RFC)."""
    return replace(metadata, configuration={**metadata.configuration, CHECKPOINT_PROTECTION_VERSION.key: str(version)})


def _adds_and_mark(proposal: Proposal, version: int) -> Iterable[Action]:
    """Return the added files, and the high water mark of row ids if the mark rises."""
    actions: Iterable[Action] = with_row_ids(proposal, version) if needs_row_ids(proposal) else proposal.adds
    return with_checked_record_counts(actions) if needs_record_counts(proposal) else actions


def _commit_info(proposal: Proposal, txn_id: str, timestamp_ms: int) -> dict[str, Any]:
    operation = proposal.operation
    info: dict[str, Any] = {"inCommitTimestamp": timestamp_ms} if needs_in_commit_timestamp(proposal) else {}
    info |= {"timestamp": timestamp_ms, "operation": operation.name}
    info["operationParameters"] = dict(operation.parameters)
    if proposal.base.version >= 0:
        info["readVersion"] = proposal.base.version
    info["isolationLevel"] = proposal.isolation.value
    info["isBlindAppend"] = proposal.is_blind_append
    info["operationMetrics"] = {name: str(value) for name, value in operation.metrics.items()}
    if operation.user_metadata is not None:
        info["userMetadata"] = operation.user_metadata
    if has_row_ids(proposal):
        info["tags"] = {PRESERVED_TAG: str(proposal.keeps_row_ids).lower()}
    info["engineInfo"] = ENGINE_INFO
    info["txnId"] = txn_id
    return info
