"""A table as it is at one version.

`Snapshot.load` is the gate: a snapshot that exists has a contiguous log, a protocol that this release reads and a
schema that parses. What it says comes from the version's checksum file or from replay (`log/state.py`). Its files are
loaded when first asked for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from deltalite.errors import TimestampOutOfRangeError
from deltalite.log.commit_times import Timeline, in_commit_times
from deltalite.log.file_table import ADD_TYPES, LISTING, REMOVE_TYPES
from deltalite.log.segment import LogSegment
from deltalite.log.state import LogState
from deltalite.protocol import properties as props
from deltalite.protocol.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from deltalite.protocol.column_mapping import TableSchema, table_schema
from deltalite.protocol.features import check_readable, supported_features
from deltalite.protocol.schema import StructType, parse_schema
from deltalite.storage.log_store import LogStore


class Snapshot:
    """One version of a table; made by `load` or `load_at`."""

    def __init__(self, log: LogState, *, loaded_at_ms: int) -> None:
        check_readable(log.protocol, log.metadata)
        self._log = log
        self._files: pa.Table | None = None
        self.loaded_at_ms = loaded_at_ms
        self.table_schema: TableSchema = table_schema(
            log.metadata,
            parse_schema(log.metadata.schema_string),
            mapped="columnMapping" in supported_features(log.protocol),
        )

    @classmethod
    def load(cls, store: LogStore, version: int | None = None) -> Snapshot:
        """The snapshot of `version`, or of the newest one.

        Raises:
            TableNotFoundError, VersionNotFoundError, VersionGapError, CorruptLogError, CorruptCheckpointError,
            UnsupportedFeatureError: as `LogState.open` and `check_readable` say.
        """
        return cls(LogState.open(store, version), loaded_at_ms=time.time_ns() // 1_000_000)

    @classmethod
    def load_at(cls, store: LogStore, timestamp_ms: int) -> Snapshot:
        """The newest snapshot committed at or before a moment (milliseconds UTC), among those that can be rebuilt.

        A moment between the last commit and now means the last commit. Protocol: time travel follows commit
        timestamps, which are in-commit timestamps where those are in force.

        Raises:
            TimestampOutOfRangeError: the moment lies before the first commit that can be rebuilt, or in the future.
            CorruptLogError: a commit that should carry its time does not.
        """
        latest = cls.load(store)
        timeline = Timeline(store, in_commit_times(latest.protocol, latest.metadata))
        found = timeline.newest_at(timestamp_ms)
        if found is None:
            first = min(timeline.versions, default=None)
            raise TimestampOutOfRangeError(
                f"{store.root} has no version at or before {_moment(timestamp_ms)}"
                + (
                    "."
                    if first is None
                    else f": the oldest that can be read is version {first}, of {_moment(timeline.time_of(first))}."
                ),
                remedy="Give a later time, or a version. Older versions never existed, or have expired by "
                "delta.logRetentionDuration. A backfill cannot begin earlier.",
            )
        # The times of commits that came within a millisecond run a little ahead of the clock.
        if timestamp_ms > latest.loaded_at_ms and timestamp_ms > timeline.time_of(timeline.versions[-1]):
            raise TimestampOutOfRangeError(
                f"Could not read {store.root} at {_moment(timestamp_ms)}: that time is in the future.",
                remedy="Give a time in the past, or leave it out to read the newest version.",
            )
        return latest if found.version == latest.version else cls.load(store, found.version)

    def check_log(self) -> None:
        """Replay the commits, also where a checksum has said already what they say: a write must not rest on less.

        Raises:
            CorruptLogError, CorruptCheckpointError, VersionGapError: they cannot be replayed, or contradict the
                checksum.
        """
        _ = self._log.transactions

    @property
    def store(self) -> LogStore:
        """Where the table lies."""
        return self._log.store

    @property
    def version(self) -> int:
        """The version."""
        return self._log.segment.version

    @property
    def segment(self) -> LogSegment:
        """The files of the log that this snapshot is made from."""
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
        """The columns, as users see them."""
        return self.table_schema.logical

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The partition columns, in order."""
        return self._log.metadata.partition_columns

    @property
    def domains(self) -> Mapping[str, DomainMetadata]:
        """The domains that are not removed."""
        return self._log.domains

    @property
    def commit_info(self) -> Mapping[str, Any] | None:
        """The provenance of the version's commit, None where the commit is gone or has none."""
        return self._log.commit_info

    @property
    def transactions(self) -> Mapping[str, SetTransaction]:
        """The unexpired transaction identifiers by app id.

        With `delta.setTransactionRetentionDuration` one that is older, or has no time at all, no longer counts.
        """
        retention_ms = props.SET_TRANSACTION_RETENTION_MS.of(self.configuration)
        if retention_ms is None:
            return self._log.transactions
        oldest = self.loaded_at_ms - retention_ms
        return {
            app_id: txn
            for app_id, txn in self._log.transactions.items()
            if txn.last_updated_ms is not None and txn.last_updated_ms > oldest
        }

    @property
    def files(self) -> pa.Table:
        """The active files: a table with the columns of `LISTING`. They are read once.

        Not a `cached_property`: in Python 3.11 that has one lock for all instances, so a table whose storage is slow
        would hold up every other one that a process reads.
        """
        if self._files is None:
            self._files = self.files_with(LISTING)
        return self._files

    def files_with(self, columns: Sequence[str] = tuple(ADD_TYPES)) -> pa.Table:
        """The active files with any columns of `ADD_TYPES`.

        Raises:
            CorruptLogError: the log cannot be read, or contradicts the version's checksum file.
        """
        return self._log.files(columns)

    def file_blocks(self, columns: Sequence[str], *, most_rows: int) -> Iterator[pa.Table]:
        """`files_with` in blocks of a bounded number of rows, for what is too large to be held. Nothing is counted.

        Raises:
            StartAgain: the blocks so far are void, and the caller has to begin once more.
            CorruptLogError: the log cannot be read.
        """
        return self._log.file_blocks(columns, most_rows)

    @property
    def files_of_commits(self) -> int:
        """How many of the active files the log has behind its checkpoint; the files themselves are not read for it."""
        return self._log.files_of_commits

    def tombstones(self, columns: Sequence[str] = tuple(REMOVE_TYPES)) -> pa.Table:
        """The removed files that the log remembers, expired ones too, with columns of `REMOVE_TYPES`."""
        return self._log.tombstones(columns)


def _moment(timestamp_ms: int) -> str:
    """Milliseconds UTC as a person reads them, whatever a writer's clock has said."""
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00").removesuffix(".000") + "Z"
