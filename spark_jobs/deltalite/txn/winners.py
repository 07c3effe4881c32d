"""The conflict rules: whether the current transaction may commit on top of a winning commit.

`judge` compares our proposal with one winning commit and does no I/O. The attempt fails if the winning commit changed
the table's rules, added rows that we would have read, or removed files that we depend on. The error names the winning
commit. Otherwise our commit goes on top of it.

Files that a winning commit only rearranged hold the same rows as before. They do not conflict, unless we remove the
same files. Our read set then follows the rows to their new files.

delta-spark: ConflictChecker. It is stricter than `_append_conflict`, `_judge_removes` and `compatible_changes`, as
their docstrings say.
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
from deltalite.txn.compatible_changes import conflict_in_metadata, conflict_in_protocol
from deltalite.txn.isolation import IsolationLevel
from deltalite.txn.proposal import Proposal, ReadSet
from deltalite.txn.resuming import resumes_concurrent_commit

# Fields that a snapshot accepts as missing. Here a missing `dataChange` counts as a change of rows.
_LENIENT: Mapping[str, Mapping[str, Any]] = {
    AddFile.action: {**LENIENT, "dataChange": True},
    RemoveFile.action: {"dataChange": True},
}
VACUUM_START, VACUUM_END = "VACUUM START", "VACUUM END"
"""The operations that a vacuum commits before and after it deletes."""
_RETRY = "Run the task again: it starts from the newest version."


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """A winning commit: it took the version of our attempt.

    Each property about files iterates `actions` again, so that the files of a large commit are parsed again each time
    and never held in memory. The winner holds only the other actions, and which kinds of actions there are.
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
        """The provenance of the commit; empty if it has none."""
        return next((dict(a.values) for a in self.small_actions if isinstance(a, CommitInfo)), {})

    @property
    def protocol(self) -> Protocol | None:
        """The protocol that the commit set, if any."""
        return next((a for a in self.small_actions if isinstance(a, Protocol)), None)

    @property
    def metadata(self) -> Metadata | None:
        """The metadata that the commit set, if any."""
        return next((a for a in self.small_actions if isinstance(a, Metadata)), None)

    @property
    def is_blind_append(self) -> bool:
        """Whether the commit declares that it added files without reading any."""
        return self.info.get("isBlindAppend") is True

    @property
    def new_rows(self) -> Iterator[AddFile]:
        """The added files that hold new rows."""
        return (a for a in self.adds if a.data_change)

    @property
    def adds(self) -> Iterator[AddFile]:
        """The added files."""
        return (a for a in self._actions_with(AddFile) if isinstance(a, AddFile))

    @property
    def removes(self) -> Iterator[RemoveFile]:
        """The removed files."""
        return (a for a in self._actions_with(RemoveFile) if isinstance(a, RemoveFile))

    def _actions_with(self, kind: type[Action]) -> Iterable[Action]:
        """Return all actions, or none if the commit has no action of the kind."""
        return self.actions if kind in self._kinds else ()

    def __str__(self) -> str:
        writer = self.info.get("userMetadata") or self.info.get("engineInfo") or "an unnamed writer"
        return f"version {self.version} ({self.info.get('operation', 'unknown operation')}, by {str(writer)[:200]})"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoConflict:
    """The verdict that our commit may go on top of the winning commit. `reads` is our read set from there on."""

    reads: ReadSet


def read_winner(version: int, data: bytes) -> Winner:
    """Parse the commit file of a winner. A missing `dataChange` counts as a change of rows.

    Raises:
        CorruptLogError: the commit is malformed.
    """
    return Winner(version=version, actions=_ParsedActions(data=data, name=commit_name(version)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _ParsedActions:
    """The actions of a commit file. Each iteration parses the content again in blocks, and holds no action."""

    data: bytes
    name: str

    def __iter__(self) -> Iterator[Action]:
        for kind, body in actions_in(self.data, self.name):
            action = parse_action(kind, _with_data_change(kind, body), self.name)
            if action is not None:
                yield action


def _with_data_change(kind: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    lenient = _LENIENT.get(kind)
    if lenient is None or all(body.get(key) is not None for key in lenient):
        return body
    return {**lenient, **{key: value for key, value in body.items() if value is not None}}


class IsOurs:
    """The verdict that the winner is our own commit: the put succeeded, but storage did not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadyDone:
    """The verdict that the winner is another attempt of the same run, so nothing is left to do."""

    app_id: str


Verdict = NoConflict | IsOurs | AlreadyDone | ConcurrentModificationException


def judge(ours: Proposal, winner: Winner, txn_id: str) -> Verdict:
    """Decide whether our proposal may go on top of one winner; a conflict is returned, not raised."""
    # Case 1: the put succeeded, but storage did not answer.
    if winner.info.get("txnId") == txn_id:
        return IsOurs()
    # Case 2: the same run has committed meanwhile, such as an orphaned job of an earlier task attempt.
    winner_txn = _txn_of_same_app(ours, winner)
    if winner_txn is not None and ours.txn is not None:
        if not _is_of_our_run(ours, winner):
            writer = "Another run of the same idempotency key"
        elif winner_txn.version >= ours.txn.version:
            return AlreadyDone(app_id=winner_txn.app_id)
        else:
            writer = "An earlier attempt of this run"
        return ConcurrentTransactionException(
            f"{writer} committed {winner} while this task was running.", remedy=_RETRY
        )
    # Case 3: the winner changed rules, rows or files that our proposal depends on.
    conflict = _vacuum_conflict(ours, winner) or _rule_conflict(ours, winner) or _append_conflict(ours, winner)
    return conflict or _judge_removes(ours, winner)


def _rule_conflict(ours: Proposal, winner: Winner) -> ConcurrentModificationException | None:
    protocol, metadata = winner.protocol, winner.metadata
    if protocol is not None:
        reason = (
            "this operation sets it too"
            if ours.protocol is not None or ours.base.protocol is None or ours.base.metadata is None
            else conflict_in_protocol(ours.base.protocol, protocol, ours.base.metadata, metadata)
        )
        if reason is not None:
            return ProtocolChangedException(
                f"The winning commit, {winner}, changed the table's protocol: {reason}.", remedy=_RETRY
            )
    if metadata is not None:
        reason = (
            "this operation sets it too"
            if ours.metadata is not None or ours.base.metadata is None
            else conflict_in_metadata(ours.base.metadata, metadata)
        )
        if reason is not None:
            return MetadataChangedException(
                f"The winning commit, {winner}, changed the table's metadata: {reason}.", remedy=_RETRY
            )
    winner_domains = {a.domain for a in winner.small_actions if isinstance(a, DomainMetadata)}
    shared_domains = sorted(winner_domains & {domain.domain for domain in ours.domains})
    if shared_domains:
        return MetadataChangedException(
            f"The winning commit, {winner}, changed the domain metadata {shared_domains[0]}, which this operation "
            "sets too.",
            remedy=_RETRY,
        )
    if ours.adds and CLUSTERING_DOMAIN in winner_domains:
        # Our files may lack the statistics of a new clustering column; delta-spark accepts them.
        return MetadataChangedException(
            f"The winning commit, {winner}, changed the table's clustering columns.", remedy=_RETRY
        )
    return None


def _vacuum_conflict(ours: Proposal, winner: Winner) -> ConcurrentModificationException | None:
    """Return the conflict with a vacuum that started and may delete files that our commit brings back."""
    if ours.revives_files and winner.info.get("operation") == VACUUM_START:
        return ConcurrentWriteException(
            f"A vacuum started in {winner}, and may delete files that this operation brings back.", remedy=_RETRY
        )
    return None


def _append_conflict(ours: Proposal, winner: Winner) -> ConcurrentModificationException | None:
    """Return the conflict with added rows that we would have read.

    The check uses partition values and statistics. delta-spark uses partition values only.
    """
    if ours.metadata is None:  # a commit that changes the metadata must have read all rows that it applies to
        if ours.isolation is IsolationLevel.SNAPSHOT:
            return None
        if ours.isolation is IsolationLevel.WRITE_SERIALIZABLE and winner.is_blind_append:
            return None
    if not (ours.reads.whole_table or ours.reads.rows):
        return None
    file = next((a for a in winner.new_rows if ours.reads.would_have_read(a)), None)
    if file is None:
        return None
    return ConcurrentAppendException(
        f"{ours.operation.name} read the table at version {ours.base.version}, and the winning commit, {winner}, added "
        f"{_text_of_rows(file)} that this operation would have read.",
        remedy=_RETRY,
    )


def _judge_removes(ours: Proposal, winner: Winner) -> ConcurrentModificationException | NoConflict:
    """Decide on the files that the winner removed, which is the last check.

    delta-spark also reports a conflict if the winner only moved rows to other files. Here the read set follows such
    rows. A row-level operation does not conflict with the removal of rows that it did not change.
    """
    verbs = {file_key(r.path, r.deletion_vector): "removes" for r in ours.removes}
    # A backfill of row ids re-adds files with other values, and without a change of data.
    verbs |= {file_key(a.path, a.deletion_vector): "re-adds" for a in ours.adds if not a.data_change}
    if not (verbs or ours.reads.whole_table or ours.reads.keys):
        return NoConflict(reads=ours.reads)
    moved_rows = False
    for remove in winner.removes:
        key = file_key(remove.path, remove.deletion_vector)
        if key in verbs:
            return ConcurrentDeleteDeleteException(
                f"{ours.operation.name} {verbs[key]} the file {remove.path}, but the winning commit, {winner}, removed "
                "it first.",
                remedy=_RETRY,
            )
        if remove.data_change and not ours.row_level and (ours.reads.whole_table or key in ours.reads.keys):
            return ConcurrentDeleteReadException(
                f"{ours.operation.name} read the file {remove.path} at version {ours.base.version}, and the winning "
                f"commit, {winner}, removed it.",
                remedy=_RETRY,
            )
        moved_rows = moved_rows or key in ours.reads.keys
    re_added = (a for a in winner.adds if not a.data_change and file_key(a.path, a.deletion_vector) in verbs)
    file = next(re_added, None)
    if file is not None:  # our actions on the file lack the new values
        verb = verbs[file_key(file.path, file.deletion_vector)]
        return ConcurrentDeleteReadException(
            f"{ours.operation.name} {verb} the file {file.path}, and the winning commit, {winner}, re-added it with "
            "other values, such as row ids.",
            remedy=_RETRY,
        )
    return NoConflict(reads=_follow_moved_rows(ours.reads, winner) if moved_rows else ours.reads)


def _follow_moved_rows(reads: ReadSet, winner: Winner) -> ReadSet:
    """Return the read set, extended by the files to which the winner moved rows that we have read."""
    moved_to = (a for a in winner.adds if not a.data_change)
    return replace(reads, keys=reads.keys | {file_key(a.path, a.deletion_vector) for a in moved_to})


def _text_of_rows(added: AddFile) -> str:
    partition = ", ".join(f"{column}={value}" for column, value in sorted(added.partition_values.items()))
    return f"rows to the partition {partition}" if partition else "rows"


def _is_of_our_run(ours: Proposal, winner: Winner) -> bool:
    """Whether a winner with our app id is another attempt of our run. Several runs may share an idempotency key."""
    current = RunProvenance.from_text(ours.operation.user_metadata)
    return resumes_concurrent_commit(current, RunProvenance.from_text(winner.info.get("userMetadata")))


def _txn_of_same_app(ours: Proposal, winner: Winner) -> SetTransaction | None:
    if ours.txn is None:
        return None
    return next(
        (a for a in winner.small_actions if isinstance(a, SetTransaction) and a.app_id == ours.txn.app_id), None
    )
