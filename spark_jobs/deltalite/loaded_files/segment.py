"""Segments: immutable Parquet files that list loaded files.

A segment has the columns of `FILES`, the time of the load, and the keys of `keys.py`. Its row groups are in the order
of the modification times, and each row group is sorted by key. So a lookup reads only the row groups whose range of
times and keys has a candidate, and only the columns with keys.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from deltalite.errors import CorruptLogError
from deltalite.loaded_files.keys import FILES, Booleans, FileKeys, file_keys, matches, selected
from deltalite.protocol.file_names import LOADED_FILES_DIR

if TYPE_CHECKING:
    from deltalite.storage.log_store import LogStore

LOADED = FILES.append(pa.field("loaded_ms", pa.int64(), nullable=False))
"""The columns of loaded files: those of `FILES`, and the time of the load (milliseconds UTC)."""
_KEY_COLUMNS = ("key_high", "key_low", "key_etag")
_STORED = pa.schema([*LOADED, *(pa.field(name, pa.int64(), nullable=False) for name in _KEY_COLUMNS)])
_FILES_PER_ROW_GROUP = 131_072
_COMPRESSION = {name: "zstd" if name in ("address", "etag") else "none" for name in _STORED.names}
_SEGMENT_PREFIX = "segment-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A segment as its manifest describes it. `name` is relative to the table's root. Both times are inclusive."""

    name: str
    file_count: int
    size_bytes: int
    min_modified_ms: int
    max_modified_ms: int


def write_segment(store: LogStore, loaded: pa.Table) -> Segment:
    """Write the loaded files, with the columns `LOADED`, to a new segment. At least one file is necessary.

    Raises:
        StorageError: the segment cannot be written. No manifest names it.
    """
    data = segment_bytes(loaded)
    times = loaded["modified_ms"].to_numpy()
    name = f"{LOADED_FILES_DIR}/{_SEGMENT_PREFIX}{uuid.uuid4()}.parquet"
    store.write_if_absent(name, data)  # no other writer has this random name
    return Segment(
        name=name,
        file_count=loaded.num_rows,
        size_bytes=len(data),
        min_modified_ms=int(times.min()),
        max_modified_ms=int(times.max()),
    )


def segment_bytes(loaded: pa.Table) -> bytes:
    """Return the Parquet file with these loaded files."""
    keys = file_keys(loaded)
    columns = [*loaded.select(LOADED.names).columns, *map(pa.array, (keys.high, keys.low, keys.etag))]
    rows = pa.table(columns, schema=_STORED)
    order = np.lexsort((keys.high, keys.modified_ms))
    sink = io.BytesIO()
    with pq.ParquetWriter(
        sink,
        _STORED,
        compression=_COMPRESSION,
        use_dictionary=["etag", "loaded_ms"],
        write_statistics=["modified_ms", "key_high"],
    ) as writer:
        for start in range(0, len(order), _FILES_PER_ROW_GROUP):
            group = order[start : start + _FILES_PER_ROW_GROUP]
            group = group[np.argsort(keys.high[group], kind="stable")]
            writer.write_table(rows.take(pa.array(group)), row_group_size=_FILES_PER_ROW_GROUP)
    return sink.getvalue()


def find_in_segment(store: LogStore, segment: Segment, candidates: FileKeys) -> Booleans:
    """Return, for each candidate, whether the segment lists it. `candidates.modified_ms` must be in ascending order.

    Raises:
        CorruptLogError: the segment is missing or unreadable.
        StorageError: the storage does not answer.
    """
    is_loaded = np.zeros(len(candidates.high), np.bool_)
    try:
        with store.open(segment.name) as handle, pq.ParquetFile(handle) as file:
            for number, candidate_rows in _row_groups_to_read(file.metadata, candidates, segment.name):
                rows = candidate_rows[~is_loaded[candidate_rows]]
                if len(rows):
                    table = file.read_row_group(number, columns=list(_KEY_COLUMNS), use_threads=False)
                    is_loaded[rows] = matches(selected(candidates, rows), _keys_of(table))
    except (FileNotFoundError, pa.ArrowException) as error:
        raise unreadable_record_error(store, segment.name, error) from error
    return is_loaded


def read_segment(store: LogStore, name: str) -> pa.Table:
    """Return the loaded files of a segment, with the columns `LOADED`.

    Raises:
        CorruptLogError: the segment is missing or unreadable.
        StorageError: the storage does not answer.
    """
    try:
        with store.open(name) as handle:
            return pq.read_table(handle, columns=LOADED.names).cast(LOADED)
    except (FileNotFoundError, pa.ArrowException) as error:
        raise unreadable_record_error(store, name, error) from error


def is_segment(name: str) -> bool:
    """Whether a name in the folder of the record is the name of a segment."""
    return name.startswith(f"{LOADED_FILES_DIR}/{_SEGMENT_PREFIX}") and name.endswith(".parquet")


def unreadable_record_error(store: LogStore, name: str, problem: object) -> CorruptLogError:
    """Return the error for a segment or a manifest that cannot be read because of `problem`."""
    return CorruptLogError(
        f"Could not read {name} of {store.root}, which lists loaded files: {problem}.",
        remedy="Restore the file from a backup, or restore the table to a version before the load. Without the file, "
        "files would be loaded twice.",
    )


def _row_groups_to_read(
    metadata: pq.FileMetaData, candidates: FileKeys, name: str
) -> Iterator[tuple[int, np.ndarray[tuple[int], np.dtype[np.intp]]]]:
    """Yield each row group that may have a candidate, with the row numbers of these candidates."""
    positions = {metadata.schema.column(number).name: number for number in range(metadata.num_columns)}
    for group in range(metadata.num_row_groups):
        min_time, max_time = _bounds(metadata, group, positions["modified_ms"], name)
        start = int(np.searchsorted(candidates.modified_ms, min_time, side="left"))
        end = int(np.searchsorted(candidates.modified_ms, max_time, side="right"))
        if start == end:
            continue
        min_key, max_key = _bounds(metadata, group, positions["key_high"], name)
        keys = candidates.high[start:end]
        rows = start + np.flatnonzero((keys >= min_key) & (keys <= max_key))
        if len(rows):
            yield group, rows


def _bounds(metadata: pq.FileMetaData, group: int, column: int, name: str) -> tuple[int, int]:
    statistics = metadata.row_group(group).column(column).statistics
    if statistics is None or not statistics.has_min_max:
        raise pa.ArrowInvalid(f"{name} has no statistics")
    return int(statistics.min), int(statistics.max)


def _keys_of(table: pa.Table) -> FileKeys:
    high, low, etag = (table[name].to_numpy() for name in _KEY_COLUMNS)
    return FileKeys(high=high, low=low, modified_ms=high, etag=etag)  # `matches` ignores the time
