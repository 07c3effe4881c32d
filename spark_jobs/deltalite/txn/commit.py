"""Optimistic commit: put the next version if it is absent, else look at who won.

A lost race is a value until it contradicts us. The commit's `txnId` is made here and is what settles a put whose
answer was lost: it is found in the log, or it is not. Nothing that happens after the put can fail the commit.
Protocol: Delta Log Entries (atomic creation), Commit Provenance Information.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from deltalite.errors import (
    CommitStateUnknownError,
    ConcurrentModificationException,
    ConcurrentWriteException,
    StorageError,
    UnsupportedStorageError,
)
from deltalite.protocol.actions import Action, CommitInfo, commit_to_bytes
from deltalite.protocol.file_names import commit_name, first_name_of
from deltalite.storage.log_store import LogStore
from deltalite.txn.commit_time import carries_time, dated_metadata, earliest_ms
from deltalite.txn.proposal import Proposal, ReadSet
from deltalite.txn.winners import AlreadyDone, IsOurs, Stands, Winner, judge, read_winner
from deltalite.version import ENGINE_INFO


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """Our actions are version `version`, at `timestamp_ms` (UTC)."""

    version: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DoneByAnotherTry:
    """Another try of the same run committed `version`; ours was not written."""

    version: int


def commit(
    store: LogStore,
    proposal: Proposal,
    *,
    clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    max_attempts: int = 1000,
    pause: Callable[[float], None] = time.sleep,
) -> Committed | DoneByAnotherTry:
    """Commit a proposal on top of its read version, or of what was committed since where that does not contradict it.

    Raises:
        ConcurrentModificationException: a winner contradicts the proposal, all attempts were lost, or the version that
            was read is no longer in the log.
        CommitStateUnknownError: the put was not answered or found its name taken, and the log cannot be read to find
            out by whom.
        StorageError: the put failed, and the log shows that the commit is not there.
    """
    _check_base(store, proposal.read_version)
    txn_id = str(uuid.uuid4())
    version = proposal.read_version + 1
    below: Winner | None = None
    earliest = earliest_ms(store, proposal, below)
    for attempt in range(max_attempts):
        timestamp_ms = max(clock_ms(), earliest)
        data = commit_to_bytes(_actions(proposal, version, txn_id, timestamp_ms))
        if _put(store, version, data, txn_id):
            return Committed(version=version, timestamp_ms=timestamp_ms)
        for winner in _winners(store, version):
            verdict = judge(proposal, winner, txn_id)
            match verdict:
                case Stands(reads=reads):
                    version, proposal, below = winner.version + 1, _on_top_of(winner, proposal, reads), winner
                case IsOurs():
                    return Committed(version=winner.version, timestamp_ms=timestamp_ms)
                case AlreadyDone():
                    return DoneByAnotherTry(version=winner.version)
                case ConcurrentModificationException():
                    raise verdict
        earliest = earliest_ms(store, proposal, below)
        pause(random.uniform(0, min(0.01 * 2 ** min(attempt, 6), 0.5)))  # noqa: S311  jitter, not a secret
    raise ConcurrentWriteException(
        f"{max_attempts} attempts to commit to {store.root} were all lost, the last for version {version}.",
        remedy="Run the task again, or let fewer tasks write to the table at once.",
    )


def _check_base(store: LogStore, version: int) -> None:
    """Return where the log still has the version that was read: beyond a cleanup, a name that is free means nothing."""
    if version < 0:
        return
    first = next(iter(store.list_from(first_name_of(version))), None)
    if first is None or not first.name.startswith(first_name_of(version)):
        raise ConcurrentWriteException(
            f"The log of {store.root} no longer has version {version}, which this operation has read: it was cleaned "
            "up, or the table was removed.",
            remedy="Run the task again: it will start from the table as it is now.",
        )


def _put(store: LogStore, version: int, data: bytes, txn_id: str) -> bool:
    """Whether our commit is version `version`; False where another's is."""
    name = commit_name(version)
    try:
        return store.write_if_absent(name, data)
    except UnsupportedStorageError:
        raise
    except (StorageError, CommitStateUnknownError) as error:
        try:
            found = store.read(name)
        except StorageError as unreadable:
            raise CommitStateUnknownError(
                f"The commit of version {version} to {store.root} was not answered ({error.problem}), and "
                f"the log cannot be read to find out ({unreadable.problem}).",
                remedy="Look whether the table's history shows this run before it is run again.",
            ) from error
        if found is None:
            raise
        return read_winner(version, found).info.get("txnId") == txn_id


def _winners(store: LogStore, version: int) -> Iterator[Winner]:
    """The commits from `version` on, as far as there are any. The first has the name that our put found taken."""
    try:
        data = store.read(commit_name(version))
    except StorageError as error:  # a client below us may have put twice, and been refused by its own first try
        raise CommitStateUnknownError(
            f"Version {version} of {store.root} was taken when this run put its commit, and it cannot be read whose it "
            f"is ({error.problem}).",
            remedy="Look whether the table's history shows this run before it is run again.",
        ) from error
    while data is not None:
        yield read_winner(version, data)
        version += 1
        data = store.read(commit_name(version))


def _on_top_of(winner: Winner, proposal: Proposal, reads: ReadSet) -> Proposal:
    """The proposal as it stands on the winner's version: what it rests on, and the rules that hold there."""
    return replace(
        proposal,
        reads=reads,
        read_protocol=winner.protocol or proposal.read_protocol,
        read_metadata=winner.metadata or proposal.read_metadata,
    )


def _actions(proposal: Proposal, version: int, txn_id: str, timestamp_ms: int) -> Iterator[Action]:
    """Provenance first, where the protocol wants it, then what the file actions depend on."""
    yield CommitInfo(values=_commit_info(proposal, txn_id, timestamp_ms))
    metadata = dated_metadata(proposal, version, timestamp_ms)
    yield from (a for a in (proposal.protocol, metadata, proposal.txn) if a is not None)
    yield from proposal.removes
    yield from proposal.adds
    yield from proposal.changes


def _commit_info(proposal: Proposal, txn_id: str, timestamp_ms: int) -> dict[str, Any]:
    operation = proposal.operation
    info: dict[str, Any] = {"inCommitTimestamp": timestamp_ms} if carries_time(proposal) else {}
    info |= {"timestamp": timestamp_ms, "operation": operation.name}
    info["operationParameters"] = dict(operation.parameters)
    if proposal.read_version >= 0:
        info["readVersion"] = proposal.read_version
    info["isolationLevel"] = proposal.isolation.value
    info["isBlindAppend"] = proposal.is_blind_append
    info["operationMetrics"] = {name: str(value) for name, value in operation.metrics.items()}
    if operation.user_metadata is not None:
        info["userMetadata"] = operation.user_metadata
    info["engineInfo"] = ENGINE_INFO
    info["txnId"] = txn_id
    return info
