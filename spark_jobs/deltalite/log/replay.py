"""Log replay: builds the state of a version from the files of its segment.

Replay reads commits and compactions newest first. The first action about a subject applies. A subject is the protocol,
the metadata, an app id, a domain or a file. One vector operation then leaves out the checkpoint's files that newer
commits add or remove. All lists of files are Arrow tables. The checkpoint's files are read on demand, and so are the
statistics of commits that are too large for memory. If a checkpoint or compaction is unusable, the replay raises
`UnusableLogFile` with the name of that file. Protocol: Action Reconciliation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from deltalite.errors import CorruptCheckpointError, CorruptLogError
from deltalite.log.action_files import FileTableBuilder, read_action_blocks, read_actions
from deltalite.log.checkpoint_reader import read_add_blocks, read_adds, read_head, read_tombstones
from deltalite.log.file_table import ADD_TYPES, file_key, key_column, overridden_mask, without_keys, without_rows
from deltalite.log.listing import CheckpointFiles, LogEntry
from deltalite.log.segment import LogSegment
from deltalite.log.subjects import DuplicateCheck
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
from deltalite.protocol.paths import is_certainly_canonical
from deltalite.storage.log_store import LogStore, StoredFile

# If commits and compactions have more bytes in total, their statistics are not held in memory but read again on demand.
_MAX_HELD_BYTES = 512 * 1024 * 1024
_STATS = "stats"
_BLOCK_ROWS = 50_000
_FILE_KINDS = (AddFile.action, RemoveFile.action)
_REMEDY = "Repair the log with the engine that wrote it."


class UnusableLogFile(Exception):  # noqa: N818  not an error yet: other files may have the same content
    """The signal that the checkpoint or compaction `name` must not be used; `error` is the reason."""

    def __init__(self, name: str, error: CorruptLogError) -> None:
        super().__init__(name)
        self.name = name
        self.error = error


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedLog:
    """The state of a version; the files of its checkpoint are read on demand.

    - `transactions`: the newest transaction of each app id, including expired transactions.
    - `domains`: the newest metadata of each domain, without removed domains.
    - `adds`, `removes`: the file actions of the commits, with all columns. `adds` has statistics only if `holds_stats`.
    - `touched`: the keys of the files in `adds` and `removes`, which override the checkpoint's files; empty without a
      checkpoint.
    - `sources`: the files that hold the checkpoint's file actions.
    - `commit_info`: the provenance of the version's commit; None if the commit has none, or if the replay did not need
      the commit.
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
    commit_info: Mapping[str, Any] | None

    def files(self, columns: Sequence[str]) -> pa.Table:
        """Return the active files, with `columns` of `ADD_TYPES`, in no particular order.

        Raises:
            UnusableLogFile: the checkpoint or a compaction cannot be read.
        """
        if _STATS in columns and not self.holds_stats:
            return pa.concat_tables(self.file_blocks(columns))
        return self._reconcile_with_checkpoint(read_adds, columns, self.adds)

    def file_blocks(self, columns: Sequence[str], max_rows: int = _BLOCK_ROWS) -> Iterator[pa.Table]:
        """Yield the result of `files` in blocks of at most `max_rows` rows, to bound the memory; at least one block.

        A JSON file of the checkpoint is one block of any size.

        Raises:
            UnusableLogFile: as for `files`, possibly after some blocks.
        """
        yield pa.schema([(name, ADD_TYPES[name]) for name in columns]).empty_table()
        if self.segment.checkpoint is not None:
            with _as_unusable_log_file(self.segment.checkpoint.names[0]):
                yield from self._checkpoint_blocks(self.segment.checkpoint.names[0], columns, max_rows)
        tables_of_commits = (self.adds,) if self.holds_stats or _STATS not in columns else self._adds_with_stats()
        for table in tables_of_commits:
            for first_row in range(0, table.num_rows, max_rows):
                yield table.slice(first_row, max_rows).select(list(columns))

    def _checkpoint_blocks(self, name: str, columns: Sequence[str], max_rows: int) -> Iterator[pa.Table]:
        """Yield the checkpoint's files that newer commits do not override.

        This method reads the checkpoint twice, and matches the rows of both reads by their position.
        """
        columns_of_key = ("path", "deletionVector")
        files = read_adds(self.store, self.sources, columns_of_key)
        mask = overridden_mask(files, self.touched)
        overridden_keys, row_number = key_column(files.filter(mask)), 0
        del files
        block_columns = tuple(dict.fromkeys((*columns_of_key, *columns)))
        for block in read_add_blocks(self.store, self.sources, block_columns, max_rows):
            block_mask = mask.slice(row_number, block.num_rows)
            block_keys = key_column(block.filter(block_mask)) if len(block_mask) == block.num_rows else None
            if block_keys is None or not block_keys.equals(overridden_keys.slice(0, len(block_keys))):
                raise self._overwritten_error(name)
            yield without_rows(block, block_mask).select(list(columns))
            overridden_keys, row_number = overridden_keys.slice(len(block_keys)), row_number + block.num_rows
        if row_number != len(mask):
            raise self._overwritten_error(name)

    def _overwritten_error(self, name: str) -> CorruptCheckpointError:
        return CorruptCheckpointError(
            f"{name} of {self.store.root} was overwritten while it was read.", remedy="Read the table again."
        )

    def _adds_with_stats(self) -> Iterator[pa.Table]:
        """Yield the adds of the commits, read a second time with their statistics."""
        state = _State()
        for entry in reversed(self.segment.entries):
            with _as_unusable_log_file(entry.file.name) if entry.is_compaction else nullcontext():
                for _ in state.apply_in_blocks(self.store, entry):
                    yield from state.adds.take()
        state.flush()
        yield from state.adds.take()

    def tombstones(self, columns: Sequence[str]) -> pa.Table:
        """Return the removed files that the log still holds, including expired ones, with `columns` of `REMOVE_TYPES`.

        Raises:
            UnusableLogFile: the checkpoint or a compaction cannot be read.
        """
        return self._reconcile_with_checkpoint(read_tombstones, columns, self.removes)

    def _reconcile_with_checkpoint(
        self,
        read: Callable[[LogStore, Sequence[str], Sequence[str]], pa.Table],
        columns: Sequence[str],
        actions_of_commits: pa.Table,
    ) -> pa.Table:
        """Return the actions of commits, and the checkpoint's actions (by `read`) that the commits do not override."""
        newer = actions_of_commits.select(list(columns))
        if self.segment.checkpoint is None:
            return newer
        columns_with_key = list(dict.fromkeys((*columns, "path", "deletionVector")))
        with _as_unusable_log_file(self.segment.checkpoint.names[0]):
            older = read(self.store, self.sources, columns_with_key)
            older = without_rows(older, overridden_mask(older, self.touched)).select(list(columns))
        return pa.concat_tables([older, newer])


def replay(store: LogStore, segment: LogSegment) -> ReplayedLog:
    """Replay a segment, and return the state of its version.

    Raises:
        CorruptLogError: a commit is malformed, or there is no protocol or metadata.
        VersionGapError: a commit was deleted after the segment was listed.
        UnusableLogFile: the checkpoint or a compaction is unusable; the caller may try another segment.
    """
    holds_stats = sum(entry.file.size_bytes for entry in segment.entries) <= _MAX_HELD_BYTES
    state = _State(omitted_columns=() if holds_stats else (_STATS,), version=segment.version)
    for entry in reversed(segment.entries):
        if not entry.is_compaction:
            state.apply_entry(store, entry)
            continue
        state.flush()
        with _as_unusable_log_file(entry.file.name):
            state.apply_entry(store, entry)
            state.flush()
    sources: tuple[str, ...] = ()
    if segment.checkpoint is not None:
        with _as_unusable_log_file(segment.checkpoint.names[0]):
            head = read_head(store, segment.checkpoint)
        sources = head.sources
        for action in head.actions:
            state.apply_small(action)
    if state.protocol is None or state.metadata is None:
        missing = "protocol" if state.protocol is None else "metadata"
        problem = f"The log of {store.root} has no {missing} up to version {segment.version}."
        if segment.checkpoint is not None:  # a valid checkpoint holds both
            raise UnusableLogFile(segment.checkpoint.names[0], CorruptCheckpointError(problem, remedy=_REMEDY))
        raise CorruptLogError(problem, remedy=_REMEDY)
    return ReplayedLog(
        store=store,
        segment=segment,
        protocol=state.protocol,
        metadata=state.metadata,
        transactions=state.transactions,
        domains={name: domain for name, domain in state.domains.items() if not domain.removed},
        adds=state.adds.table(),
        removes=without_keys(state.removes.table(), state.overridden_removes),
        touched=frozenset(state.touched) if segment.checkpoint is not None else frozenset(),
        sources=sources,
        holds_stats=holds_stats,
        commit_info=state.commit_info,
    )


def replay_checkpoint(store: LogStore, checkpoint: CheckpointFiles) -> ReplayedLog:
    """Replay a checkpoint without commits. Raises `UnusableLogFile`."""
    return replay(store, LogSegment(version=checkpoint.version, checkpoint=checkpoint, entries=()))


def check_compaction(store: LogStore, entry: LogEntry) -> None:
    """Check that a compaction is usable.

    Raises:
        CorruptLogError: the compaction is malformed or not reconciled.
    """
    state = _State(omitted_columns=(_STATS,))
    for _ in state.apply_in_blocks(store, entry):
        state.adds.take()
        state.removes.take()
    state.flush()


def read_commit_info(store: LogStore, commit: StoredFile) -> Mapping[str, Any] | None:
    """Return the provenance of a commit, None if it has none. The file is read only up to the provenance.

    Raises:
        CorruptLogError: a line before the provenance is not an action.
        VersionGapError: the commit was deleted since the listing.
    """
    bodies = (body for kind, body in read_actions(store, commit.name, commit.size_bytes) if kind == CommitInfo.action)
    return next(bodies, None)


class _State:
    """The state of a version during replay, which applies the newest commit first. Adds lack the `omitted_columns`.

    - `overridden_removes`: the keys of removes that an add in the same commit overrides.
    - `commit_info`: the provenance in the commit of `version`; None if the commit has none, or was not applied.
    """

    def __init__(self, omitted_columns: Sequence[str] = (), version: int | None = None) -> None:
        self._version = version
        self.protocol: Protocol | None = None
        self.metadata: Metadata | None = None
        self.transactions: dict[str, SetTransaction] = {}
        self.domains: dict[str, DomainMetadata] = {}
        self.adds = FileTableBuilder(AddFile, omitted_columns=omitted_columns)
        self.removes = FileTableBuilder(RemoveFile)
        self.touched: set[str] = set()
        self.overridden_removes: set[str] = set()
        self.commit_info: Mapping[str, Any] | None = None

    def apply_entry(self, store: LogStore, entry: LogEntry) -> None:
        """Apply the actions of a commit or compaction, unless newer actions override them."""
        for _ in self.apply_in_blocks(store, entry):
            pass

    def apply_in_blocks(self, store: LogStore, entry: LogEntry) -> Iterator[None]:
        """Apply the actions block by block, so that the caller can act between blocks.

        If a commit adds and removes the same file, the add applies. A path with another deletion vector counts as
        another file. A compaction has one action per file. Raises `CorruptLogError`.
        """
        name, removed_in_commit = entry.file.name, set[str]()
        duplicate_check = DuplicateCheck(name) if entry.is_compaction else None
        for block_bytes, pairs in read_action_blocks(store, name, entry.file.size_bytes):
            for kind, body in pairs:
                if kind in _FILE_KINDS:
                    key = _key_of(kind, body, name)
                    if duplicate_check is not None:
                        duplicate_check.take_file(key)
                    (self._add if kind == AddFile.action else self._remove)(key, body, removed_in_commit)
                    continue
                if duplicate_check is not None:
                    duplicate_check.take(kind, body)
                if kind == CommitInfo.action and entry.first_version == self._version and self.commit_info is None:
                    self.commit_info = body
                if not self._is_settled(kind):
                    action = parse_action(kind, body, name)
                    if action is not None:
                        self.apply_small(action)
            self.adds.end_block(name, block_bytes)
            self.removes.end_block(name, block_bytes)
            yield

    def _add(self, key: str, body: Mapping[str, Any], removed_in_commit: set[str]) -> None:
        if key not in self.touched:
            self.touched.add(key)
            self.adds.append(body)
        elif key in removed_in_commit:
            removed_in_commit.discard(key)
            self.overridden_removes.add(key)
            self.adds.append(body)

    def _remove(self, key: str, body: Mapping[str, Any], removed_in_commit: set[str]) -> None:
        if key not in self.touched:
            self.touched.add(key)
            removed_in_commit.add(key)
            self.removes.append(body)

    def flush(self) -> None:
        """Convert the collected files to Arrow. Raises `CorruptLogError` if one is malformed."""
        self.adds.flush()
        self.removes.flush()

    def _is_settled(self, kind: str) -> bool:
        """Whether actions of this kind have no effect any more. Such an action is not parsed, and may be malformed."""
        return (
            kind == CommitInfo.action
            or (kind == Metadata.action and self.metadata is not None)
            or (kind == Protocol.action and self.protocol is not None)
        )

    def apply_small(self, action: Action) -> None:
        """Apply an action other than a file action, unless a newer action about the same subject was applied."""
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
def _as_unusable_log_file(name: str) -> Iterator[None]:
    """Convert `CorruptLogError` to `UnusableLogFile`, because other files may replace this one."""
    try:
        yield
    except CorruptLogError as error:
        raise UnusableLogFile(name, error) from error


def _key_of(kind: str, body: Mapping[str, Any], name: str) -> str:
    """Return the `file_key` of an add or remove in the log file `name`. Raises `CorruptLogError`."""
    path, vector = body.get("path"), body.get("deletionVector")
    if type(path) is str and vector is None and is_certainly_canonical(path):
        return path  # the same as `file_key`, but faster, for nearly all files
    if not isinstance(path, str) or not (vector is None or isinstance(vector, dict)):
        raise CorruptLogError(
            f"{name} contains an invalid {kind} action: its path is missing, or its deletion vector is malformed.",
            remedy=_REMEDY,
        )
    return file_key(path, vector)
