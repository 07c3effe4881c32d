"""The conflict rules: whether the current transaction may commit on top of a winning commit.

`judge` compares a proposal with one winning commit and does no I/O. It returns a conflict that names the winning commit
in these cases:

- The winning commit has the app id of this run, and did not do the work of this run.
- The winning commit started a vacuum, which may delete files that the proposal brings back.
- The winning commit changed the table's rules.
- The winning commit set the source offset of a flow, or the record of loaded files, that the operation read.
- The winning commit added rows that the operation would have read.
- The winning commit removed files that the proposal depends on, or added them again with other values.

If the winning commit did the work of this run, or is the commit of this proposal, the verdict says so. Otherwise the
proposal goes on top of the winning commit.

A winning commit that only moves rows to new files conflicts if the proposal removes or re-adds the old files. Without a
conflict, the read set of the proposal gets the new files.

delta-spark's ConflictChecker reports more conflicts; `_append_conflict`, `_judge_removes` and `compatible_changes`
describe the differences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from deltalite.errors import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentFlowException,
    ConcurrentModificationException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    MetadataChangedException,
    ProtocolChangedException,
)
from deltalite.log.action_files import actions_in
from deltalite.log.file_table import FIELD_DEFAULTS, file_key
from deltalite.protocol.actions import (
    LOADED_FILES_APP_ID,
    SOURCE_OFFSET_PREFIX,
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
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    AddFile.action: {**FIELD_DEFAULTS, "dataChange": True},
    RemoveFile.action: {"dataChange": True},
}
VACUUM_START, VACUUM_END = "VACUUM START", "VACUUM END"
"""The operations that a vacuum commits before and after it deletes files."""
RETRY_REMEDY = "Run the task again: it starts from the newest version."


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """A winning commit: it took a version that the current transaction tried to commit.

    Each property about files iterates `actions` again, because the files of a large commit would fill the memory.
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
    def adds_with_new_rows(self) -> Iterator[AddFile]:
        """The added files that hold new rows."""
        return (a for a in self.adds if a.data_change)

    @property
    def adds(self) -> Iterator[AddFile]:
        """The added files."""
        return (a for a in self._actions_if_any_is(AddFile) if isinstance(a, AddFile))

    @property
    def removes(self) -> Iterator[RemoveFile]:
        """The removed files."""
        return (a for a in self._actions_if_any_is(RemoveFile) if isinstance(a, RemoveFile))

    def _actions_if_any_is(self, kind: type[Action]) -> Iterable[Action]:
        """Return all actions, or none if the commit has no action of the kind."""
        return self.actions if kind in self._kinds else ()

    def __str__(self) -> str:
        writer = self.info.get("userMetadata") or self.info.get("engineInfo") or "an unnamed writer"
        return f"version {self.version} ({self.info.get('operation', 'unknown operation')}, by {str(writer)[:200]})"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoConflict:
    """The verdict that the proposal may go on top of the winning commit, with `reads` as its read set."""

    reads: ReadSet


def read_winner(version: int, data: bytes) -> Winner:
    """Parse the commit file of a winner.

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
            action = parse_action(kind, _with_defaults(kind, body), self.name)
            if action is not None:
                yield action


def _with_defaults(kind: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    defaults = _DEFAULTS.get(kind)
    if defaults is None or all(body.get(key) is not None for key in defaults):
        return body
    return {**defaults, **{key: value for key, value in body.items() if value is not None}}


class IsThisCommit:
    """The verdict that the winner is the commit of this proposal: the put succeeded, but storage did not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadyDone:
    """The verdict that another attempt of the same run made the winning commit, so this attempt has no work to do."""

    app_id: str


Verdict = NoConflict | IsThisCommit | AlreadyDone | ConcurrentModificationException


def judge(proposal: Proposal, winner: Winner, txn_id: str) -> Verdict:
    """Decide whether a proposal, with the `txnId` `txn_id`, may go on top of a winner.

    A conflict is returned, not raised.
    """
    # Case 1: the put succeeded, but storage did not answer.
    if winner.info.get("txnId") == txn_id:
        return IsThisCommit()
    # Case 2: the same run has committed meanwhile, such as an orphaned job of an earlier task attempt.
    winner_txn = _txn_of_same_app(proposal, winner)
    if winner_txn is not None and proposal.txn is not None:
        if not _is_of_same_run(proposal, winner):
            writer = "Another run of the same idempotency key"
        elif winner_txn.version >= proposal.txn.version:
            return AlreadyDone(app_id=winner_txn.app_id)
        else:
            writer = "An earlier attempt of this run"
        return ConcurrentTransactionException(
            f"{writer} committed {winner} while this task was running.", remedy=RETRY_REMEDY
        )
    # Case 3: the winner changed offsets, rules, rows or files that the proposal depends on.
    conflict = (
        _offset_conflict(proposal, winner)
        or _vacuum_conflict(proposal, winner)
        or _rule_conflict(proposal, winner)
        or _append_conflict(proposal, winner)
    )
    return conflict or _judge_removes(proposal, winner)


def _offset_conflict(proposal: Proposal, winner: Winner) -> ConcurrentModificationException | None:
    """Return the conflict with an offset or a record of loaded files that the operation read and the winner set."""
    prefixes = proposal.reads.app_id_prefixes
    app_ids = (a.app_id for a in winner.small_actions if isinstance(a, SetTransaction)) if prefixes else iter(())
    app_id = next((app_id for app_id in app_ids if app_id.startswith(prefixes)), None)
    if app_id is None:
        return None
    kind = "source offset" if app_id.startswith(SOURCE_OFFSET_PREFIX) else "transaction"
    subject = "the record of loaded files" if app_id == LOADED_FILES_APP_ID else f"the {kind} '{app_id}'"
    return ConcurrentFlowException(
        f"The winning commit, {winner}, set {subject}, which this operation read at version {proposal.base.version}.",
        remedy=RETRY_REMEDY,
    )


def _rule_conflict(proposal: Proposal, winner: Winner) -> ConcurrentModificationException | None:
    """Return the conflict with a change of the protocol, the metadata, a shared domain or the clustering columns."""
    protocol, metadata = winner.protocol, winner.metadata
    if protocol is not None:
        reason = (
            "this operation sets it too"
            if proposal.protocol is not None or proposal.base.protocol is None or proposal.base.metadata is None
            else conflict_in_protocol(proposal.base.protocol, protocol, proposal.base.metadata, metadata)
        )
        if reason is not None:
            return ProtocolChangedException(
                f"The winning commit, {winner}, changed the table's protocol: {reason}.", remedy=RETRY_REMEDY
            )
    if metadata is not None:
        reason = (
            "this operation sets it too"
            if proposal.metadata is not None or proposal.base.metadata is None
            else conflict_in_metadata(proposal.base.metadata, metadata)
        )
        if reason is not None:
            return MetadataChangedException(
                f"The winning commit, {winner}, changed the table's metadata: {reason}.", remedy=RETRY_REMEDY
            )
    winner_domains = {a.domain for a in winner.small_actions if isinstance(a, DomainMetadata)}
    shared_domains = sorted(winner_domains & {domain.domain for domain in proposal.domains})
    if shared_domains:
        return MetadataChangedException(
            f"The winning commit, {winner}, changed the domain metadata {shared_domains[0]}, which this operation "
            "sets too.",
            remedy=RETRY_REMEDY,
        )
    if proposal.adds and CLUSTERING_DOMAIN in winner_domains:
        # The added files may lack the statistics of a new clustering column; delta-spark accepts such files.
        return MetadataChangedException(
            f"The winning commit, {winner}, changed the table's clustering columns.", remedy=RETRY_REMEDY
        )
    return None


def _vacuum_conflict(proposal: Proposal, winner: Winner) -> ConcurrentModificationException | None:
    """Return the conflict with a vacuum that started and may delete files that the proposal brings back."""
    if proposal.revives_files and winner.info.get("operation") == VACUUM_START:
        return ConcurrentWriteException(
            f"A vacuum started in {winner}, and may delete files that this operation brings back.", remedy=RETRY_REMEDY
        )
    return None


def _append_conflict(proposal: Proposal, winner: Winner) -> ConcurrentModificationException | None:
    """Return the conflict with added rows that the operation would have read.

    The check uses partition values and statistics. delta-spark uses partition values only.
    """
    if proposal.metadata is None:  # new metadata, such as a constraint, applies to added rows too
        if proposal.isolation is IsolationLevel.SNAPSHOT:
            return None
        if proposal.isolation is IsolationLevel.WRITE_SERIALIZABLE and winner.is_blind_append:
            return None
    if not (proposal.reads.whole_table or proposal.reads.row_tests):
        return None
    file = next((a for a in winner.adds_with_new_rows if proposal.reads.would_have_read(a)), None)
    if file is None:
        return None
    return ConcurrentAppendException(
        f"{proposal.operation.name} read the table at version {proposal.base.version}, and the winning commit, "
        f"{winner}, added {_text_of_rows(file)} that this operation would have read.",
        remedy=RETRY_REMEDY,
    )


def _judge_removes(proposal: Proposal, winner: Winner) -> ConcurrentModificationException | NoConflict:
    """Decide on the files that the winner removed, which is the last check.

    delta-spark also reports a conflict if the winner only moved rows to other files. Here the read set follows such
    rows. A row-level operation does not conflict with the removal of rows that it did not change.
    """
    verbs = {file_key(r.path, r.deletion_vector): "removes" for r in proposal.removes}
    # A backfill of row ids re-adds files with other values, and without a change of data.
    verbs |= {file_key(a.path, a.deletion_vector): "re-adds" for a in proposal.adds if not a.data_change}
    if not (verbs or proposal.reads.whole_table or proposal.reads.keys):
        return NoConflict(reads=proposal.reads)
    moved_rows = False
    for remove in winner.removes:
        key = file_key(remove.path, remove.deletion_vector)
        if key in verbs:
            return ConcurrentDeleteDeleteException(
                f"{proposal.operation.name} {verbs[key]} the file {remove.path}, but the winning commit, {winner}, "
                "removed it first.",
                remedy=RETRY_REMEDY,
            )
        if remove.data_change and not proposal.row_level and (proposal.reads.whole_table or key in proposal.reads.keys):
            return ConcurrentDeleteReadException(
                f"{proposal.operation.name} read the file {remove.path} at version {proposal.base.version}, and the "
                f"winning commit, {winner}, removed it.",
                remedy=RETRY_REMEDY,
            )
        moved_rows = moved_rows or key in proposal.reads.keys
    re_added = (a for a in winner.adds if not a.data_change and file_key(a.path, a.deletion_vector) in verbs)
    file = next(re_added, None)
    if file is not None:  # the proposal's actions on the file lack the new values
        verb = verbs[file_key(file.path, file.deletion_vector)]
        return ConcurrentDeleteReadException(
            f"{proposal.operation.name} {verb} the file {file.path}, and the winning commit, {winner}, re-added it "
            "with other values, such as row ids.",
            remedy=RETRY_REMEDY,
        )
    return NoConflict(reads=_follow_moved_rows(proposal.reads, winner) if moved_rows else proposal.reads)


def _follow_moved_rows(reads: ReadSet, winner: Winner) -> ReadSet:
    """Return the read set, extended by the files to which the winner moved rows that the operation read."""
    new_files = (a for a in winner.adds if not a.data_change)
    return replace(reads, keys=reads.keys | {file_key(a.path, a.deletion_vector) for a in new_files})


def _text_of_rows(added: AddFile) -> str:
    partition = ", ".join(f"{column}={value}" for column, value in sorted(added.partition_values.items()))
    return f"rows to the partition {partition}" if partition else "rows"


def _is_of_same_run(proposal: Proposal, winner: Winner) -> bool:
    """Whether a winner with the proposal's app id is of the same run. Several runs may share an idempotency key."""
    current = RunProvenance.from_text(proposal.operation.user_metadata)
    return resumes_concurrent_commit(current, RunProvenance.from_text(winner.info.get("userMetadata")))


def _txn_of_same_app(proposal: Proposal, winner: Winner) -> SetTransaction | None:
    if proposal.txn is None:
        return None
    return next(
        (a for a in winner.small_actions if isinstance(a, SetTransaction) and a.app_id == proposal.txn.app_id), None
    )
