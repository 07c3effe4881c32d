"""The state of a table at one version.

`Snapshot.load` checks that the log is contiguous, that this release can read the protocol, and that the schema parses.
The state comes from the version's checksum file or from log replay (`log/state.py`). The file list is loaded on first
use.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from deltalite.errors import TimestampOutOfRangeError
from deltalite.log.commit_times import Timeline, in_commit_settings
from deltalite.log.file_table import ADD_TYPES, LISTED_COLUMNS, REMOVE_TYPES
from deltalite.log.segment import LogSegment
from deltalite.log.state import LogState
from deltalite.log.version_checksum import VersionChecksum
from deltalite.protocol import properties as props
from deltalite.protocol.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from deltalite.protocol.column_mapping import TableSchema, table_schema_of
from deltalite.protocol.features import check_readable, supported_features
from deltalite.protocol.row_tracking import FEATURE, ROW_ID_FIELDS, RowIdColumns, row_id_columns
from deltalite.protocol.schema import StructType
from deltalite.storage.log_store import LogStore


class Snapshot:
    """One version of a table; use `load` or `load_at` to create it."""

    def __init__(self, log: LogState, *, loaded_at_ms: int) -> None:
        check_readable(log.protocol, log.metadata)
        self._log = log
        self._files: pa.Table | None = None
        self.loaded_at_ms = loaded_at_ms
        self.table_schema: TableSchema = table_schema_of(log.protocol, log.metadata)

    @classmethod
    def load(cls, store: LogStore, version: int | None = None) -> Snapshot:
        """Load the snapshot of `version`, or of the newest version.

        Raises:
            TableNotFoundError, VersionNotFoundError, VersionGapError, CorruptLogError, CorruptCheckpointError,
            UnsupportedFeatureError: see `LogState.open` and `check_readable`.
        """
        return cls(LogState.open(store, version), loaded_at_ms=time.time_ns() // 1_000_000)

    @classmethod
    def load_at(cls, store: LogStore, timestamp_ms: int) -> Snapshot:
        """Load the newest snapshot that was committed at or before a time (milliseconds UTC) and can be rebuilt.

        A time between the last commit and now selects the last commit. Protocol: time travel uses commit timestamps,
        which are in-commit timestamps if the table has enabled them.

        Raises:
            TimestampOutOfRangeError: the time is before the first commit that can be rebuilt, or in the future.
            CorruptLogError: a commit lacks its required in-commit timestamp.
        """
        latest = cls.load(store)
        timeline = Timeline(store, in_commit_settings(latest.protocol, latest.metadata))
        commit = timeline.newest_at(timestamp_ms)
        if commit is None:
            first = min(timeline.versions, default=None)
            raise TimestampOutOfRangeError(
                f"{store.root} has no version at or before {_format_time(timestamp_ms)}"
                + (
                    "."
                    if first is None
                    else f": the oldest readable version is {first}, of {_format_time(timeline.time_of(first))}."
                ),
                remedy="Give a later time, or a version. Older versions never existed, or have expired by "
                "delta.logRetentionDuration. A backfill cannot begin earlier.",
            )
        # Several commits within one millisecond get increasing times, which run slightly ahead of the clock.
        if timestamp_ms > latest.loaded_at_ms and timestamp_ms > timeline.time_of(timeline.versions[-1]):
            raise TimestampOutOfRangeError(
                f"Could not read {store.root} at {_format_time(timestamp_ms)}: that time is in the future.",
                remedy="Give a time in the past, or leave it out to read the newest version.",
            )
        return latest if commit.version == latest.version else cls.load(store, commit.version)

    def check_log(self) -> None:
        """Replay the commits even if a checksum file already holds the state, because a write must verify the log.

        Raises:
            CorruptLogError, CorruptCheckpointError, VersionGapError: the log cannot be replayed, or contradicts the
                checksum file.
        """
        _ = self._log.transactions  # only a replay provides them

    @property
    def store(self) -> LogStore:
        """The store of the table."""
        return self._log.store

    @property
    def version(self) -> int:
        """The version of this snapshot."""
        return self._log.segment.version

    @property
    def segment(self) -> LogSegment:
        """The log files that this snapshot is built from."""
        return self._log.segment

    @property
    def protocol(self) -> Protocol:
        """The protocol in force."""
        return self._log.protocol

    @property
    def metadata(self) -> Metadata:
        """The metadata in force."""
        return self._log.metadata

    @property
    def configuration(self) -> Mapping[str, str]:
        """The table's properties."""
        return self._log.metadata.configuration

    @property
    def schema(self) -> StructType:
        """The columns under their logical names."""
        return self.table_schema.logical

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The partition columns, in order."""
        return self._log.metadata.partition_columns

    @property
    def row_ids(self) -> RowIdColumns | None:
        """The columns of data files that preserve row ids, None if row tracking is not enabled.

        Raises:
            CorruptLogError: the metadata does not name the columns.
        """
        return row_id_columns(self.protocol, self.metadata)

    @property
    def domains(self) -> Mapping[str, DomainMetadata]:
        """The domain metadata that is not removed, by domain."""
        return self._log.domains

    @property
    def commit_info(self) -> Mapping[str, Any] | None:
        """The provenance of the version's commit; None if the commit contains none or is no longer in the log."""
        return self._log.commit_info

    @property
    def checksum(self) -> VersionChecksum | None:
        """The version's checksum, or None if the version has no usable checksum file.

        A checksum file is unusable if it is invalid or too large, or if its file counts contradict the log.
        """
        return self._log.checksum

    @property
    def replayed_commit_info(self) -> Mapping[str, Any] | None:
        """The same as `commit_info` if `check_log` has read the commit, None otherwise. Sends no request."""
        return self._log.replayed_commit_info

    @property
    def transactions(self) -> Mapping[str, SetTransaction]:
        """The unexpired transaction identifiers, by app id.

        With `delta.setTransactionRetentionDuration`, an identifier has expired if it is older than this duration or has
        no time. Source offsets of flows and the record of loaded files do not expire.
        """
        retention_ms = props.SET_TRANSACTION_RETENTION_MS.of(self.configuration)
        if retention_ms is None:
            return self._log.transactions
        expired_until_ms = self.loaded_at_ms - retention_ms
        return {app_id: txn for app_id, txn in self._log.transactions.items() if txn.is_kept(expired_until_ms)}

    @property
    def files(self) -> pa.Table:
        """The active files, read once. The columns are `LISTED_COLUMNS`, and also `ROW_ID_FIELDS` with row tracking.

        This is not a `cached_property`, because Python 3.11 uses one lock for all instances. A table on slow storage
        would block all other tables of the process.
        """
        if self._files is None:
            has_row_ids = FEATURE in supported_features(self.protocol)
            self._files = self.files_with((*LISTED_COLUMNS, *ROW_ID_FIELDS) if has_row_ids else LISTED_COLUMNS)
        return self._files

    def files_with(self, columns: Sequence[str] = tuple(ADD_TYPES)) -> pa.Table:
        """Return the active files with the given columns of `ADD_TYPES`.

        Raises:
            CorruptLogError: the log cannot be read, or contradicts the version's checksum file.
        """
        return self._log.files(columns)

    def file_blocks(self, columns: Sequence[str], *, max_rows: int) -> Iterator[pa.Table]:
        """Return the rows of `files_with` in blocks of at most `max_rows`, for tables that do not fit into memory.

        This method does not compare the number of files with the checksum file.

        Raises:
            BlocksInvalidated: the blocks so far are invalid; the caller must start again.
            CorruptLogError: the log cannot be read.
        """
        return self._log.file_blocks(columns, max_rows)

    @property
    def num_files_added_after_checkpoint(self) -> int:
        """The number of active files that commits after the checkpoint added; computed without the file list."""
        return self._log.num_files_added_after_checkpoint

    def tombstones(self, columns: Sequence[str] = tuple(REMOVE_TYPES)) -> pa.Table:
        """Return the removed files that the log still holds, including expired ones, with columns of `REMOVE_TYPES`."""
        return self._log.tombstones(columns)


def _format_time(timestamp_ms: int) -> str:
    """Return milliseconds UTC as ISO 8601, or as a number if no datetime can hold them."""
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00").removesuffix(".000") + "Z"
