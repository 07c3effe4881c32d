"""Validation of the commits of a log, and the protocol and metadata at each version.

Each commit is read once, and every action is validated. Only the protocol, the metadata and the in-commit timestamp of
a commit stay in memory. Protocol: Delta Log Entries; In-Commit Timestamps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from deltalite.errors import CorruptLogError, DeltaLiteError, UnsupportedFeatureError
from deltalite.inspection.findings import Finding, FindingKind
from deltalite.log.action_files import FileTableBuilder, read_action_blocks
from deltalite.log.commit_times import InCommitSettings, in_commit_settings, in_commit_timestamp
from deltalite.protocol.actions import AddFile, CommitInfo, Metadata, Protocol, RemoveFile, parse_action
from deltalite.protocol.column_mapping import TableSchema, table_schema_of
from deltalite.storage.log_store import LogStore, StoredFile

_DEFINITION_ACTIONS = (Protocol.action, Metadata.action)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDefinition:
    """The protocol and metadata in force at a version. `schema` is None if this release does not know all its types."""

    protocol: Protocol
    metadata: Metadata
    schema: TableSchema | None

    @classmethod
    def of(cls, protocol: Protocol, metadata: Metadata) -> Self:
        """Create the definition from a protocol and metadata. Raises `CorruptLogError` for an invalid schema."""
        try:
            schema = table_schema_of(protocol, metadata)
        except UnsupportedFeatureError:
            schema = None
        return cls(protocol=protocol, metadata=metadata, schema=schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFacts:
    """The facts that stay in memory for a commit; `info` contains only `inCommitTimestamp` of the commit info.

    `malformed` contains the problem of an invalid protocol or metadata, by the kind of the action. A valid action of a
    later commit replaces the invalid one.
    """

    protocol: Protocol | None
    metadata: Metadata | None
    info: Mapping[str, Any]
    malformed: Mapping[str, str]


def read_commit(store: LogStore, commit: StoredFile) -> CommitFacts:
    """Read a commit and check each of its actions.

    Raises:
        CorruptLogError: the commit is not valid by the protocol.
        StorageError: storage does not answer.
    """
    first_actions: dict[str, Any] = {}
    malformed: dict[str, str] = {}
    info: Mapping[str, Any] | None = None
    for block_bytes, actions in read_action_blocks(store, commit.name, commit.size_bytes):
        builders = {cls.action: FileTableBuilder(cls) for cls in (AddFile, RemoveFile)}
        for kind, body in actions:
            if kind == CommitInfo.action:
                info = {k: v for k, v in body.items() if k == "inCommitTimestamp"} if info is None else info
                continue
            try:
                action = parse_action(kind, body, commit.name)
            except CorruptLogError as error:
                if kind not in _DEFINITION_ACTIONS:
                    raise
                malformed.setdefault(kind, error.problem)
                continue
            if kind in _DEFINITION_ACTIONS:
                first_actions.setdefault(kind, action)
            elif kind in builders:
                builders[kind].append(body)
        # A reader converts the actions to tables too, so the conversion must succeed.
        for builder in builders.values():
            builder.end_block(commit.name, block_bytes)
            builder.flush()
    return CommitFacts(
        protocol=first_actions.get(Protocol.action),
        metadata=first_actions.get(Metadata.action),
        info=info or {},
        malformed=malformed,
    )


def definitions_after_commits(
    start: TableDefinition | None, commits: Iterable[tuple[int, CommitFacts]]
) -> Iterator[tuple[int, TableDefinition | None, str | None]]:
    """Yield the definition after each commit (None if unknown), and the problem of the commit, if any.

    `commits` are in ascending order of versions, and so are the results.
    """
    definition = start
    current_actions: dict[str, Any] = {}
    if start is not None:
        current_actions = {Protocol.action: start.protocol, Metadata.action: start.metadata}
    for version, facts in commits:
        changes = {Protocol.action: facts.protocol, Metadata.action: facts.metadata}
        if facts.malformed or any(action is not None for action in changes.values()):
            # An invalid action makes the definition unknown, even if an earlier action of its kind is valid.
            current_actions |= dict.fromkeys(facts.malformed)
            current_actions |= {kind: action for kind, action in changes.items() if action is not None}
            protocol, metadata = current_actions.get(Protocol.action), current_actions.get(Metadata.action)
            definition = None
            try:
                if protocol is not None and metadata is not None:
                    definition = TableDefinition.of(protocol, metadata)
            # A property that cannot be parsed raises an error too.
            except DeltaLiteError as error:
                yield version, None, error.problem
                continue
        yield version, definition, next(iter(facts.malformed.values()), None)


def time_findings(
    definitions: Mapping[int, TableDefinition], facts: Mapping[int, CommitFacts], commits: Mapping[int, StoredFile]
) -> Iterator[Finding]:
    """Yield a finding for each in-commit timestamp that is missing, invalid, or not after the previous commit's.

    `facts` are in ascending order of versions.
    """
    previous_ms: int | None = None
    previous_definition: TableDefinition | None = None
    in_commit: InCommitSettings | None = None
    for version, name in ((v, commits[v].name) for v in facts if v in definitions):
        try:
            definition = definitions[version]
            if definition is not previous_definition:
                in_commit = in_commit_settings(definition.protocol, definition.metadata)
                previous_definition = definition
            if in_commit is None or not in_commit.covers(version):
                previous_ms = None
                continue
            time_ms = in_commit_timestamp(facts[version].info, name)
        except DeltaLiteError as error:
            yield Finding(
                kind=FindingKind.COMMIT_TIME, message=error.problem, file=name, versions=((version, version),)
            )
            continue
        if previous_ms is not None and time_ms <= previous_ms:
            yield Finding(
                kind=FindingKind.COMMIT_TIME,
                message=(
                    f"The in-commit timestamp is {time_ms} ms, which is not after the timestamp of the previous commit "
                    f"({previous_ms} ms)."
                ),
                file=name,
                versions=((version, version),),
            )
        previous_ms = time_ms
