"""Log replay: from the files of a segment to the state of a version.

Commits are read newest first and everything is decided by the first that speaks: the newest protocol, metadata,
transaction of an app id, domain, and for each file the newest add or remove. What the commits touched is then masked
out of the checkpoint in one vector operation. Files are made only when asked for, and as an Arrow table. Protocol:
Action Reconciliation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from deltalite.errors import CorruptLogError, VersionGapError
from deltalite.log.checkpoint_reader import read_files, read_small_actions, read_tombstones
from deltalite.log.file_table import ADD_TYPES, REMOVE_TYPES, file_key, table_of, without_keys
from deltalite.log.segment import LogSegment
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
    iter_raw_actions,
    parse_action,
)
from deltalite.storage.log_store import LogStore

_REMEDY = "Repair the log with the engine that wrote it."


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedLog:
    """The state of a version, with its files still to be asked for.

    `transactions` and `domains` hold the newest of each id; removed domains are gone. Nothing is filtered by age here.
    """

    store: LogStore
    segment: LogSegment
    protocol: Protocol
    metadata: Metadata
    transactions: Mapping[str, SetTransaction]
    domains: Mapping[str, DomainMetadata]
    commit_info: Mapping[str, Any] | None
    adds: Sequence[Mapping[str, Any]]
    removes: Sequence[Mapping[str, Any]]
    touched: frozenset[str]

    def files(self, columns: Sequence[str]) -> pa.Table:
        """The active files, with `columns` of `ADD_TYPES`, in no particular order."""
        return self._reconciled(read_files, ADD_TYPES, columns, self.adds, AddFile)

    def tombstones(self, columns: Sequence[str]) -> pa.Table:
        """The removed files that the log still remembers, with `columns` of `REMOVE_TYPES`, expired ones too."""
        return self._reconciled(read_tombstones, REMOVE_TYPES, columns, self.removes, RemoveFile)

    def _reconciled(
        self,
        read: Any,
        types: Mapping[str, pa.DataType],
        columns: Sequence[str],
        newer: Sequence[Mapping[str, Any]],
        cls: type[AddFile | RemoveFile],
    ) -> pa.Table:
        newest = table_of(newer, types, columns, cls)
        if self.segment.checkpoint is None:
            return newest
        needed = list(dict.fromkeys((*columns, "path", "deletionVector")))
        older = without_keys(read(self.store, self.segment.checkpoint, needed), self.touched).select(list(columns))
        return pa.concat_tables([older, newest])


def replay(store: LogStore, segment: LogSegment) -> ReplayedLog:
    """Replay a segment.

    Raises:
        CorruptLogError: a commit is no valid JSON, or there is no protocol or metadata.
        CorruptCheckpointError: the checkpoint cannot be read; the caller may try another segment.
    """
    state = _State()
    for commit in reversed(segment.commits):
        data = store.read(commit.name)
        if data is None:
            raise VersionGapError(
                f"{commit.name} of {store.root} vanished while it was read.", remedy="Read the table again."
            )
        state.apply_commit(data, commit.name)
    if segment.checkpoint is not None:
        for action in read_small_actions(store, segment.checkpoint):
            state.apply_small(action)
    if state.protocol is None or state.metadata is None:
        missing = "protocol" if state.protocol is None else "metadata"
        raise CorruptLogError(
            f"The log of {store.root} has no {missing} up to version {segment.version}.", remedy=_REMEDY
        )
    return ReplayedLog(
        store=store,
        segment=segment,
        protocol=state.protocol,
        metadata=state.metadata,
        transactions=state.transactions,
        domains={name: domain for name, domain in state.domains.items() if not domain.removed},
        commit_info=state.commit_info,
        adds=state.adds,
        removes=state.removes,
        touched=frozenset(state.touched),
    )


class _State:
    """What the newer commits have decided so far."""

    def __init__(self) -> None:
        self.protocol: Protocol | None = None
        self.metadata: Metadata | None = None
        self.transactions: dict[str, SetTransaction] = {}
        self.domains: dict[str, DomainMetadata] = {}
        self.commit_info: Mapping[str, Any] | None = None
        self.adds: list[Mapping[str, Any]] = []
        self.removes: list[Mapping[str, Any]] = []
        self.touched: set[str] = set()
        self._newest_commit_seen = False

    def apply_commit(self, data: bytes, name: str) -> None:
        """Take over what a commit says and no newer one has said. The adds of one commit come before its removes.

        Within a commit one path may be removed with one deletion vector and added with another: their keys differ.
        """
        adds: list[tuple[str, Mapping[str, Any]]] = []
        removes: list[tuple[str, Mapping[str, Any]]] = []
        for kind, body in iter_raw_actions(data, name):
            if kind in (AddFile.action, RemoveFile.action):
                key = _key_of(kind, body, name)
                (adds if kind == AddFile.action else removes).append((key, body))
                continue
            if self._is_settled(kind):
                continue
            action = parse_action(kind, body, name)
            if action is not None:
                self.apply_small(action)
        for found, kept in ((adds, self.adds), (removes, self.removes)):
            for key, file in found:
                if key not in self.touched:
                    self.touched.add(key)
                    kept.append(file)
        self._newest_commit_seen = True

    def _is_settled(self, kind: str) -> bool:
        """Whether a newer commit has spoken for this kind, so that this one need not even be well-formed."""
        return (
            (kind == CommitInfo.action and self._newest_commit_seen)
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
            case CommitInfo():
                self.commit_info = action.values
            case AddFile() | RemoveFile() | AddCDCFile():
                pass


def _key_of(kind: str, body: Mapping[str, Any], name: str) -> str:
    path, vector = body.get("path"), body.get("deletionVector")
    if not isinstance(path, str) or not (vector is None or isinstance(vector, dict)):
        raise CorruptLogError(
            f"{name} has a {kind} without a path, or with a malformed deletion vector.", remedy=_REMEDY
        )
    return file_key(path, vector)
