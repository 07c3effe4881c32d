"""`DeltaTable`: a Delta table for Python, without Spark.

A `DeltaTable` is one version, chosen when it is made; it never moves. Rows come as Arrow, files as an Arrow table. It
reads only: writing is what the jobs do.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice
from typing import Any, Self

import pyarrow as pa

from deltalite.change_feed import plan_changes, read_changes
from deltalite.columnar.data_file import data_files, split
from deltalite.columnar.filters import from_filters
from deltalite.columnar.predicate import Predicate
from deltalite.columnar.reader import read_files, read_table
from deltalite.columnar.record_counts import num_records
from deltalite.columnar.skipping import prune
from deltalite.errors import InvalidRequestError
from deltalite.log.commit_times import in_commit_times, required_time
from deltalite.log.file_table import bytes_of, respelled
from deltalite.log.history import read_history
from deltalite.protocol.actions import Metadata, Protocol
from deltalite.protocol.arrow_schema import schema_to_arrow
from deltalite.protocol.features import supported_features
from deltalite.protocol.paths import decode_path
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore
from deltalite.storage.opening import open_store
from deltalite.storage.versioned_path import VersionedPath, resolve_version

Filter = Sequence[tuple[str, str, Any]] | Sequence[Sequence[tuple[str, str, Any]]]

# Larger files are read in parts of about this size, at the same time.
_PART_BYTES = 64 * 1024 * 1024


class DeltaTable:
    """A table at one version.

    Args:
        path: its address; may end with `@v3`, or `@` and a time as `yyyyMMddHHmmssSSS`.
        version: the version, instead of the newest.
        timestamp: ISO 8601 or a datetime (UTC where it has no zone): the newest version at that time.
        storage_options: for the fsspec client of a table that is not local, such as `key` and `secret` for S3.

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
        wanted = resolve_version(os.fspath(path) if isinstance(path, os.PathLike) else path, version, timestamp)
        self._snapshot = _loaded(open_store(wanted.path, storage_options=storage_options), wanted)

    @classmethod
    def of(cls, store: LogStore, *, version: int | None = None, timestamp: str | datetime | None = None) -> Self:
        """The table of a store that was opened elsewhere, as with an Airflow connection; otherwise as `DeltaTable`."""
        made = cls.__new__(cls)
        made._snapshot = _loaded(store, resolve_version("", version, timestamp))  # noqa: SLF001  our own
        return made

    def __repr__(self) -> str:
        return f"DeltaTable({self._snapshot.store.root!r}, version={self.version})"

    @property
    def version(self) -> int:
        """The version."""
        return self._snapshot.version

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns, partition columns included, in the table's order."""
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
        """The active files.

        Columns: path (decoded) string, partition_values map<string, string>, size_bytes int64, modification_time_ms
        int64, num_records int64 (null where the statistics do not say), stats string (JSON), deletion_vector struct.
        """
        files = self._snapshot.files
        return pa.table(
            {
                "path": respelled(files["path"], decode_path),
                "partition_values": files["partitionValues"],
                "size_bytes": files["size"],
                "modification_time_ms": files["modificationTime"],
                "num_records": num_records(files["stats"]),
                "stats": files["stats"],
                "deletion_vector": files["deletionVector"],
            }
        )

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The commits up to this version, newest first: provenance, `version` and `timestamp` (a datetime in UTC)."""
        if not (limit is None or (type(limit) is int and limit >= 0)):
            raise InvalidRequestError(f"limit is {limit!r}.", remedy="Give a positive int, or leave it out.")
        in_commit = in_commit_times(self.protocol, self.metadata)
        entries = read_history(self._snapshot.store, up_to_version=self.version, in_commit=in_commit)
        return list(islice(entries, limit))

    def detail(self) -> dict[str, Any]:
        """What `DESCRIBE DETAIL` says, with Spark's names; times are datetimes in UTC, sizes bytes."""
        snapshot, metadata = self._snapshot, self.metadata
        return {
            "format": "delta",
            "id": metadata.id,
            "name": metadata.name,
            "description": metadata.description,
            "location": snapshot.store.root,
            "createdAt": _moment(metadata.created_time_ms),
            "lastModified": _moment(self._last_modified_ms()),
            "partitionColumns": list(snapshot.partition_columns),
            "numFiles": snapshot.files.num_rows,
            "sizeInBytes": bytes_of(snapshot.files),
            "properties": dict(snapshot.configuration),
            "minReaderVersion": self.protocol.min_reader_version,
            "minWriterVersion": self.protocol.min_writer_version,
            "tableFeatures": sorted(supported_features(self.protocol)),
        }

    def _last_modified_ms(self) -> int | None:
        """The time of this version's commit, None where the commit is gone."""
        newest = self._snapshot.segment.newest_file
        in_commit = in_commit_times(self.protocol, self.metadata)
        if newest is None or in_commit is None or not in_commit.cover(self.version):
            return None if newest is None else newest.modified_ms
        return required_time(self._snapshot.commit_info, newest.name)

    def to_batches(
        self,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,  # noqa: A002  the interface's name
    ) -> Iterator[pa.RecordBatch]:
        """The rows as a stream of record batches of `schema` (or of `columns`, in their order).

        Args:
            columns: names, without regard to case; all where None.
            filter: tuples `(column, op, value)` that must all hold, or a list of such lists of which one must hold.
        """
        files, predicate = self._chosen(filter)
        snapshot = self._snapshot
        return read_files(
            snapshot.store, data_files(files), snapshot.table_schema, columns=columns, predicate=predicate
        )

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,  # noqa: A002  the interface's name
    ) -> pa.Table:
        """The rows as one Arrow table; see `to_batches`."""
        files, predicate = self._chosen(filter)
        snapshot = self._snapshot
        parts = (
            part
            for file, size in zip(data_files(files), files["size"].to_pylist(), strict=True)
            for part in split(file, size or 0, _PART_BYTES)
        )
        return read_table(snapshot.store, parts, snapshot.table_schema, columns=columns, predicate=predicate)

    def changes(self, from_version: int, to_version: int | None = None) -> Iterator[pa.RecordBatch]:
        """The rows that versions inserted, updated and deleted, in the order of the versions (the change data feed).

        Batches have the columns of the table at `to_version`, then `_change_type` (insert, update_preimage,
        update_postimage or delete) string, `_commit_version` int64 and `_commit_timestamp` timestamp[us, UTC].

        Args:
            from_version: the first version whose changes are wanted.
            to_version: the last one; the version of this object where None.

        Raises:
            InvalidRequestError, VersionNotFoundError, ChangeFeedUnavailableError: at once, as `plan_changes` says.
        """
        last = self.version if to_version is None else to_version
        return read_changes(plan_changes(self._snapshot.store, from_version, last, loaded=self._snapshot))

    def _chosen(self, filters: Filter | None) -> tuple[pa.Table, Predicate]:
        """The files that may hold rows of a filter, and the filter as a predicate."""
        predicate = from_filters(filters, self._snapshot.schema)
        return prune(self._snapshot.files, predicate, self._snapshot.table_schema), predicate


def _moment(milliseconds: int | None) -> datetime | None:
    """The moment in UTC, None where it lies outside of the years 1 to 9999 that a datetime has."""
    try:
        return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, tz=UTC)
    except (OverflowError, ValueError):
        return None


def _loaded(store: LogStore, wanted: VersionedPath) -> Snapshot:
    """The snapshot at the version or time that is wanted; the newest where neither is."""
    if wanted.timestamp_ms is not None:
        return Snapshot.load_at(store, wanted.timestamp_ms)
    return Snapshot.load(store, wanted.version)
