"""The state of a version: protocol and metadata from its checksum file if there is one, the rest by log replay.

If a checkpoint or compaction is unreadable or contradicts the version's checksum, other files with the same content
replace it. These are another checkpoint of the version, an older checkpoint, or commits. The read fails only if no
other files can rebuild the version. Some writers store checksums with wrong file counts. `_check_counts` lists the
cases in which such a checksum is dropped. Protocol: Action Reconciliation, Version Checksum File.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from deltalite.errors import CorruptLogError, VersionGapError, VersionNotFoundError
from deltalite.log.file_table import bytes_of
from deltalite.log.last_checkpoint_agreement import agrees_with_last_checkpoint
from deltalite.log.replay import ReplayedLog, UnusableLogFile, read_commit_info, replay
from deltalite.log.segment import LogSegment, find_segment
from deltalite.log.version_checksum import VersionChecksum, parse_version_checksum
from deltalite.protocol.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from deltalite.sizes import counted
from deltalite.storage.log_store import LogStore
from deltalite.version import is_this_library

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
# A larger checksum is not read. Spark lists the table's files in a checksum only if there are few.
_LARGEST_CHECKSUM_BYTES = 64 * 1024 * 1024
_MAX_SHOWN_CHARACTERS = 300


class BlocksInvalidated(Exception):  # noqa: N818  not an error: a caller that reads blocks reads them again
    """The signal that all previous blocks are invalid, because other log files now rebuild the version."""


class LogState:
    """The state of one version, as the log defines it; `open` creates it."""

    def __init__(self, store: LogStore, segment: LogSegment, checksum: VersionChecksum | None) -> None:
        self.store = store
        self.segment = segment
        self.checksum = checksum
        self._excluded: frozenset[str] = frozenset()
        self._replayed: ReplayedLog | None = None
        self._commit_info: tuple[Mapping[str, Any] | None] | None = None
        self._count_error: CorruptLogError | None = None

    @classmethod
    def open(cls, store: LogStore, version: int | None = None) -> LogState:
        """Open the state of `version`, or of the newest version. Without a checksum file this replays the log.

        Raises:
            TableNotFoundError, VersionNotFoundError, VersionGapError: see `find_segment`.
            CorruptLogError, CorruptCheckpointError: no files of the log can rebuild the version.
        """
        segment = find_segment(store, version)
        state = cls(store, segment, _read_checksum(store, segment))
        if state.checksum is None:
            state._read(lambda log: log)
        return state

    @property
    def protocol(self) -> Protocol:
        """The protocol in force."""
        return self.checksum.protocol if self.checksum is not None else self._read(lambda log: log.protocol)

    @property
    def metadata(self) -> Metadata:
        """The metadata in force."""
        return self.checksum.metadata if self.checksum is not None else self._read(lambda log: log.metadata)

    @property
    def transactions(self) -> Mapping[str, SetTransaction]:
        """The newest transaction of each app id, of any age."""
        return self._read(lambda log: log.transactions)

    @property
    def domains(self) -> Mapping[str, DomainMetadata]:
        """The domain metadata that is not removed, by domain."""
        return self._read(lambda log: log.domains)

    @property
    def commit_info(self) -> Mapping[str, Any] | None:
        """The provenance of the version's commit; None if it has none, or the log no longer holds the commit.

        The commit is read once. `Snapshot.files` explains why this is not a `cached_property`.
        """
        if (replayed_info := self.replayed_commit_info) is not None:
            return replayed_info
        if self._commit_info is None:
            commit = self.segment.commit_file
            self._commit_info = (None if commit is None else read_commit_info(self.store, commit),)
        return self._commit_info[0]

    @property
    def replayed_commit_info(self) -> Mapping[str, Any] | None:
        """The provenance of the version's commit, if a replay has read it; None otherwise. Sends no request."""
        return None if self._replayed is None else self._replayed.commit_info

    def files(self, columns: Sequence[str]) -> pa.Table:
        """Return the active files, with `columns` of `ADD_TYPES`, in no particular order.

        Raises:
            CorruptLogError: the log cannot be read, or contradicts the version's checksum file.
        """
        return self._read(lambda log: self._check_counts(log, log.files(columns)))

    def file_blocks(self, columns: Sequence[str], max_rows: int) -> Iterator[pa.Table]:
        """Yield the active files in the blocks of `ReplayedLog.file_blocks`, at least one block.

        The number of files is not compared with the checksum file.

        Raises:
            BlocksInvalidated: a log file is unusable, and other files can replace it.
            CorruptLogError: the log cannot be read.
        """
        log = self._read(lambda log: log)
        try:
            yield from log.file_blocks(columns, max_rows)
        except UnusableLogFile as unusable:
            self._fall_back_from(unusable)
            raise BlocksInvalidated from unusable

    @property
    def num_files_added_after_checkpoint(self) -> int:
        """The number of active files that commits and compactions after the checkpoint added."""
        return self._read(lambda log: int(log.adds.num_rows))

    def tombstones(self, columns: Sequence[str]) -> pa.Table:
        """Return the removed files in the log, including expired ones, with `columns` of `REMOVE_TYPES`."""
        return self._read(lambda log: log.tombstones(columns))

    def _read(self, read: Callable[[ReplayedLog], _T]) -> _T:
        """Read from the replayed log; skip unusable files until other files can rebuild the version."""
        while True:
            try:
                if self._replayed is None:
                    self._replayed = self._check_agreement(replay(self.store, self.segment))
                return read(self._replayed)
            except UnusableLogFile as unusable:
                self._fall_back_from(unusable)

    def _fall_back_from(self, unusable: UnusableLogFile) -> None:
        """Replace an unusable file by other files, or drop the checksum that contradicts it.

        Raises:
            CorruptLogError: no file replaces the unusable file, and the checksum stays. The error is that of the file.
        """
        excluded = self._excluded | {unusable.name}
        try:
            segment = find_segment(self.store, self.segment.version, unreadable=excluded)
        except (VersionGapError, VersionNotFoundError):
            if unusable.error is self._count_error and self._may_be_from_another_writer():
                self._drop_checksum(unusable.error)
                return
            raise unusable.error from None  # more specific than the error of the failed search
        _log.warning("Falling back to other files of the log: %s", unusable.error)
        self.segment, self._excluded, self._replayed = segment, excluded, None

    def _check_agreement(self, log: ReplayedLog) -> ReplayedLog:
        """Return the log if its protocol and metadata agree with the checksum.

        Raises:
            UnusableLogFile: they differ, and a compaction or the checkpoint may be wrong.
            CorruptLogError: they differ, and only commits define them.
        """
        if self.checksum is not None:
            checksum_parts = comparable_parts(self.checksum.protocol, self.checksum.metadata)
            log_parts = comparable_parts(log.protocol, log.metadata)
            name = next((name for name in checksum_parts if checksum_parts[name] != log_parts[name]), None)
            if name is not None:
                error = self._contradiction_error(
                    f"the {name} {checksum_parts[name]!s:.{_MAX_SHOWN_CHARACTERS}}",
                    f"{log_parts[name]!s:.{_MAX_SHOWN_CHARACTERS}}",
                )
                self._reject_replaceable_file(error)
                raise error  # the checksum cannot be dropped: callers may already use its protocol and metadata
        return log

    def _check_counts(self, log: ReplayedLog, files: pa.Table) -> pa.Table:
        """Return the files if their number and size agree with the checksum, or if the checksum is known to be wrong.

        1. The checksum only repeats the commits, so commits from 0 on override it.
        2. A checkpoint that `_last_checkpoint` confirms overrides the checksum too, unless there is a compaction.
        3. Otherwise `UnusableLogFile` makes the caller try other files of the log.
        4. If there are no other files, the writer decides. If another or an unknown writer committed the version, the
           caller drops the checksum. If this library committed the version, the read fails.
        5. The read also fails if there are no other files and `_last_checkpoint` contradicts the checkpoint.
        """
        error = None if self.checksum is None else self._count_mismatch(files, self.checksum)
        if error is not None:
            checkpoint = self.segment.checkpoint
            confirmed = None if checkpoint is None else agrees_with_last_checkpoint(self.store, checkpoint, log.sources)
            if self.segment.compactions or (checkpoint is not None and not confirmed):
                # If `_last_checkpoint` contradicts the checkpoint too, the checkpoint is wrong and the checksum stays.
                self._count_error = None if confirmed is False else error
                self._reject_replaceable_file(error)
            self._drop_checksum(error)
        return files

    def _drop_checksum(self, error: CorruptLogError) -> None:
        _log.warning("Ignoring the version checksum: %s", error.problem)
        self.checksum = None

    def _may_be_from_another_writer(self) -> bool:
        """Whether another or an unknown writer committed the version."""
        info = self.commit_info
        return info is None or not is_this_library(info.get("engineInfo"))

    def _count_mismatch(self, files: pa.Table, checksum: VersionChecksum) -> CorruptLogError | None:
        """Return the error if the number or the size of the files contradicts the checksum."""
        if checksum.num_files != files.num_rows:
            return self._contradiction_error(counted(checksum.num_files, "file"), f"{files.num_rows}")
        if "size" in files.column_names:
            size_bytes = bytes_of(files)
            if checksum.table_size_bytes != size_bytes:
                in_checksum = f"files of {counted(checksum.table_size_bytes, 'byte')} in all"
                return self._contradiction_error(in_checksum, counted(size_bytes, "byte"))
        return None

    def _contradiction_error(self, in_checksum: str, in_log: str) -> CorruptLogError:
        name = "The version checksum" if self.segment.checksum is None else self.segment.checksum.name
        return CorruptLogError(
            f"{name} of {self.store.root} says that version {self.segment.version} has {in_checksum}, but the log says "
            f"{in_log}: one of the two was changed after it was written.",
            remedy="Restore the log from a backup. If the log is right, delete the checksum file.",
        )

    def _reject_replaceable_file(self, error: CorruptLogError) -> None:
        """Raise `UnusableLogFile` for a compaction, else for the checkpoint; without either, do nothing."""
        for file in self.segment.compactions:
            raise UnusableLogFile(file.name, error)
        if self.segment.checkpoint is not None:
            raise UnusableLogFile(self.segment.checkpoint.names[0], error)


def _read_checksum(store: LogStore, segment: LogSegment) -> VersionChecksum | None:
    """Return the version's checksum, None if there is no usable one."""
    file = segment.checksum
    if file is None or file.size_bytes > _LARGEST_CHECKSUM_BYTES:
        return None
    data = store.read(file.name)
    checksum = None if data is None else parse_version_checksum(data, file.name)
    if data is not None and checksum is None:
        _log.warning("Ignoring the version checksum %s of %s: its content is invalid.", file.name, store.root)
    return checksum


def comparable_parts(protocol: Protocol, metadata: Metadata) -> dict[str, object]:
    """Return the parts of a protocol and metadata by readable names, for a comparison with those of another version.

    Two schema texts that are the same JSON have equal values.
    """
    return {
        "reader version": protocol.min_reader_version,
        "writer version": protocol.min_writer_version,
        "reader features": sorted(protocol.reader_features or ()),
        "writer features": sorted(protocol.writer_features or ()),
        "table id": metadata.id,
        "schema": _json_value(metadata.schema_string),
        "partition columns": list(metadata.partition_columns),
        "properties": dict(metadata.configuration),
    }


def _json_value(text: str) -> object:
    """Return the parsed JSON, or the text itself if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
