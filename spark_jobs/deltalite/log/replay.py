"""Log replay: from the files of a segment to the state of a version.

Commits and compactions are read newest first and everything is decided by the first that speaks: the newest protocol,
metadata, transaction of an app id, domain, and for each file the newest add or remove. What they touched is then
masked out of the checkpoint in one vector operation. The files are Arrow tables from the start; those of the
checkpoint are read when asked for, and so are the statistics of commits that are too large to be held. A checkpoint or
compaction that cannot be read ends a replay with `PassOver`, which names it. Protocol: Action Reconciliation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from deltalite.errors import CorruptCheckpointError, CorruptLogError
from deltalite.log.action_files import FileTableBuilder, read_action_blocks, read_actions
from deltalite.log.checkpoint_reader import read_file_blocks, read_files, read_head, read_tombstones
from deltalite.log.file_table import ADD_TYPES, file_key, key_column, overruled, without_keys, without_rows
from deltalite.log.listing import LogEntry
from deltalite.log.segment import LogSegment
from deltalite.log.subjects import SubjectsOnce
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
from deltalite.protocol.paths import is_plain
from deltalite.storage.log_store import LogStore, StoredFile

# Of commits and compactions that are larger together, statistics are not held, but read again when they are asked for.
_HELD_BYTES = 512 * 1024 * 1024
_STATS = "stats"
_BLOCK_ROWS = 50_000
_FILE_KINDS = (AddFile.action, RemoveFile.action)
_REMEDY = "Repair the log with the engine that wrote it."


class PassOver(Exception):  # noqa: N818  no error yet: the caller may find other files that say the same
    """The checkpoint or the compaction `name` cannot be read, as `error` says."""

    def __init__(self, name: str, error: CorruptLogError) -> None:
        super().__init__(name)
        self.name = name
        self.error = error


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedLog:
    """The state of a version, with the files of its checkpoint still to be read.

    `transactions` and `domains` hold the newest of each id; removed domains are gone. Nothing is filtered by age here.
    `adds` and `removes` are what the commits say, with all columns (but statistics, where these are not held), and
    `touched` the keys of both, to be masked out of the checkpoint; without one there is no need of them. `sources` are
    the files that hold the checkpoint's own.
    """

    store: LogStore
    segment: LogSegment
    protocol: Protocol
    metadata: Metadata
    transactions: Mapping[str, SetTransaction]
    domains: Mapping[str, DomainMetadata]
    adds: pa.Table
    removes: pa.Table
    touched: frozenset[str]
    sources: tuple[str, ...]
    holds_stats: bool

    def files(self, columns: Sequence[str]) -> pa.Table:
        """The active files, with `columns` of `ADD_TYPES`, in no particular order. Raises `PassOver`."""
        if _STATS in columns and not self.holds_stats:
            return pa.concat_tables(self.file_blocks(columns))
        return self._reconciled(read_files, columns, self.adds)

    def file_blocks(self, columns: Sequence[str], most_rows: int = _BLOCK_ROWS) -> Iterator[pa.Table]:
        """The same files in blocks of a bounded number of rows, so that they are never held all at once.

        There is one at least. Raises `PassOver`, after some of the blocks perhaps.
        """
        yield pa.schema([(name, ADD_TYPES[name]) for name in columns]).empty_table()
        if self.segment.checkpoint is not None:
            with _to_be_passed_over(self.segment.checkpoint.names[0]):
                yield from self._checkpoint_blocks(self.segment.checkpoint.names[0], columns, most_rows)
        newer = (self.adds,) if self.holds_stats or _STATS not in columns else self._adds_again()
        for table in newer:
            for at in range(0, table.num_rows, most_rows):
                yield table.slice(at, most_rows).select(list(columns))

    def _checkpoint_blocks(self, name: str, columns: Sequence[str], most_rows: int) -> Iterator[pa.Table]:
        """What nobody overrules of the checkpoint, which is read twice: rows are told by their places."""
        needed = ("path", "deletionVector")
        files = read_files(self.store, self.sources, needed)
        dropped = overruled(files, self.touched)
        left, at = key_column(files.filter(dropped)), 0
        del files
        for block in read_file_blocks(self.store, self.sources, tuple(dict.fromkeys((*needed, *columns))), most_rows):
            here = dropped.slice(at, block.num_rows)
            found = key_column(block.filter(here)) if len(here) == block.num_rows else None
            if found is None or not found.equals(left.slice(0, len(found))):
                raise self._written_again(name)
            yield without_rows(block, here).select(list(columns))
            left, at = left.slice(len(found)), at + block.num_rows
        if at != len(dropped):
            raise self._written_again(name)

    def _written_again(self, name: str) -> CorruptCheckpointError:
        return CorruptCheckpointError(
            f"{name} of {self.store.root} was overwritten while it was read.", remedy="Read the table again."
        )

    def _adds_again(self) -> Iterator[pa.Table]:
        """The adds of the commits with their statistics, read a second time."""
        state = _State()
        for entry in reversed(self.segment.entries):
            with _to_be_passed_over(entry.file.name) if entry.is_compaction else nullcontext():
                for _ in state.applied_blocks(self.store, entry):
                    yield from state.adds.take()
        state.flush()
        yield from state.adds.take()

    def tombstones(self, columns: Sequence[str]) -> pa.Table:
        """The removed files that the log still remembers, with `columns` of `REMOVE_TYPES`, expired ones too.

        Raises `PassOver`.
        """
        return self._reconciled(read_tombstones, columns, self.removes)

    def _reconciled(
        self,
        read: Callable[[LogStore, Sequence[str], Sequence[str]], pa.Table],
        columns: Sequence[str],
        newer: pa.Table,
    ) -> pa.Table:
        newest = newer.select(list(columns))
        if self.segment.checkpoint is None:
            return newest
        needed = list(dict.fromkeys((*columns, "path", "deletionVector")))
        with _to_be_passed_over(self.segment.checkpoint.names[0]):
            older = read(self.store, self.sources, needed)
            older = without_rows(older, overruled(older, self.touched)).select(list(columns))
        return pa.concat_tables([older, newest])


def replay(store: LogStore, segment: LogSegment) -> ReplayedLog:
    """Replay a segment.

    Raises:
        CorruptLogError: a commit is no valid JSON, or there is no protocol or metadata.
        VersionGapError: a commit vanished.
        PassOver: the checkpoint or a compaction cannot be read; the caller may try another segment.
    """
    holds_stats = sum(entry.file.size_bytes for entry in segment.entries) <= _HELD_BYTES
    state = _State(without=() if holds_stats else (_STATS,))
    for entry in reversed(segment.entries):
        if not entry.is_compaction:
            state.apply_entry(store, entry)
            continue
        state.flush()
        with _to_be_passed_over(entry.file.name):
            state.apply_entry(store, entry)
            state.flush()
    sources: tuple[str, ...] = ()
    if segment.checkpoint is not None:
        with _to_be_passed_over(segment.checkpoint.names[0]):
            head = read_head(store, segment.checkpoint)
        sources = head.sources
        for action in head.actions:
            state.apply_small(action)
    if state.protocol is None or state.metadata is None:
        missing = "protocol" if state.protocol is None else "metadata"
        problem = f"The log of {store.root} has no {missing} up to version {segment.version}."
        if segment.checkpoint is not None:  # which must hold both
            raise PassOver(segment.checkpoint.names[0], CorruptCheckpointError(problem, remedy=_REMEDY))
        raise CorruptLogError(problem, remedy=_REMEDY)
    return ReplayedLog(
        store=store,
        segment=segment,
        protocol=state.protocol,
        metadata=state.metadata,
        transactions=state.transactions,
        domains={name: domain for name, domain in state.domains.items() if not domain.removed},
        adds=state.adds.table(),
        removes=without_keys(state.removes.table(), state.retracted),
        touched=frozenset(state.touched) if segment.checkpoint is not None else frozenset(),
        sources=sources,
        holds_stats=holds_stats,
    )


def check_compaction(store: LogStore, entry: LogEntry) -> None:
    """Return where a compaction can be used. Raises `CorruptLogError` where it is malformed or was never reconciled."""
    state = _State(without=(_STATS,))
    for _ in state.applied_blocks(store, entry):
        state.adds.take()
        state.removes.take()
    state.flush()


def read_commit_info(store: LogStore, commit: StoredFile) -> Mapping[str, Any] | None:
    """The provenance in a commit, None where it has none; the file is read no further than there.

    Raises:
        CorruptLogError: a line before it is no action.
    """
    bodies = (body for kind, body in read_actions(store, commit.name, commit.size_bytes) if kind == CommitInfo.action)
    return next(bodies, None)


class _State:
    """What the newer commits have decided so far; of adds not the columns that it is to do `without`."""

    def __init__(self, without: Sequence[str] = ()) -> None:
        self.protocol: Protocol | None = None
        self.metadata: Metadata | None = None
        self.transactions: dict[str, SetTransaction] = {}
        self.domains: dict[str, DomainMetadata] = {}
        self.adds = FileTableBuilder(AddFile, without=without)
        self.removes = FileTableBuilder(RemoveFile)
        self.touched: set[str] = set()
        self.retracted: set[str] = set()

    def apply_entry(self, store: LogStore, entry: LogEntry) -> None:
        """Take over what a commit says and no newer one has said."""
        for _ in self.applied_blocks(store, entry):
            pass

    def applied_blocks(self, store: LogStore, entry: LogEntry) -> Iterator[None]:
        """The same block by block, so that the caller can look between them. Its adds count before its removes.

        Within a commit one path may be removed with one deletion vector and added with another: their keys differ.
        A compaction has one action about a file. Raises `CorruptLogError`.
        """
        name, removed_here = entry.file.name, set[str]()
        once = SubjectsOnce(name) if entry.is_compaction else None
        for read_bytes, pairs in read_action_blocks(store, name, entry.file.size_bytes):
            for kind, body in pairs:
                if kind in _FILE_KINDS:
                    key = _key_of(kind, body, name)
                    if once is not None:
                        once.take_file(key)
                    (self._add if kind == AddFile.action else self._remove)(key, body, removed_here)
                    continue
                if once is not None:
                    once.take(kind, body)
                if not self._is_settled(kind):
                    action = parse_action(kind, body, name)
                    if action is not None:
                        self.apply_small(action)
            self.adds.end_block(name, read_bytes)
            self.removes.end_block(name, read_bytes)
            yield

    def _add(self, key: str, body: Mapping[str, Any], removed_here: set[str]) -> None:
        if key not in self.touched:
            self.touched.add(key)
            self.adds.append(body)
        elif key in removed_here:
            removed_here.discard(key)
            self.retracted.add(key)
            self.adds.append(body)

    def _remove(self, key: str, body: Mapping[str, Any], removed_here: set[str]) -> None:
        if key not in self.touched:
            self.touched.add(key)
            removed_here.add(key)
            self.removes.append(body)

    def flush(self) -> None:
        """Check the files that were collected so far. Raises `CorruptLogError` where one is malformed."""
        self.adds.flush()
        self.removes.flush()

    def _is_settled(self, kind: str) -> bool:
        """Whether an action of this kind no longer counts, so that it need not even be well-formed."""
        return (
            kind == CommitInfo.action
            or (kind == Metadata.action and self.metadata is not None)
            or (kind == Protocol.action and self.protocol is not None)
        )

    def apply_small(self, action: Action) -> None:
        """Take over an action other than a file's, unless a newer one of its kind is known."""
        match action:
            case Protocol():
                self.protocol = self.protocol or action
            case Metadata():
                self.metadata = self.metadata or action
            case SetTransaction():
                self.transactions.setdefault(action.app_id, action)
            case DomainMetadata():
                self.domains.setdefault(action.domain, action)
            case AddFile() | RemoveFile() | AddCDCFile() | CommitInfo():
                pass


@contextmanager
def _to_be_passed_over(name: str) -> Iterator[None]:
    """What is wrong with this file may be nothing where others say the same."""
    try:
        yield
    except CorruptLogError as error:
        raise PassOver(name, error) from error


def _key_of(kind: str, body: Mapping[str, Any], name: str) -> str:
    path, vector = body.get("path"), body.get("deletionVector")
    if type(path) is str and vector is None and is_plain(path):
        return path  # as `file_key` has it, for nearly all files
    if not isinstance(path, str) or not (vector is None or isinstance(vector, dict)):
        raise CorruptLogError(
            f"{name} has a {kind} without a path, or with a malformed deletion vector.", remedy=_REMEDY
        )
    return file_key(path, vector)
