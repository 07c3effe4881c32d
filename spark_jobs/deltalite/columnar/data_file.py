"""What of a data file is to be read.

A `DataFile` names the file as the log does, carries what the log says of it, and may be narrowed: to a range of bytes,
so that several workers share a file, and to the rows that a second deletion vector marks, as the change feed needs. It
is a value: nothing is opened here. Ranges share out whole row groups; ranges that tile a file give each row to exactly
one of them. Protocol: Add File and Remove File; Deletion Vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from deltalite.errors import InvalidRequestError

Descriptor = Mapping[str, Any]
"""The `deletionVector` of a file action: storageType, pathOrInlineDv, offset, sizeInBytes, cardinality."""

# So many rows of the table of files are made Python objects at a time.
_FILES_AT_A_TIME = 1_024
# The log may lie about a file's size.
_MOST_PARTS = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One data file, or a part of it.

    `path` and `partition_values` are as in the log. `deletion_vector` describes rows that are left out; `only`
    describes the only rows that are read (all, where None), from which those of `deletion_vector` still go. `start` and
    `length` are a range of bytes: the row groups whose middle byte lies in it; `length` None reaches to the end.
    """

    path: str
    partition_values: Mapping[str, str | None] = field(default_factory=dict)
    deletion_vector: Descriptor | None = None
    only: Descriptor | None = None
    start: int = 0
    length: int | None = None

    def __post_init__(self) -> None:
        if self.start < 0 or (self.length is not None and self.length < 0):
            raise InvalidRequestError(
                f"The range of bytes of '{self.path}' starts at {self.start} and has the length {self.length}.",
                remedy="Give a start and a length that are not negative.",
            )


def data_files(files: pa.Table) -> Iterator[DataFile]:
    """The files of a snapshot's table of files, in its order.

    `files` has the columns `path`, `partitionValues`, and `deletionVector` where the table knows them.
    """
    has_vectors = "deletionVector" in files.column_names
    columns = ["path", "partitionValues", *(["deletionVector"] if has_vectors else [])]
    for some in files.select(columns).to_batches(max_chunksize=_FILES_AT_A_TIME):
        for row in some.to_pylist():
            yield DataFile(
                path=row["path"],
                partition_values=dict(row["partitionValues"] or ()),
                deletion_vector=row.get("deletionVector"),
            )


def split(file: DataFile, size_bytes: int, part_bytes: int) -> Iterator[DataFile]:
    """A whole file as ranges of about `part_bytes`, which tile it; the last has no end, whatever the true size is."""
    part_bytes = max(part_bytes, size_bytes // _MOST_PARTS)
    starts = range(0, max(size_bytes, 1), part_bytes)
    for start in starts:
        yield replace(file, start=start, length=part_bytes if start + part_bytes < size_bytes else None)
