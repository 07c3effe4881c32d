"""The proposed commit of a command, as one value.

A proposal is based on one snapshot. It records the data that the command read from this snapshot. This data decides
whether another writer's commit conflicts. Protocol: Commit Provenance Information.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from deltalite.errors import CorruptLogError
from deltalite.log.version_checksum import VersionChecksum
from deltalite.protocol import actions
from deltalite.protocol import properties as props
from deltalite.protocol.actions import AddCDCFile, AddFile, DomainMetadata, Metadata, RemoveFile, SetTransaction
from deltalite.protocol.features import supported_features
from deltalite.protocol.row_tracking import FEATURE, NO_ROW_ID, high_water_mark
from deltalite.txn.isolation import IsolationLevel

if TYPE_CHECKING:
    from deltalite.snapshot import Snapshot


class RowTest(Protocol):
    """A test that an operation applied to the table's rows, such as `columnar.skipping.files.FileTest`."""

    def may_match(self, partition_values: Mapping[str, str | None], stats: str | None) -> bool:
        """Whether a file with these partition values and statistics may hold a matching row.

        False means that the file holds no matching row.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSet:
    """The data that the operation read: the whole table, or certain files and rows.

    - `keys`: the files that the operation read (see `file_key`).
    - `row_tests`: tests for rows that the operation would have read if the rows had existed.
    - `app_id_prefixes`: prefixes of the app ids whose transactions the operation read, such as those of a flow, or the
      app id of the loaded files.
    """

    whole_table: bool = False
    keys: frozenset[str] = frozenset()
    row_tests: tuple[RowTest, ...] = ()
    app_id_prefixes: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the operation read no file and no row. Transactions do not count, as in delta-spark."""
        return not (self.whole_table or self.keys or self.row_tests)

    def would_have_read(self, added: AddFile) -> bool:
        """Whether the file may hold rows that the operation would have read."""
        return self.whole_table or any(test.may_match(added.partition_values, added.stats) for test in self.row_tests)


SOURCE_VERSIONS = "sourceVersions"
"""The operation parameter with the versions of the Delta tables that the operation read, as JSON text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """The entry of the commit in the table's history: Spark's operation name, parameters and metrics."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)
    user_metadata: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseState:
    """The table state that an operation read: a version, and its protocol and metadata.

    - Without a table, `version` is -1, and `protocol` and `metadata` are None.
    - `row_id_mark`: the highest row id that the table has assigned; see `protocol.row_tracking`.
    - `checksum`, `commit_info`: the version's checksum and the provenance of its commit. Each is None if the log has
      none, or if the operation did not read it.
    """

    version: int = -1
    protocol: actions.Protocol | None = None
    metadata: Metadata | None = None
    row_id_mark: int = NO_ROW_ID
    checksum: VersionChecksum | None = None
    commit_info: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, base: Snapshot | None) -> BaseState:
        """Return the state of a snapshot, or the state without a table."""
        if base is None:
            return cls()
        return cls(
            version=base.version,
            protocol=base.protocol,
            metadata=base.metadata,
            row_id_mark=high_water_mark(base.domains) if FEATURE in supported_features(base.protocol) else NO_ROW_ID,
            checksum=base.checksum,
            commit_info=base.replayed_commit_info,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The actions of one commit, and the table state that they are based on.

    - `txn`: the transaction of the run.
    - `offsets`: the transactions with the source offsets of flows (`txn.flows`), and the transaction that names the
      loaded files (`txn.loaded_files`).
    - `row_level`: whether the operation decided on each row independently of all other rows. This is true for some
      DELETE and UPDATE operations. It is never true for a MERGE, because the effect of a source row depends on all
      target rows that it matches.
    - `revives_files`: whether the commit adds removed files again, which a vacuum may delete meanwhile.
    - `keeps_row_ids`: whether rows that the commit updates or copies keep their row ids.
    - `audits_table`: whether audits examined the table as the commit leaves it. The commit then conflicts with every
      winning commit that changes rows, also with a blind append.
    - `protects_checkpoints`: whether the commit protects the checkpoints before its version, because it drops a table
      feature. The proposal then must have `metadata`.
    """

    base: BaseState
    operation: Operation
    adds: Collection[AddFile] = ()
    removes: Collection[RemoveFile] = ()
    changes: tuple[AddCDCFile, ...] = ()
    protocol: actions.Protocol | None = None
    metadata: Metadata | None = None
    domains: tuple[DomainMetadata, ...] = ()
    txn: SetTransaction | None = None
    offsets: tuple[SetTransaction, ...] = ()
    reads: ReadSet = field(default_factory=ReadSet)
    row_level: bool = False
    revives_files: bool = False
    keeps_row_ids: bool = True
    audits_table: bool = False
    protects_checkpoints: bool = False

    def __post_init__(self) -> None:
        paths = Counter(add.path for add in self.adds)
        if len(paths) < len(self.adds):
            raise CorruptLogError(
                f"Nothing was committed: the commit would add the file {paths.most_common(1)[0][0]} twice.",
                remedy="This is a bug in the library; please report it.",
            )

    @property
    def _table_isolation(self) -> IsolationLevel:
        """The isolation level that the table's properties require."""
        if self.base.metadata is None:
            return IsolationLevel.SERIALIZABLE
        return IsolationLevel(props.ISOLATION_LEVEL.of(self.base.metadata.configuration))

    @property
    def is_blind_append(self) -> bool:
        """Whether the commit removes no file, and the operation read nothing; as delta-spark's `isBlindAppend`."""
        return not self.removes and self.reads.is_empty

    @property
    def data_change(self) -> bool:
        """Whether any file action changes rows."""
        return any(a.data_change for a in self.adds) or any(r.data_change for r in self.removes)

    def table_meets(self, condition: Callable[[actions.Protocol, Metadata], bool]) -> bool:
        """Whether the table's protocol and metadata meet the condition after the commit."""
        protocol, metadata = self.protocol or self.base.protocol, self.metadata or self.base.metadata
        return protocol is not None and metadata is not None and condition(protocol, metadata)

    @property
    def isolation(self) -> IsolationLevel:
        """The level that this commit needs. A commit that only rearranges rows needs snapshot isolation.

        A transaction identifier does not raise the level, because the conflict rules check it separately.
        """
        if self.audits_table:
            return IsolationLevel.SERIALIZABLE
        changes_rules = self.protocol is not None or self.metadata is not None or bool(self.domains)
        only_rearranges_rows = bool(self.adds or self.removes) and not changes_rules and not self.data_change
        return IsolationLevel.SNAPSHOT if only_rearranges_rows else self._table_isolation
