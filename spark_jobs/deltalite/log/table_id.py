"""Reads the table's id and metadata in bounded memory, for long-running processes such as Airflow's triggerer.

`LogState` provides id and metadata too, but it parses whole log files at once. This module parses a checksum only if it
is small, scans commits in chunks, and reads only the id column of a Parquet checkpoint. Protocol: Change Metadata.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltalite.errors import TableNotFoundError
from deltalite.log.action_files import open_log_file
from deltalite.log.bounded_actions import read_bounded_actions
from deltalite.log.segment import LogSegment, find_segment
from deltalite.log.version_checksum import parse_version_checksum
from deltalite.protocol.actions import Metadata, from_json
from deltalite.storage.log_store import LogStore

_LARGEST_CHECKSUM_BYTES = 256 * 1024
_LARGEST_COLUMN_BYTES = 1024 * 1024
_ID_COLUMN = "metaData.id"


def read_table_id(store: LogStore) -> str | None:
    """Return the table's id at its newest version; None if there is no table or no readable id.

    The id is unreadable if only a Parquet checkpoint holds it, and the checkpoint is damaged or has a large id column.

    Raises:
        CorruptLogError: a commit, a compaction or a JSON checkpoint is malformed.
        VersionGapError: a commit is missing.
        StorageError, StoragePermissionError: storage failed to answer, or denied access.
    """
    try:
        segment = find_segment(store)
    except TableNotFoundError:
        return None
    return _id_in_checksum(store, segment) or _id_in_commits(store, segment) or _id_in_checkpoint(store, segment)


def read_bounded_metadata(store: LogStore) -> Metadata | None:
    """Return the metadata at the newest version; None if there is no table.

    The result is None also if only a checkpoint or a large checksum holds the metadata.

    Raises:
        CorruptLogError, VersionGapError, StorageError, StoragePermissionError: see `read_table_id`.
    """
    try:
        segment = find_segment(store)
    except TableNotFoundError:
        return None
    metadata = _checksum_metadata(store, segment)
    if metadata is not None:
        return metadata
    for entry in reversed(segment.entries):
        name = entry.file.name
        bodies = [body for kind, body in read_bounded_actions(store, name) if kind == Metadata.action]
        if bodies:
            return from_json(Metadata, bodies[-1], name)
    return None


def _id_in_checksum(store: LogStore, segment: LogSegment) -> str | None:
    metadata = _checksum_metadata(store, segment)
    return None if metadata is None else metadata.id


def _checksum_metadata(store: LogStore, segment: LogSegment) -> Metadata | None:
    file = segment.checksum
    if file is None:
        return None
    data = store.read_start(file.name, _LARGEST_CHECKSUM_BYTES + 1)
    if data is None or len(data) > _LARGEST_CHECKSUM_BYTES:
        return None
    checksum = parse_version_checksum(data, file.name)
    return None if checksum is None else checksum.metadata


def _id_in_commits(store: LogStore, segment: LogSegment) -> str | None:
    for entry in reversed(segment.entries):
        if (table_id := _newest_id(read_bounded_actions(store, entry.file.name))) is not None:
            return table_id
    return None


def _id_in_checkpoint(store: LogStore, segment: LogSegment) -> str | None:
    for name in () if segment.checkpoint is None else segment.checkpoint.names:
        is_json = name.endswith(".json")
        table_id = _newest_id(read_bounded_actions(store, name)) if is_json else _id_in_parquet(store, name)
        if table_id is not None:
            return table_id
    return None


def _newest_id(actions: Iterable[tuple[str, dict[str, Any]]]) -> str | None:
    ids = [body["id"] for kind, body in actions if kind == Metadata.action and isinstance(body.get("id"), str)]
    return ids[-1] if ids else None


def _id_in_parquet(store: LogStore, name: str) -> str | None:
    with open_log_file(store, name) as handle:
        try:
            file = pq.ParquetFile(handle)
            for number in range(file.num_row_groups):
                group = file.metadata.row_group(number)
                columns = [group.column(index) for index in range(group.num_columns)]
                sizes = [column.total_uncompressed_size for column in columns if column.path_in_schema == _ID_COLUMN]
                if not sizes or sum(sizes) > _LARGEST_COLUMN_BYTES:
                    continue
                rows = file.read_row_group(number, columns=[_ID_COLUMN])["metaData"].combine_chunks()
                for table_id in rows.field("id").drop_null():
                    return str(table_id.as_py())
        except pa.ArrowException:
            return None
        except FileNotFoundError:  # clients of object stores raise it without an errno
            raise
        except OSError as error:
            # Arrow reports a damaged footer or page as an OSError too, but only the operating system gives an errno.
            if error.errno is not None:
                raise
            return None
    return None
