"""A table as it is at one version.

`Snapshot.load` is the gate: a snapshot that exists was rebuilt from a contiguous log, has a protocol that this
release reads and a schema that parses. A checkpoint that cannot be read is passed over for an older one, or for the
commits from the beginning. Its files are loaded when first asked for.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from deltalite.errors import CorruptCheckpointError, TimestampOutOfRangeError, UnsupportedFeatureError
from deltalite.log.commit_times import commit_times, newest_at
from deltalite.log.file_table import ADD_TYPES, LISTING, REMOVE_TYPES
from deltalite.log.replay import ReplayedLog, replay
from deltalite.log.segment import LogSegment, find_segment
from deltalite.protocol import properties as props
from deltalite.protocol.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from deltalite.protocol.features import check_readable, is_in_force
from deltalite.protocol.schema import StructType, parse_schema
from deltalite.storage.log_store import LogStore

_log = logging.getLogger(__name__)


class Snapshot:
    """One version of a table; made by `load` or `load_at`."""

    def __init__(self, log: ReplayedLog, *, loaded_at_ms: int, unreadable: Collection[int] = ()) -> None:
        check_readable(log.protocol, log.metadata)
        self._log = log
        self._unreadable = frozenset(unreadable)
        self.loaded_at_ms = loaded_at_ms
        self.schema: StructType = parse_schema(log.metadata.schema_string)

    @classmethod
    def load(cls, store: LogStore, version: int | None = None, *, unreadable: Collection[int] = ()) -> Snapshot:
        """The snapshot of `version`, or of the newest one.

        Raises:
            TableNotFoundError, VersionNotFoundError, VersionGapError, CorruptLogError, CorruptCheckpointError,
            UnsupportedFeatureError: as `find_segment`, `replay` and `check_readable` say.
        """
        avoided = set(unreadable)
        while True:
            segment = find_segment(store, version, unreadable=avoided)
            try:
                return cls(replay(store, segment), loaded_at_ms=time.time_ns() // 1_000_000, unreadable=avoided)
            except CorruptCheckpointError as error:
                avoided.add(_avoid(segment, error))

    @classmethod
    def load_at(cls, store: LogStore, timestamp_ms: int) -> Snapshot:
        """The newest snapshot committed at or before a moment (milliseconds UTC).

        A moment between the last commit and now means the last commit. Protocol: time travel follows commit timestamps.

        Raises:
            TimestampOutOfRangeError: the moment lies before the first commit that the log holds, or in the future.
            UnsupportedFeatureError: the table keeps its times in the commits (inCommitTimestamp).
        """
        latest = cls.load(store)
        if is_in_force("inCommitTimestamp", latest.protocol, latest.metadata):
            raise UnsupportedFeatureError(
                "This release cannot travel by in-commit timestamps (table feature inCommitTimestamp).",
                remedy="Ask for a version.",
            )
        times = commit_times(store)
        found = newest_at(times, timestamp_ms)
        if found is None:
            first = times[0] if times else None
            raise TimestampOutOfRangeError(
                f"{store.root} has no version at {timestamp_ms} ms"
                + (f": its oldest commit is version {first.version}, at {first.timestamp_ms} ms." if first else "."),
                remedy="Ask for a later time, or for a version.",
            )
        # The times of commits that came within a millisecond run a little ahead of the clock.
        if timestamp_ms > max(latest.loaded_at_ms, times[-1].timestamp_ms):
            raise TimestampOutOfRangeError(
                f"{timestamp_ms} ms lies in the future, so the version at that time is not known yet.",
                remedy="Ask for a time that has passed, or leave it out for the newest version.",
            )
        return latest if found.version == latest.version else cls.load(store, found.version)

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
        """The files of the log that this snapshot was made from."""
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
    def partition_columns(self) -> tuple[str, ...]:
        """The partition columns, in order."""
        return self._log.metadata.partition_columns

    @property
    def domains(self) -> Mapping[str, DomainMetadata]:
        """The domains that are not removed."""
        return self._log.domains

    @property
    def commit_info(self) -> Mapping[str, Any] | None:
        """The provenance of the newest commit, None where the checkpoint stands alone."""
        return self._log.commit_info

    @cached_property
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

    @cached_property
    def files(self) -> pa.Table:
        """The active files: a table with the columns of `LISTING`."""
        return self.files_with(LISTING)

    def files_with(self, columns: Sequence[str] = tuple(ADD_TYPES)) -> pa.Table:
        """The active files with any columns of `ADD_TYPES`."""
        return self._falling_back(lambda log: log.files(columns))

    def tombstones(self, columns: Sequence[str] = tuple(REMOVE_TYPES)) -> pa.Table:
        """The removed files that the log remembers, expired ones too, with columns of `REMOVE_TYPES`."""
        return self._falling_back(lambda log: log.tombstones(columns))

    def _falling_back(self, read: Callable[[ReplayedLog], pa.Table]) -> pa.Table:
        """Read from the checkpoint, or from an older one where its pages turn out to be damaged."""
        try:
            return read(self._log)
        except CorruptCheckpointError as error:
            again = {*self._unreadable, _avoid(self.segment, error)}
            older = Snapshot.load(self.store, self.version, unreadable=again)
            return older._falling_back(read)  # noqa: SLF001  our own class


def _avoid(segment: LogSegment, error: CorruptCheckpointError) -> int:
    """The checkpoint version to pass over; an error without a checkpoint is final."""
    if segment.checkpoint is None:
        raise error
    _log.warning("%s Falling back to older files of the log.", error)
    return segment.checkpoint.version
