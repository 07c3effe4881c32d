"""The change data feed: the rows that versions of a table inserted, updated and deleted.

`plan_changes` reads the commits of the requested versions, and no data file. It lists the files with changed rows after
three checks:

1. The log holds the commits of all versions.
2. Each version recorded its changes.
3. The schema of the last version can read the rows of all versions.

`read_changes` returns the rows: the table's columns at the last version, then `CHANGE_COLUMNS`. Protocol: Change Data
Files; delta-spark's `CDCReader`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.change_feed.columns import CHANGE_COLUMNS, CHANGE_TYPE, change_file_schema
from deltalite.change_feed.history import VersionHistory
from deltalite.columnar.predicates.predicate import Predicate
from deltalite.columnar.reader.data_file import DataFile
from deltalite.columnar.reader.plan import DEFAULT_BATCH_SIZE
from deltalite.columnar.reader.projection import project
from deltalite.columnar.reader.stream import read_files
from deltalite.errors import (
    ChangeFeedUnavailableError,
    CorruptDataFileError,
    InvalidRequestError,
    VersionGapError,
    VersionNotFoundError,
)
from deltalite.log.action_files import read_actions
from deltalite.log.changes import ChangedFile, ChangeType, CommitChanges
from deltalite.log.commit_times import in_commit_settings, in_commit_timestamp, timed_commits
from deltalite.log.file_table import file_key, key_column
from deltalite.protocol.actions import AddFile, RemoveFile, parse_action
from deltalite.protocol.arrow_schema import schema_to_arrow
from deltalite.protocol.column_mapping import TableSchema
from deltalite.protocol.read_compatibility import value_incompatibility
from deltalite.protocol.schema import StructType
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore, StoredFile

_FILE_ACTIONS = (AddFile.action, RemoveFile.action)
_PartitionValuesByKey = dict[str, Mapping[str, str | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePlan:
    """The files to read for the changes of the versions `from_version` to `snapshot.version`, both inclusive.

    The schema of `snapshot` applies to all rows. `files` are in version order and have their partition values.
    `table_ids` has the table ids of all versions. `starts_with_metadata` is true if the first commit sets the
    metadata.
    """

    from_version: int
    snapshot: Snapshot
    files: tuple[ChangedFile, ...]
    table_ids: frozenset[str]
    starts_with_metadata: bool = False

    def unreadable_removals(self) -> str | None:
        """Return a clause: why the schema may fail to read rows that the first version removes. None if it reads them.

        These rows have the schema of the version before, which is unknown if its log was cleaned.
        """
        removes_rows = any(f.version == self.from_version and f.change_type is ChangeType.DELETE for f in self.files)
        if not self.starts_with_metadata or not removes_rows or self.from_version == 0:
            return None
        try:
            before = Snapshot.load(self.snapshot.store, self.from_version - 1)
        except (VersionNotFoundError, VersionGapError):
            return "the log no longer has the version before, which has their schema"
        return value_incompatibility(before.table_schema, self.snapshot.table_schema)

    @property
    def schema(self) -> StructType:
        """The table's columns, then `CHANGE_COLUMNS`."""
        return StructType((*self.snapshot.schema, *CHANGE_COLUMNS))

    @property
    def arrow_schema(self) -> pa.Schema:
        """The Arrow schema of the rows that `read_changes` returns."""
        return schema_to_arrow(self.schema)


def plan_changes(
    store: LogStore, from_version: int, to_version: int | None = None, *, loaded_snapshot: Snapshot | None = None
) -> ChangePlan:
    """Find the files to read for the changes of a range of versions, both inclusive.

    Args:
        store: the table's store.
        from_version: the first version.
        to_version: the last version; None means the newest one.
        loaded_snapshot: a snapshot that the caller has. If it is the snapshot of `to_version`, it is not loaded again.

    Raises:
        InvalidRequestError: a version is not a number of 0 or more, or the range is empty.
        VersionNotFoundError: a version is newer than the table, or the log no longer holds its commit.
        ChangeFeedUnavailableError: a version did not record its changes, removes a file with unknown partition values,
            or has rows that the last schema cannot read.
        TableNotFoundError, VersionGapError, CorruptLogError, UnsupportedFeatureError: the log cannot be read.
    """
    _check_range(from_version, to_version)
    if loaded_snapshot is not None and loaded_snapshot.version == to_version:
        last_snapshot = loaded_snapshot
    else:
        last_snapshot = Snapshot.load(store, to_version)
    commits = {time.version: (time.timestamp_ms, commit) for time, commit in timed_commits(store)}
    _check_commits(store, range(from_version, last_snapshot.version + 1), commits)
    is_one_version = from_version == last_snapshot.version
    history = VersionHistory(last_snapshot if is_one_version else Snapshot.load(store, from_version), needs_feed=True)
    in_commit = in_commit_settings(last_snapshot.protocol, last_snapshot.metadata)
    files: list[ChangedFile] = []
    for version in range(from_version, last_snapshot.version + 1):
        timestamp_ms, commit = commits[version]
        changes = read_commit_changes(store, commit)
        history.apply_commit(version, changes.protocol, changes.metadata)
        if in_commit is not None and in_commit.covers(version):
            timestamp_ms = in_commit_timestamp(changes.provenance, commit.name)
        files += changes.files(version=version, timestamp_ms=timestamp_ms)
    history.check_readable_as(last_snapshot.table_schema)
    complete_files = _with_partition_values(store, files, last_snapshot.table_schema, commits)
    return ChangePlan(
        from_version=from_version,
        snapshot=last_snapshot,
        files=tuple(complete_files),
        table_ids=frozenset(history.table_ids),
        starts_with_metadata=history.starts_with_metadata,
    )


def read_changes(
    plan: ChangePlan,
    *,
    files: Iterable[ChangedFile] | None = None,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
    batch_size: int = DEFAULT_BATCH_SIZE,
    use_threads: bool = True,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a plan in version order, as non-empty batches.

    Args:
        plan: the plan.
        files: files of the plan, in its order; None means all.
        columns: names of the table's columns. The batches have these columns, and then `CHANGE_COLUMNS`. None means all
            columns, so that the batches have `plan.arrow_schema`.
        predicate: selects rows, by logical column names; None selects all. It tests the rows before and after an update
            separately.
        batch_size: the maximum number of rows of a batch.
        use_threads: decode columns in parallel, in Arrow's thread pool.

    Raises:
        CorruptDataFileError: a file is malformed, or missing because a vacuum deleted it.
        InvalidRequestError, CorruptLogError, UnsupportedFeatureError, StorageError: see `read_files`.
    """
    store, table = plan.snapshot.store, plan.snapshot.table_schema
    fields = project(columns, table.logical).fields
    # The rows of a plan of appends may have a column with a reserved name.
    rows_schema = pa.schema([*schema_to_arrow(fields), *schema_to_arrow(StructType(CHANGE_COLUMNS))])
    for (version, timestamp_ms, change_type), group in groupby(
        plan.files if files is None else files, key=lambda f: (f.version, f.timestamp_ms, f.change_type)
    ):
        batches = read_files(
            store,
            (_data_file(file) for file in group),
            change_file_schema(table) if change_type is None else table,
            columns=[*fields.names, CHANGE_TYPE] if change_type is None else fields.names,
            predicate=predicate,
            batch_size=batch_size,
            use_threads=use_threads,
        )
        for batch in batches:
            change_types = batch.columns[-1] if change_type is None else pa.repeat(change_type.value, len(batch))
            if change_types.null_count:
                raise CorruptDataFileError(
                    f"A change data file of version {version} of {store.root} has rows without {CHANGE_TYPE}.",
                    remedy="Restore the file from a backup, or request changes from a later version.",
                )
            commit_time = pa.scalar(timestamp_ms * 1000, rows_schema.types[-1])
            versions = pa.repeat(pa.scalar(version, pa.int64()), len(batch))
            change_columns = [change_types, versions, pa.repeat(commit_time, len(batch))]
            yield pa.RecordBatch.from_arrays(
                [*batch.columns[: len(fields.fields)], *change_columns], schema=rows_schema
            )


def _check_range(from_version: int, to_version: int | None) -> None:
    for name, version in (("from_version", from_version), ("to_version", to_version)):
        if version is None and name == "to_version":
            continue
        if not isinstance(version, int) or isinstance(version, bool) or version < 0:
            raise InvalidRequestError(
                f"{name} is {version!r}, which is not a version.", remedy="Give a version of 0 or more."
            )
    if to_version is not None and from_version > to_version:
        raise InvalidRequestError(
            f"from_version {from_version} is later than to_version {to_version}.",
            remedy="Give the lower version first. Without to_version, a DeltaTable uses its version as the last one.",
        )


def _check_commits(store: LogStore, versions: range, commits: Container[int]) -> None:
    """Check that the log holds the commit of each version.

    A checkpoint lists no changes, so it does not replace a commit.
    """
    missing = [version for version in versions if version not in commits]
    if not missing:
        return
    oldest_available = next((version for version in versions if version in commits), None)
    if oldest_available is not None and missing[-1] > oldest_available:
        raise VersionGapError(
            f"The changes of version {missing[-1]} of {store.root} cannot be read: its commit is missing.",
            remedy=f"Restore the missing commit, or request changes from version {missing[-1] + 1} on.",
        )
    raise VersionNotFoundError(
        f"The log of {store.root} no longer holds the commit of version {missing[0]}"
        + (
            " or of any later requested version."
            if oldest_available is None
            else f". The oldest requested version with a commit is {oldest_available}."
        ),
        remedy="Request later changes."
        if oldest_available is None
        else f"Request changes from version {oldest_available} on.",
    )


def read_commit_changes(store: LogStore, commit: StoredFile, *, ignores_change_files: bool = False) -> CommitChanges:
    """Read the changes of one commit; see `CommitChanges` for `ignores_change_files`.

    Raises:
        VersionGapError: the commit was deleted.
        CorruptLogError: the commit is malformed.
    """
    changes = CommitChanges(commit.name, ignores_change_files=ignores_change_files)
    for kind, body in read_actions(store, commit.name, commit.size_bytes):
        changes.take(kind, body)
    return changes


def _with_partition_values(
    store: LogStore, files: list[ChangedFile], schema: TableSchema, commits: Mapping[int, tuple[int, StoredFile]]
) -> Iterator[ChangedFile]:
    """Yield the files with their partition values. `files` are in version order.

    A `remove` action may lack the partition values of its file. The function then takes the values that the file has
    in the version before. delta-spark rejects such an action. The function loads one version and reads the later
    commits a second time, so the time is linear in the number of versions.

    Raises:
        ChangeFeedUnavailableError: the version before does not contain such a file.
    """
    files_without_values = [file for file in files if file.partition_values is None]
    if not files_without_values or not schema.partition_columns:
        yield from (file if file.partition_values is not None else replace(file, partition_values={}) for file in files)
        return
    keys = {_key(file) for file in files_without_values}
    values_version = files_without_values[0].version - 1
    values_by_key = _values_at(store, values_version, keys)
    for file in files:
        if file.partition_values is not None:
            yield file
            continue
        while values_version < file.version - 1:
            values_version += 1
            _update_values(store, commits[values_version][1], values_by_key, keys)
        if _key(file) not in values_by_key:
            raise ChangeFeedUnavailableError(
                f"Version {file.version} of {store.root} removes the file '{file.path}' without its partition values, "
                "and the version before does not contain this file.",
                remedy="Request changes of versions before or after this one.",
            )
        yield replace(file, partition_values=values_by_key[_key(file)])


def _values_at(store: LogStore, version: int, keys: set[str]) -> _PartitionValuesByKey:
    """Return, by file key, the partition values of the files in `keys` at a version; empty for a version below 0."""
    if version < 0:
        return {}
    files = Snapshot.load(store, version).files_with(("path", "partitionValues", "deletionVector"))
    rows = files.filter(pc.is_in(key_column(files), value_set=pa.array(list(keys), pa.string()))).to_pylist()
    return {file_key(row["path"], row["deletionVector"]): dict(row["partitionValues"] or ()) for row in rows}


def _update_values(store: LogStore, commit: StoredFile, values_by_key: _PartitionValuesByKey, keys: set[str]) -> None:
    """Update `values_by_key` from the version before a commit to the version of the commit.

    If the commit removes and adds the same file, the add applies.
    """
    added: _PartitionValuesByKey = {}
    for kind, body in read_actions(store, commit.name, commit.size_bytes):
        action = parse_action(kind, body, commit.name) if kind in _FILE_ACTIONS else None
        if isinstance(action, AddFile) and (key := file_key(action.path, action.deletion_vector)) in keys:
            added[key] = action.partition_values
        elif isinstance(action, RemoveFile):
            values_by_key.pop(file_key(action.path, action.deletion_vector), None)
    values_by_key.update(added)


def _key(file: ChangedFile) -> str:
    return file_key(file.path, file.deletion_vector)


def _data_file(file: ChangedFile) -> DataFile:
    return DataFile(
        path=file.path,
        partition_values=file.partition_values or {},
        deletion_vector=file.deletion_vector,
        only_rows_vector=file.only_rows_vector,
    )
