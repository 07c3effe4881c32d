"""The record of loaded files: the lookup of candidates, and the addition of loaded files.

1. A run reads the manifest that its snapshot names, and looks up the files that it has listed.
2. It writes new segments, and then a manifest with the next free number. No version names them yet.
3. The commit with the rows sets the transaction `LOADED_FILES_APP_ID` to that number.

A run that is killed before step 3, or loses a race, leaves files that no version names. `upkeep.loaded_files` deletes
them after the retention.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from deltalite.errors import CommitStateUnknownError, StorageError
from deltalite.loaded_files.keys import FILES, Booleans, FileKeys, file_keys, selected
from deltalite.loaded_files.manifest import Manifest, put_manifest
from deltalite.loaded_files.merging import MAX_FILES, segments_to_merge
from deltalite.loaded_files.segment import LOADED, find_in_segment, read_segment, write_segment

if TYPE_CHECKING:
    from deltalite.storage.log_store import LogStore

# Candidates are looked up in the order of their times, so each batch reads other parts of the segments.
_FILES_PER_BATCH = 1_000_000


def find_loaded(store: LogStore, manifest: Manifest, files: pa.Table) -> Booleans:
    """Return, for each of the files (`FILES`), whether it was loaded.

    Raises:
        CorruptLogError: a segment is missing or unreadable.
        StorageError: the storage does not answer.
    """
    is_loaded = np.zeros(files.num_rows, np.bool_)
    if not files.num_rows or not manifest.segments:
        return is_loaded
    order = np.argsort(files["modified_ms"].to_numpy(), kind="stable")
    for start in range(0, len(order), _FILES_PER_BATCH):
        rows = order[start : start + _FILES_PER_BATCH]
        is_loaded[rows] = _find(store, manifest, file_keys(files.take(pa.array(rows))))
    return is_loaded


def _find(store: LogStore, manifest: Manifest, candidates: FileKeys) -> Booleans:
    """Return, for each candidate, whether it was loaded. `candidates.modified_ms` must be in ascending order."""
    is_loaded = np.zeros(len(candidates.high), np.bool_)
    for segment in manifest.segments:
        start = int(np.searchsorted(candidates.modified_ms, segment.min_modified_ms, side="left"))
        end = int(np.searchsorted(candidates.modified_ms, segment.max_modified_ms, side="right"))
        rows = start + np.flatnonzero(~is_loaded[start:end])
        if len(rows):
            is_loaded[rows] = find_in_segment(store, segment, selected(candidates, rows))
    return is_loaded


def add_loaded_files(
    store: LogStore, manifest: Manifest, files: pa.Table, *, loaded_ms: int, max_files: int = MAX_FILES
) -> Manifest:
    """Write a new manifest with the files of `manifest` and these files (`FILES`), and return the new manifest.

    Small segments are merged. The table does not have the new manifest until a commit names it.

    Raises:
        CorruptLogError: a segment is missing or unreadable.
        StorageError: the storage does not answer. The table is unchanged, even if a file of the record was written.
    """
    try:
        return _write_record(store, manifest, files, loaded_ms=loaded_ms, max_files=max_files)
    except CommitStateUnknownError as error:
        raise StorageError(
            f"Could not write the record of loaded files of {store.root}: {error.problem} The table is unchanged.",
            remedy="Check that the storage is reachable, and run the task again.",
        ) from error


def _write_record(store: LogStore, manifest: Manifest, files: pa.Table, *, loaded_ms: int, max_files: int) -> Manifest:
    """Write the segments and the manifest, and return the manifest."""
    merged_positions = segments_to_merge([s.file_count for s in manifest.segments], files.num_rows, max_files=max_files)
    loaded_column = pa.array(np.full(files.num_rows, loaded_ms, np.int64))
    new_files = files.select(FILES.names).append_column(LOADED.field("loaded_ms"), loaded_column).cast(LOADED)
    tables = [new_files, *(read_segment(store, manifest.segments[n].name) for n in merged_positions)]
    kept_segments = [segment for n, segment in enumerate(manifest.segments) if n not in merged_positions]
    rows = pa.concat_tables(tables).sort_by("modified_ms")
    new_segments = [write_segment(store, rows.slice(start, max_files)) for start in range(0, rows.num_rows, max_files)]
    return put_manifest(store, (*kept_segments, *new_segments), after=manifest.number)


def read_loaded_files(
    store: LogStore, manifest: Manifest, *, since_ms: int | None = None, until_ms: int | None = None
) -> Iterator[pa.Table]:
    """Yield the loaded files (`LOADED`) segment by segment, those with the newest modification times first.

    `since_ms` (inclusive) and `until_ms` (exclusive) are modification times. Segments outside of them are not read.

    Raises: as `find_loaded`.
    """
    for segment in sorted(manifest.segments, key=lambda s: s.max_modified_ms, reverse=True):
        if since_ms is not None and segment.max_modified_ms < since_ms:
            continue
        if until_ms is not None and segment.min_modified_ms >= until_ms:
            continue
        files = read_segment(store, segment.name)
        times = files["modified_ms"].to_numpy()
        is_wanted = np.ones(files.num_rows, np.bool_)
        if since_ms is not None:
            is_wanted &= times >= since_ms
        if until_ms is not None:
            is_wanted &= times < until_ms
        yield files.filter(pa.array(is_wanted)).sort_by([("modified_ms", "descending"), ("address", "ascending")])
