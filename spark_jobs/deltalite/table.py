"""`DeltaTable`: a Delta table for Python, without Spark.

A `DeltaTable` shows one version, which is chosen at construction and never changes. It returns rows as Arrow record
batches and files as an Arrow table. It only reads; jobs write.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice
from typing import Any, Self

import pyarrow as pa

from deltalite.change_feed import plan_changes, read_changes
from deltalite.columnar.predicates.filters import from_filters
from deltalite.columnar.predicates.predicate import Predicate
from deltalite.columnar.reader.data_file import data_files, split
from deltalite.columnar.reader.projection import may_request_row_ids
from deltalite.columnar.reader.stream import read_files, read_table
from deltalite.columnar.skipping.files import prune
from deltalite.columnar.skipping.record_counts import num_records
from deltalite.errors import InvalidRequestError
from deltalite.loaded_files.manifest import Manifest, current_manifest_number, read_manifest
from deltalite.loaded_files.record import read_loaded_files
from deltalite.log.commit_times import in_commit_settings, in_commit_timestamp
from deltalite.log.file_table import bytes_of, rewrite_noncanonical_paths
from deltalite.log.history import read_history
from deltalite.protocol.actions import NOTHING_LOADED, Metadata, Protocol
from deltalite.protocol.arrow_schema import schema_to_arrow
from deltalite.protocol.features import supported_features
from deltalite.protocol.paths import decode_path
from deltalite.protocol.row_tracking import RowIdColumns
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore
from deltalite.storage.opening import open_store
from deltalite.storage.versioned_path import VersionedPath, resolve_version
from deltalite.txn.flows import flow_offsets

Filter = Sequence[tuple[str, str, Any]] | Sequence[Sequence[tuple[str, str, Any]]]

# Larger files are read in parallel, in parts of about this size.
_PART_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """An incremental source that a table has loaded.

    - `name`: the name of the flow; by default the address of its source.
    - `source_table_id`: the id of the source table.
    - `version`: the last loaded version of the source; None if the flow was reset, or the table was restored.
    - `last_updated_ms`: the time of the commit in milliseconds UTC; None if the commit has none.
    """

    name: str
    source_table_id: str
    version: int | None
    last_updated_ms: int | None


class DeltaTable:
    """A table at one version.

    Args:
        path: the table's address. It may end with `@v3`, or with `@` and a time as `yyyyMMddHHmmssSSS`.
        version: the version to read, instead of the newest one.
        timestamp: a time, as ISO 8601 or a datetime. A time without a time zone is read as UTC. Selects the newest
            version at that time.
        storage_options: options for the fsspec client of a table that is not local, such as `key` and `secret` for S3.

    Raises:
        TableNotFoundError, VersionNotFoundError, TimestampOutOfRangeError, UnsupportedFeatureError, CorruptLogError,
        InvalidRequestError, StorageError: see `deltalite.errors`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        version: int | None = None,
        timestamp: str | datetime | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        versioned_path = resolve_version(os.fspath(path) if isinstance(path, os.PathLike) else path, version, timestamp)
        self._snapshot = _load(open_store(versioned_path.path, storage_options=storage_options), versioned_path)

    @classmethod
    def of(cls, store: LogStore, *, version: int | None = None, timestamp: str | datetime | None = None) -> Self:
        """Return the table of a store that is already open, for example one opened with an Airflow connection.

        The other arguments and the errors are those of `DeltaTable`.
        """
        table = cls.__new__(cls)
        table._snapshot = _load(store, resolve_version("", version, timestamp))  # noqa: SLF001  of this class
        return table

    def __repr__(self) -> str:
        return f"DeltaTable({self._snapshot.store.root!r}, version={self.version})"

    @property
    def version(self) -> int:
        """The version that this object shows."""
        return self._snapshot.version

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns in the table's order, including partition columns."""
        return schema_to_arrow(self._snapshot.schema)

    @property
    def metadata(self) -> Metadata:
        """The metadata action, with id, name, description, partition columns and properties."""
        return self._snapshot.metadata

    @property
    def protocol(self) -> Protocol:
        """The protocol action."""
        return self._snapshot.protocol

    def files(self) -> pa.Table:
        """Return the active files.

        Columns: path (decoded) string, partition_values map<string, string>, size_bytes int64, modification_time_ms
        int64, num_records int64 (null if the statistics lack it), stats string (JSON), deletion_vector struct.
        """
        files = self._snapshot.files
        return pa.table(
            {
                "path": rewrite_noncanonical_paths(files["path"], decode_path),
                "partition_values": files["partitionValues"],
                "size_bytes": files["size"],
                "modification_time_ms": files["modificationTime"],
                "num_records": num_records(files["stats"]),
                "stats": files["stats"],
                "deletion_vector": files["deletionVector"],
            }
        )

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Return the commits up to this version, newest first; at most `limit` commits.

        Each entry holds the values of the commit's `commitInfo`, its `version` and its `timestamp` (a datetime in UTC).
        """
        if not (limit is None or (type(limit) is int and limit >= 0)):
            raise InvalidRequestError(
                f"Invalid limit {limit!r} for the history of {self._snapshot.store.root}.",
                remedy="Give an int of 0 or more, or leave the limit out.",
            )
        in_commit = in_commit_settings(self.protocol, self.metadata)
        entries = read_history(self._snapshot.store, up_to_version=self.version, in_commit=in_commit)
        return list(islice(entries, limit))

    def flows(self) -> list[Flow]:
        """Return the incremental sources that the table has loaded up to this version, sorted by name."""
        flows = (
            Flow(
                name=flow_id.name,
                source_table_id=flow_id.source_table_id,
                version=None if txn.version == NOTHING_LOADED else txn.version,
                last_updated_ms=txn.last_updated_ms,
            )
            for flow_id, txn in flow_offsets(self._snapshot.transactions).items()
        )
        return sorted(flows, key=lambda flow: (flow.name, flow.source_table_id))

    def loaded_file_count(self) -> int:
        """Return the number of files that `DeltaCopyOperator` has loaded up to this version."""
        return self._loaded_manifest().file_count

    def loaded_files(self, *, since_ms: int | None = None, until_ms: int | None = None) -> Iterator[pa.Table]:
        """Yield Arrow tables with a row for each file that `DeltaCopyOperator` has loaded up to this version.

        The columns are `address`, `size_bytes`, `modified_ms`, `etag` and `loaded_ms`. `since_ms` (inclusive) and
        `until_ms` (exclusive) are modification times in milliseconds UTC.

        Raises:
            CorruptLogError: the record of the loaded files is missing or unreadable.
        """
        store = self._snapshot.store
        return read_loaded_files(store, self._loaded_manifest(), since_ms=since_ms, until_ms=until_ms)

    def _loaded_manifest(self) -> Manifest:
        return read_manifest(self._snapshot.store, current_manifest_number(self._snapshot.transactions))

    def detail(self) -> dict[str, Any]:
        """Return the values of `DESCRIBE DETAIL` under Spark's names; times are datetimes in UTC, sizes are bytes."""
        snapshot, metadata = self._snapshot, self.metadata
        return {
            "format": "delta",
            "id": metadata.id,
            "name": metadata.name,
            "description": metadata.description,
            "location": snapshot.store.root,
            "createdAt": utc_datetime(metadata.created_time_ms),
            "lastModified": utc_datetime(self._last_modified_ms()),
            "partitionColumns": list(snapshot.partition_columns),
            "numFiles": snapshot.files.num_rows,
            "sizeInBytes": bytes_of(snapshot.files),
            "properties": dict(snapshot.configuration),
            "minReaderVersion": self.protocol.min_reader_version,
            "minWriterVersion": self.protocol.min_writer_version,
            "tableFeatures": sorted(supported_features(self.protocol)),
        }

    def _last_modified_ms(self) -> int | None:
        """Return the time of this version's commit, None if the log no longer holds the commit."""
        commit = self._snapshot.segment.commit_file
        in_commit = in_commit_settings(self.protocol, self.metadata)
        if commit is None or in_commit is None or not in_commit.covers(self.version):
            return None if commit is None else commit.modified_ms
        return in_commit_timestamp(self._snapshot.commit_info, commit.name)

    def to_batches(
        self,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,  # noqa: A002  the interface's name
    ) -> Iterator[pa.RecordBatch]:
        """Return the rows as a stream of record batches with `schema`, or with `columns` in the given order.

        Args:
            columns: column names (case-insensitive); None selects all columns. A table with row tracking also has
                the columns `_row_id` (int64), and `_row_commit_version` (int64): the version that last wrote the row.
            filter: a list of tuples `(column, op, value)` that must all hold, or a list of such lists, of which at
                least one must hold. `op` is a comparison such as `>=`, `in`, `not in`, `is null` or `is not null`.
        """
        files, predicate = self._prune(filter)
        snapshot = self._snapshot
        return read_files(
            snapshot.store,
            data_files(files),
            snapshot.table_schema,
            columns=columns,
            predicate=predicate,
            row_ids=self._row_ids(columns),
        )

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,  # noqa: A002  the interface's name
    ) -> pa.Table:
        """Return the rows as one Arrow table; see `to_batches`."""
        files, predicate = self._prune(filter)
        snapshot = self._snapshot
        file_parts = (
            part
            for file, size in zip(data_files(files), files["size"].to_pylist(), strict=True)
            for part in split(file, size or 0, _PART_BYTES)
        )
        return read_table(
            snapshot.store,
            file_parts,
            snapshot.table_schema,
            columns=columns,
            predicate=predicate,
            row_ids=self._row_ids(columns),
        )

    def changes(self, from_version: int, to_version: int | None = None) -> Iterator[pa.RecordBatch]:
        """Return the rows that versions inserted, updated and deleted (the change data feed), in version order.

        Batches have the columns of the table at `to_version`, then `_change_type` (insert, update_preimage,
        update_postimage or delete) string, `_commit_version` int64 and `_commit_timestamp` timestamp[us, UTC].

        Args:
            from_version: the first version to return changes of.
            to_version: the last version; None means the version of this object.

        Raises:
            InvalidRequestError, VersionNotFoundError, ChangeFeedUnavailableError: when you call the method, not during
                the iteration; see `deltalite.errors`.
        """
        last = self.version if to_version is None else to_version
        return read_changes(plan_changes(self._snapshot.store, from_version, last, loaded_snapshot=self._snapshot))

    def _row_ids(self, columns: Sequence[str] | None) -> RowIdColumns | None:
        """Return the columns that preserve row ids if `columns` has a row id column, else None.

        A read without row ids must not fail if the metadata does not name these columns.
        """
        return self._snapshot.row_ids if columns is not None and may_request_row_ids(columns) else None

    def _prune(self, filters: Filter | None) -> tuple[pa.Table, Predicate]:
        """Return the files that may hold matching rows, and the filter as a predicate."""
        predicate = from_filters(filters, self._snapshot.schema)
        return prune(self._snapshot.files, predicate, self._snapshot.table_schema), predicate


def utc_datetime(milliseconds: int | None) -> datetime | None:
    """Return the time in UTC; None if it is outside of the years 1 to 9999, which a datetime can hold."""
    try:
        return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, tz=UTC)
    except (OverflowError, ValueError):
        return None


def _load(store: LogStore, versioned_path: VersionedPath) -> Snapshot:
    """Load the snapshot of the given version or time, or the newest one if neither is given."""
    if versioned_path.timestamp_ms is not None:
        return Snapshot.load_at(store, versioned_path.timestamp_ms)
    return Snapshot.load(store, versioned_path.version)
