"""What a commit of another writer means for ours: the conflict rules.

`judge` takes our proposal and one winner and says what follows; it does no I/O. Until an operation can be replanned,
only a blind append survives a winner; everything else fails with the error that says who won. delta-spark:
ConflictChecker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deltalite.errors import (
    ConcurrentModificationException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    MetadataChangedException,
    ProtocolChangedException,
)
from deltalite.protocol.actions import Action, CommitInfo, Metadata, Protocol, SetTransaction
from deltalite.txn.proposal import Proposal

_RETRY = "Run the task again: it will start from the table as it is now."


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """A commit that took the version we wanted."""

    version: int
    actions: Sequence[Action]

    @property
    def info(self) -> dict[str, Any]:
        """Its provenance, empty where it gave none."""
        return next((dict(a.values) for a in self.actions if isinstance(a, CommitInfo)), {})

    def __str__(self) -> str:
        who = self.info.get("userMetadata") or self.info.get("engineInfo") or "an unnamed writer"
        return f"version {self.version} ({self.info.get('operation', 'unknown operation')}, by {str(who)[:200]})"


class Stands:
    """Our commit is right on top of the winner."""


class IsOurs:
    """The winner is our own commit, whose answer was lost."""


class AlreadyDone:
    """The winner is another try of the same run: there is nothing left to do."""


Verdict = Stands | IsOurs | AlreadyDone | ConcurrentModificationException


def judge(ours: Proposal, winner: Winner, txn_id: str) -> Verdict:
    """Decide on one winner; an error is returned, not raised."""
    # Case 1: the put succeeded and its answer was lost.
    if winner.info.get("txnId") == txn_id:
        return IsOurs()
    # Case 2: the same run has committed meanwhile, such as an orphaned job of an earlier try.
    theirs = _same_app(ours, winner)
    if theirs is not None and ours.txn is not None:
        if theirs.version >= ours.txn.version:
            return AlreadyDone()
        return ConcurrentTransactionException(
            f"An earlier try of this run committed {winner} while this one was at work.", remedy=_RETRY
        )
    # Case 3: the rules of the table are not those we checked against.
    if any(isinstance(a, Protocol) for a in winner.actions):
        return ProtocolChangedException(f"The table's protocol was changed by {winner}.", remedy=_RETRY)
    # Case 4: the schema or the properties are not those we wrote for.
    if any(isinstance(a, Metadata) for a in winner.actions):
        return MetadataChangedException(f"The table's metadata was changed by {winner}.", remedy=_RETRY)
    # Case 5: we read nothing and removed nothing.
    if ours.may_rebase:
        return Stands()
    # Case 6: whether the winner matters cannot be told yet.
    return ConcurrentWriteException(
        f"{ours.operation.name} was prepared on version {ours.read_version}, and {winner} was committed first.",
        remedy=_RETRY,
    )


def _same_app(ours: Proposal, winner: Winner) -> SetTransaction | None:
    if ours.txn is None:
        return None
    return next((a for a in winner.actions if isinstance(a, SetTransaction) and a.app_id == ours.txn.app_id), None)
