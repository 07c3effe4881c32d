"""What a commit of another writer means for ours: the conflict rules.

`judge` takes our proposal and one winner and says what follows; it does no I/O. A winner that changed rules, added rows
we would have read, or removed files we rest on ends the attempt, with the error that says who won; any other winner
stands below us. Files that a winner merely rearranged hold the rows that were there before, so they are no news, unless
they are the very files that we remove; what we have read of the old files we then rest on in the new ones.
delta-spark: ConflictChecker, which is stricter where `_appended`, `_removed` and `absorbed` say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from deltalite.errors import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentModificationException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    MetadataChangedException,
    ProtocolChangedException,
)
from deltalite.log.action_files import actions_in
from deltalite.log.file_table import LENIENT, file_key
from deltalite.protocol.actions import (
    Action,
    AddCDCFile,
    AddFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
    parse_action,
)
from deltalite.protocol.clustering import CLUSTERING_DOMAIN
from deltalite.protocol.file_names import commit_name
from deltalite.requests import RunProvenance
from deltalite.txn.absorbed import contradiction_in_metadata, contradiction_in_protocol
from deltalite.txn.isolation import IsolationLevel
from deltalite.txn.proposal import Proposal, ReadSet
from deltalite.txn.resuming import resumes_concurrent_commit

# What a snapshot forgives a writer to leave out; here it counts as a change of rows.
_LENIENT: Mapping[str, Mapping[str, Any]] = {
    AddFile.action: {**LENIENT, "dataChange": True},
    RemoveFile.action: {"dataChange": True},
}
VACUUM_START, VACUUM_END = "VACUUM START", "VACUUM END"
"""The operations by which a vacuum says when it deletes."""
_RETRY = "Run the task again: it starts from the newest version."


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """A commit that took the version we wanted.

    Each question about files iterates `actions` again. So a large commit can be parsed anew each time, and its files
    are never held. The winner holds the other actions, and knows which kinds there are.
    """

    version: int
    actions: Iterable[Action]
    small_actions: tuple[Action, ...] = field(init=False)
    """All actions except those about files."""
    _kinds: frozenset[type[Action]] = field(init=False)

    def __post_init__(self) -> None:
        small_actions: list[Action] = []
        kinds: set[type[Action]] = set()
        for action in self.actions:
            kinds.add(type(action))
            if not isinstance(action, AddFile | RemoveFile | AddCDCFile):
                small_actions.append(action)
        object.__setattr__(self, "small_actions", tuple(small_actions))
        object.__setattr__(self, "_kinds", frozenset(kinds))

    @property
    def info(self) -> dict[str, Any]:
        """Its provenance, empty where it gave none."""
        return next((dict(a.values) for a in self.small_actions if isinstance(a, CommitInfo)), {})

    @property
    def protocol(self) -> Protocol | None:
        """The protocol it set."""
        return next((a for a in self.small_actions if isinstance(a, Protocol)), None)

    @property
    def metadata(self) -> Metadata | None:
        """The metadata it set."""
        return next((a for a in self.small_actions if isinstance(a, Metadata)), None)

    @property
    def is_blind_append(self) -> bool:
        """Whether it says that it added files without reading any."""
        return self.info.get("isBlindAppend") is True

    @property
    def new_rows(self) -> Iterator[AddFile]:
        """The files it added whose rows were not there before."""
        return (a for a in self.adds if a.data_change)

    @property
    def adds(self) -> Iterator[AddFile]:
        """The files it added."""
        return (a for a in self._actions_with(AddFile) if isinstance(a, AddFile))

    @property
    def removes(self) -> Iterator[RemoveFile]:
        """The files it removed."""
        return (a for a in self._actions_with(RemoveFile) if isinstance(a, RemoveFile))

    def _actions_with(self, kind: type[Action]) -> Iterable[Action]:
        """All actions, or none where none is of the kind."""
        return self.actions if kind in self._kinds else ()

    def __str__(self) -> str:
        who = self.info.get("userMetadata") or self.info.get("engineInfo") or "an unnamed writer"
        return f"version {self.version} ({self.info.get('operation', 'unknown operation')}, by {str(who)[:200]})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stands:
    """Our commit is right on top of the winner. `reads` is what it rests on from there on."""

    reads: ReadSet


def read_winner(version: int, data: bytes) -> Winner:
    """The winner from its commit file. What some writers leave out is filled in so that it counts as a change of rows.

    Raises:
        CorruptLogError: the commit is malformed.
    """
    return Winner(version=version, actions=_ParsedActions(data=data, name=commit_name(version)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _ParsedActions:
    """The actions of a commit file. Each iteration parses its content anew, a block at a time, and holds no action."""

    data: bytes
    name: str

    def __iter__(self) -> Iterator[Action]:
        for kind, body in actions_in(self.data, self.name):
            action = parse_action(kind, _filled(kind, body), self.name)
            if action is not None:
                yield action


def _filled(kind: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    lenient = _LENIENT.get(kind)
    if lenient is None or all(body.get(key) is not None for key in lenient):
        return body
    return {**lenient, **{key: value for key, value in body.items() if value is not None}}


class IsOurs:
    """The winner is our own commit, whose answer was lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadyDone:
    """The winner is another try of the same run: there is nothing left to do."""

    app_id: str


Verdict = Stands | IsOurs | AlreadyDone | ConcurrentModificationException


def judge(ours: Proposal, winner: Winner, txn_id: str) -> Verdict:
    """Decide on one winner; an error is returned, not raised."""
    # Case 1: the put succeeded and its answer was lost.
    if winner.info.get("txnId") == txn_id:
        return IsOurs()
    # Case 2: the same run has committed meanwhile, such as an orphaned job of an earlier try.
    theirs = _same_app(ours, winner)
    if theirs is not None and ours.txn is not None:
        if not _is_of_our_run(ours, winner):
            who = "Another run of the same idempotency key"
        elif theirs.version >= ours.txn.version:
            return AlreadyDone(app_id=theirs.app_id)
        else:
            who = "An earlier try of this run"
        return ConcurrentTransactionException(f"{who} committed {winner} while this task was running.", remedy=_RETRY)
    # Case 3: the rules of the table, its rows or its files are not those that ours rests on.
    contradiction = _vacuumed(ours, winner) or _rules(ours, winner) or _appended(ours, winner)
    return contradiction or _removed(ours, winner)


def _rules(ours: Proposal, winner: Winner) -> ConcurrentModificationException | None:
    protocol, metadata = winner.protocol, winner.metadata
    if protocol is not None:
        why = (
            "this operation sets it too"
            if ours.protocol is not None or ours.read_protocol is None or ours.read_metadata is None
            else contradiction_in_protocol(ours.read_protocol, protocol, ours.read_metadata, metadata)
        )
        if why is not None:
            return ProtocolChangedException(
                f"The winning commit, {winner}, changed the table's protocol: {why}.", remedy=_RETRY
            )
    if metadata is not None:
        why = (
            "this operation sets it too"
            if ours.metadata is not None or ours.read_metadata is None
            else contradiction_in_metadata(ours.read_metadata, metadata)
        )
        if why is not None:
            return MetadataChangedException(
                f"The winning commit, {winner}, changed the table's metadata: {why}.", remedy=_RETRY
            )
    theirs = {a.domain for a in winner.small_actions if isinstance(a, DomainMetadata)}
    both = sorted(theirs & {domain.domain for domain in ours.domains})
    if both:
        return MetadataChangedException(
            f"The winning commit, {winner}, changed the domain metadata {both[0]}, which this operation sets too.",
            remedy=_RETRY,
        )
    if ours.adds and CLUSTERING_DOMAIN in theirs:
        # Our files may lack the statistics of a new clustering column; delta-spark lets them in.
        return MetadataChangedException(
            f"The winning commit, {winner}, changed the table's clustering columns.", remedy=_RETRY
        )
    return None


def _vacuumed(ours: Proposal, winner: Winner) -> ConcurrentModificationException | None:
    """Whether a vacuum has begun that may have files on its list that ours brings back."""
    if ours.revives_files and winner.info.get("operation") == VACUUM_START:
        return ConcurrentWriteException(
            f"A vacuum started in {winner}, and may delete files that this operation brings back.", remedy=_RETRY
        )
    return None


def _appended(ours: Proposal, winner: Winner) -> ConcurrentModificationException | None:
    """Rows that we would have read. Statistics count beside partition values, which is more than delta-spark asks."""
    if ours.metadata is None:  # else rows that nobody has read would stand under rules that they were not made for
        if ours.isolation is IsolationLevel.SNAPSHOT:
            return None
        if ours.isolation is IsolationLevel.WRITE_SERIALIZABLE and winner.is_blind_append:
            return None
    if not (ours.reads.whole_table or ours.reads.rows):
        return None
    added = next((a for a in winner.new_rows if ours.reads.would_have_read(a)), None)
    if added is None:
        return None
    return ConcurrentAppendException(
        f"{ours.operation.name} read the table at version {ours.read_version}, and the winning commit, {winner}, added "
        f"{_place(added)} that it would have read.",
        remedy=_RETRY,
    )


def _removed(ours: Proposal, winner: Winner) -> ConcurrentModificationException | Stands:
    """The verdict on the winner's removes, which is the last one: files that we rest on may be among them.

    delta-spark also counts those whose rows a winner only moved to other files; here the read set follows such rows. To
    an operation that judged each row by itself, rows that it left alone are no loss.
    """
    mine = {file_key(r.path, r.deletion_vector) for r in ours.removes}
    if not (mine or ours.reads.whole_table or ours.reads.keys):
        return Stands(reads=ours.reads)
    moved_rows = False
    for remove in winner.removes:
        key = file_key(remove.path, remove.deletion_vector)
        if key in mine:
            return ConcurrentDeleteDeleteException(
                f"{ours.operation.name} removes the file {remove.path}, but the winning commit, {winner}, removed it "
                "first.",
                remedy=_RETRY,
            )
        if remove.data_change and not ours.row_level and (ours.reads.whole_table or key in ours.reads.keys):
            return ConcurrentDeleteReadException(
                f"{ours.operation.name} read the file {remove.path} at version {ours.read_version}, and the winning "
                f"commit, {winner}, removed it.",
                remedy=_RETRY,
            )
        moved_rows = moved_rows or key in ours.reads.keys
    return Stands(reads=_followed(ours.reads, winner) if moved_rows else ours.reads)


def _followed(reads: ReadSet, winner: Winner) -> ReadSet:
    """The read set with the files to which the winner moved rows that were read."""
    moved_to = (a for a in winner.adds if not a.data_change)
    return replace(reads, keys=reads.keys | {file_key(a.path, a.deletion_vector) for a in moved_to})


def _place(added: AddFile) -> str:
    where = ", ".join(f"{column}={value}" for column, value in sorted(added.partition_values.items()))
    return f"rows to the partition {where}" if where else "rows"


def _is_of_our_run(ours: Proposal, winner: Winner) -> bool:
    """Whether the winner, which has our app id, is another try of our run: several runs may share a key."""
    own = RunProvenance.from_text(ours.operation.user_metadata)
    return resumes_concurrent_commit(own, RunProvenance.from_text(winner.info.get("userMetadata")))


def _same_app(ours: Proposal, winner: Winner) -> SetTransaction | None:
    if ours.txn is None:
        return None
    return next(
        (a for a in winner.small_actions if isinstance(a, SetTransaction) and a.app_id == ours.txn.app_id), None
    )
