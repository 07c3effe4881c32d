"""What a command wants to commit, as one value.

A proposal is made on one snapshot and remembers what was read from it, because that is what decides whether a commit of
another writer contradicts it. Protocol: Commit Provenance Information; names as delta-spark writes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from deltalite.errors import CorruptLogError
from deltalite.protocol import actions
from deltalite.protocol import properties as props
from deltalite.protocol.actions import AddCDCFile, AddFile, DomainMetadata, Metadata, RemoveFile, SetTransaction
from deltalite.txn.isolation import IsolationLevel


class RowTest(Protocol):
    """A question that an operation asked of the table's rows, such as `columnar.skipping.FileTest`."""

    def may_match(self, partition_values: Mapping[str, str | None], stats: str | None) -> bool:
        """Whether a file with these partition values and statistics may hold a row that counts; False is certain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSet:
    """What the operation looked at: all rows, or the files of `keys` (see `file_key`) and the rows that `rows` mean.

    The keys are what it found; the tests say what else it would have found, had it been there.
    """

    whole_table: bool = False
    keys: frozenset[str] = frozenset()
    rows: tuple[RowTest, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing was read."""
        return not (self.whole_table or self.keys or self.rows)

    def would_have_read(self, added: AddFile) -> bool:
        """Whether the file may hold rows that the operation would have seen."""
        return self.whole_table or any(test.may_match(added.partition_values, added.stats) for test in self.rows)


SOURCE_VERSIONS = "sourceVersions"
"""The parameter of an operation that holds the versions of the Delta tables that it read, as JSON text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """How history shows the commit: Spark's operation name, parameters and metrics."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)
    user_metadata: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The actions of one commit and what they rest on.

    `read_version` is -1 where there was no table yet; `read_protocol` and `read_metadata`, the rules at that version,
    are None then. `row_level` says that the operation judged each row by itself: had other rows of a file been gone, it
    would have done the same to the rest. So says a DELETE or an UPDATE, and never a MERGE, whose source row may match
    one row or another. `revives_files` says that files come back that the table had given up, and a vacuum may
    delete.
    """

    read_version: int
    operation: Operation
    adds: Collection[AddFile] = ()
    removes: Collection[RemoveFile] = ()
    changes: tuple[AddCDCFile, ...] = ()
    protocol: actions.Protocol | None = None
    metadata: Metadata | None = None
    domains: tuple[DomainMetadata, ...] = ()
    txn: SetTransaction | None = None
    reads: ReadSet = field(default_factory=ReadSet)
    read_protocol: actions.Protocol | None = None
    read_metadata: Metadata | None = None
    row_level: bool = False
    revives_files: bool = False

    def __post_init__(self) -> None:
        paths = Counter(add.path for add in self.adds)
        if len(paths) < len(self.adds):
            raise CorruptLogError(
                f"Nothing was committed: the commit would add the file {paths.most_common(1)[0][0]} twice.",
                remedy="This is a bug in the library; please report it.",
            )

    @property
    def level(self) -> IsolationLevel:
        """What the table asks for."""
        if self.read_metadata is None:
            return IsolationLevel.SERIALIZABLE
        return IsolationLevel(props.ISOLATION_LEVEL.of(self.read_metadata.configuration))

    @property
    def is_blind_append(self) -> bool:
        """It only adds files, and read nothing to decide which. Protocol: `isBlindAppend` as delta-spark defines it."""
        return not self.removes and self.reads.is_empty

    @property
    def data_change(self) -> bool:
        """Whether any file action changes rows."""
        return any(a.data_change for a in self.adds) or any(r.data_change for r in self.removes)

    @property
    def isolation(self) -> IsolationLevel:
        """The level that this commit needs: one that only rearranges rows needs no more than that its files are there.

        The run that it records does not stand in the way, since that is compared by itself.
        """
        rules = self.protocol is not None or self.metadata is not None or bool(self.domains)
        only_files = not rules and bool(self.adds or self.removes)
        return IsolationLevel.SNAPSHOT if only_files and not self.data_change else self.level
