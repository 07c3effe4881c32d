"""A data file to read, or a part of it.

A `DataFile` has the path, partition values and deletion vector from the log. It can be limited to a range of bytes, so
that several workers share a file. If ranges cover a file without overlap, each row belongs to exactly one range. The
change feed limits a `DataFile` to the rows of a second deletion vector. Protocol: Add File and Remove File; Deletion
Vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from deltalite.errors import InvalidRequestError
from deltalite.protocol.row_tracking import ROW_ID_FIELDS

Descriptor = Mapping[str, Any]
"""The `deletionVector` of a file action: storageType, pathOrInlineDv, offset, sizeInBytes, cardinality."""

# The number of files that become Python objects at a time.
_FILES_AT_A_TIME = 1_024
# This limits the number of parts if the log has a wrong size for a file.
_MAX_PARTS = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One data file, or a part of it.

    - `path`, `partition_values`: as in the log.
    - `deletion_vector`: describes the rows to omit.
    - `only_rows_vector`: describes the rows to read, without those of `deletion_vector`; None means all rows.
    - `base_row_id`, `commit_version`: give rows their row id and row commit version; None without row tracking.
    - `start`, `length`: a range of bytes, to the end of the file without `length`. It selects each row group with its
      middle byte in the range.
    """

    path: str
    partition_values: Mapping[str, str | None] = field(default_factory=dict)
    deletion_vector: Descriptor | None = None
    only_rows_vector: Descriptor | None = None
    base_row_id: int | None = None
    commit_version: int | None = None
    start: int = 0
    length: int | None = None

    def __post_init__(self) -> None:
        if self.start < 0 or (self.length is not None and self.length < 0):
            raise InvalidRequestError(
                f"The range of bytes of '{self.path}' starts at {self.start} and has the length {self.length}.",
                remedy="Give a start and a length that are not negative.",
            )


def data_files(files: pa.Table) -> Iterator[DataFile]:
    """Yield the files of a snapshot's table of files, in order.

    `files` has the columns `path` and `partitionValues`. It may have `deletionVector` and the columns in
    `ROW_ID_FIELDS`.
    """
    optional_columns = [name for name in ("deletionVector", *ROW_ID_FIELDS) if name in files.column_names]
    columns = ["path", "partitionValues", *optional_columns]
    for batch in files.select(columns).to_batches(max_chunksize=_FILES_AT_A_TIME):
        for row in batch.to_pylist():
            yield DataFile(
                path=row["path"],
                partition_values=dict(row["partitionValues"] or ()),
                deletion_vector=row.get("deletionVector"),
                base_row_id=row.get("baseRowId"),
                commit_version=row.get("defaultRowCommitVersion"),
            )


def split(file: DataFile, size_bytes: int, part_bytes: int) -> Iterator[DataFile]:
    """Yield the file in ranges of about `part_bytes`.

    The last range has no end, because the size in the log may be wrong.
    """
    part_bytes = max(part_bytes, size_bytes // _MAX_PARTS)
    starts = range(0, max(size_bytes, 1), part_bytes)
    for start in starts:
        yield replace(file, start=start, length=part_bytes if start + part_bytes < size_bytes else None)
