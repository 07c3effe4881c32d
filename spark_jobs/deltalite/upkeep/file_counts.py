"""Counts of the active files of a version: all files counted, or earlier counts updated by a commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from deltalite.log.file_table import bytes_of, deleted_rows_of
from deltalite.protocol.actions import AddFile, CommitInfo, RemoveFile
from deltalite.version import is_this_library


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCounts:
    """The numbers of active files, their bytes, deletion vectors and soft-deleted rows of a version."""

    files: int
    size_bytes: int
    vectors: int
    deleted_records: int


def count_files(files: pa.Table) -> FileCounts:
    """Count files. `files` must have the columns `size` and `deletionVector`."""
    vectors = files["deletionVector"]
    return FileCounts(
        files=files.num_rows,
        size_bytes=bytes_of(files),
        vectors=len(vectors) - vectors.null_count,
        deleted_records=deleted_rows_of(files),
    )


def counts_after_commit(counts: FileCounts, actions: Iterable[tuple[str, Mapping[str, Any]]]) -> FileCounts | None:
    """Return the counts after a commit, or None if they are unknown. `actions` are pairs of a kind and a body.

    They are unknown in these cases:

    - Another writer made the commit.
    - A file action contains no size, or a deletion vector contains no number of rows.
    - The commit may add existing files again.
    - A count would be negative.
    """
    files, size_bytes = counts.files, counts.size_bytes
    vectors, deleted_records = counts.vectors, counts.deleted_records
    is_by_this_library = may_add_again = has_removes = False
    for kind, body in actions:
        if kind == CommitInfo.action:
            is_by_this_library = is_this_library(body.get("engineInfo"))
        if kind not in (AddFile.action, RemoveFile.action):
            continue
        sign = 1 if kind == AddFile.action else -1
        has_removes = has_removes or kind == RemoveFile.action
        may_add_again = may_add_again or (kind == AddFile.action and body.get("dataChange") is not True)
        size, vector = body.get("size"), body.get("deletionVector")
        rows_in_vector = 0 if vector is None else _cardinality(vector)
        if not isinstance(size, int) or rows_in_vector is None:
            return None
        files, size_bytes = files + sign, size_bytes + sign * size
        if vector is not None:
            vectors, deleted_records = vectors + sign, deleted_records + sign * rows_in_vector
    if not is_by_this_library or (may_add_again and not has_removes):
        return None
    if min(files, size_bytes, vectors, deleted_records) < 0:
        return None
    return FileCounts(files=files, size_bytes=size_bytes, vectors=vectors, deleted_records=deleted_records)


def _cardinality(vector: object) -> int | None:
    """Return the number of rows of a deletion vector in the log, None if it is unknown."""
    cardinality = vector.get("cardinality") if isinstance(vector, Mapping) else None
    return cardinality if isinstance(cardinality, int) else None
