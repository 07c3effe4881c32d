"""Helpers for tests: tables in memory, the actions of their logs, and rival writers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa

from deltalite.log.listing import list_log
from deltalite.protocol.actions import (
    Action,
    AddCDCFile,
    AddFile,
    CommitInfo,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
    commit_to_bytes,
)
from deltalite.protocol.arrow_schema import type_from_arrow
from deltalite.protocol.file_names import commit_name
from deltalite.protocol.schema import PrimitiveType, StructField, StructType, schema_to_json
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore
from deltalite.storage.memory import MemoryLogStore
from deltalite.txn.commit import Committed, CommittedByAnotherAttempt, commit
from deltalite.txn.proposal import BaseState, Operation, Proposal, ReadSet

NOON_MS = 1_700_000_000_000
PROTOCOL = Protocol(min_reader_version=1, min_writer_version=2)


def struct(**columns: str) -> StructType:
    """A schema of primitive types. The keyword is the name of a column, and its value is the name of its type."""
    return StructType(tuple(StructField(name, PrimitiveType(kind)) for name, kind in columns.items()))


SCHEMA = struct(id="long", day="string")


def schema_from_arrow(schema: pa.Schema) -> StructType:
    """The Delta schema that holds rows of an Arrow schema."""
    struct_type = type_from_arrow(pa.struct(list(schema)), "")
    assert isinstance(struct_type, StructType)
    return struct_type


class Clock:
    """A clock in milliseconds that advances by one second with each call."""

    def __init__(self, now_ms: int = NOON_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        self.now_ms += 1000
        return self.now_ms


def new_store() -> MemoryLogStore:
    return MemoryLogStore(clock_ms=Clock())


def metadata(configuration: Mapping[str, str] | None = None, schema: StructType = SCHEMA, **changes: Any) -> Metadata:
    values = {"id": "t", "schema_string": schema_to_json(schema), "partition_columns": ()}
    return Metadata(**{**values, "configuration": configuration or {}, **changes})


def add(path: str, **changes: Any) -> AddFile:
    values = {"partition_values": {}, "size_bytes": 10, "modification_time_ms": NOON_MS, "data_change": True}
    return AddFile(path=path, **{**values, **changes})


def remove(path: str, **changes: Any) -> RemoveFile:
    return RemoveFile(path=path, **{"data_change": True, "deletion_timestamp_ms": NOON_MS, **changes})


def txn(app_id: str, version: int = 0, last_updated_ms: int | None = NOON_MS) -> SetTransaction:
    return SetTransaction(app_id=app_id, version=version, last_updated_ms=last_updated_ms)


def vector(encoded_uuid: str, offset: int | None = None) -> dict[str, Any]:
    """The descriptor of a deletion vector in a separate file. `encoded_uuid` is the Z85 text in its file name."""
    offset_field = {} if offset is None else {"offset": offset}
    return {"storageType": "u", "pathOrInlineDv": encoded_uuid, "sizeInBytes": 30, "cardinality": 1, **offset_field}


def proposal(
    read_version: int,
    *actions: Action,
    reads: ReadSet | None = None,
    base: tuple[Protocol, Metadata] | None = None,
    **operation: Any,
) -> Proposal:
    """The proposal of a command with these actions. `base` is the protocol and metadata of the read version."""

    def all_of(kind: type) -> tuple[Any, ...]:
        return tuple(a for a in actions if isinstance(a, kind))

    protocol, table_metadata = base or (None, None)
    first_of: Callable[[type], Any] = lambda kind: next(iter(all_of(kind)), None)
    return Proposal(
        base=BaseState(version=read_version, protocol=protocol, metadata=table_metadata),
        operation=Operation(**{"name": "WRITE", "parameters": {"mode": "Append"}, **operation}),
        adds=all_of(AddFile),
        removes=all_of(RemoveFile),
        changes=all_of(AddCDCFile),
        protocol=first_of(Protocol),
        metadata=first_of(Metadata),
        txn=first_of(SetTransaction),
        reads=reads or ReadSet(),
    )


def commit_actions(store: LogStore, *actions: Action, read_version: int | None = None, **options: Any) -> int:
    """Commit actions on the newest version through the library's commit; returns the version."""
    base = read_version if read_version is not None else newest_version(store)
    outcome = commit(store, proposal(base, *actions, **options), clock_ms=Clock(), pause=lambda _s: None)
    assert isinstance(outcome, Committed | CommittedByAnotherAttempt)
    return outcome.version


def create(store: LogStore, *adds: Action, configuration: Mapping[str, str] | None = None, **changes: Any) -> LogStore:
    """Commit version 0 with some files; returns the store."""
    assert commit_actions(store, PROTOCOL, metadata(configuration, **changes), *adds, read_version=-1) == 0
    return store


def append_files(store: LogStore, count: int) -> LogStore:
    """Commit one file `f<version>` in each of `count` commits; returns the store."""
    for _ in range(count):
        commit_actions(store, add(f"f{newest_version(store) + 1}"))
    return store


def newest_version(store: LogStore) -> int:
    return list_log(store, 0).newest_version


def put_raw(store: MemoryLogStore, version: int, actions: Iterable[Action | Mapping[str, Any]] | bytes) -> None:
    """Write a commit as another engine does, without calling the store's hooks."""
    if not isinstance(actions, bytes):
        lines = [json.dumps(a).encode() + b"\n" if isinstance(a, Mapping) else commit_to_bytes([a]) for a in actions]
        actions = b"".join(lines)
    store.files[commit_name(version)] = (actions, store._clock_ms())


def try_commit(
    store: LogStore, current: Proposal, **options: Any
) -> tuple[Committed | CommittedByAnotherAttempt, list[float]]:
    """Commit a proposal; returns the outcome, and the pauses in seconds that the commit asked for."""
    pauses: list[float] = []
    return commit(store, current, clock_ms=Clock(), pause=pauses.append, **options), pauses


def add_rival(store: MemoryLogStore, *commits: Iterable[Action | Mapping[str, Any]] | bytes) -> None:
    """Let another writer win: before each put of a commit, it puts the next of `commits` as the same version."""
    remaining_commits = list(commits)

    def put_rival_commit(operation: str, name: str) -> None:
        if operation == "write_if_absent" and remaining_commits and name not in store.files:
            put_raw(store, int(name[-25:-5]), remaining_commits.pop(0))

    store.before = put_rival_commit


def commit_info(**values: Any) -> CommitInfo:
    return CommitInfo(values=values)


def paths(snapshot: Snapshot) -> list[str]:
    """The paths of a version's active files, in order."""
    return sorted(snapshot.files["path"].to_pylist())


def load(store: LogStore, version: int | None = None) -> Snapshot:
    return Snapshot.load(store, version)


class RequestLog:
    """A record of every access to the store, as `(operation, name)` without the folder."""

    def __init__(self, store: MemoryLogStore) -> None:
        self.accesses: list[tuple[str, str]] = []
        store.before = lambda operation, name: self.accesses.append((operation, name.rpartition("/")[2]))
