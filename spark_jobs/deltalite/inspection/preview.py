"""Some rows of a version as texts, for a page: bounded in rows, columns, bytes and seconds.

The reader respects deletion vectors, partitions and column mapping. It reads one file after the other, and stops at the
first limit. Python cannot interrupt a read of storage, so a read that hangs ends later than its limit.
`changed_rows.py` reads the changed rows of a version within the same limits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

import pyarrow as pa

from deltalite.columnar.predicates.filters import from_filters
from deltalite.columnar.predicates.where import parse_where
from deltalite.columnar.reader.data_file import data_files
from deltalite.columnar.reader.stream import read_files
from deltalite.columnar.skipping.files import prune
from deltalite.inspection.cells import cell_text
from deltalite.inspection.inner_files import inner_files
from deltalite.inspection.shown_texts import shown_text
from deltalite.protocol.schema import StructType
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore

MAX_ROWS = 100
MAX_COLUMNS = 100
MAX_BYTES = 256 * 1024
"""The limit on the characters of all cells, which is about their bytes."""
MAX_READ_BYTES = 256 * 1024 * 1024
"""The limit on the bytes of decoded columns, for a filter that few rows match."""
MAX_CONDITIONS, MAX_CONDITION_LENGTH = 5, 200
BATCH_ROWS = 1_024

File = TypeVar("File")
Row = tuple[str | None, ...]


class Limit(StrEnum):
    """The limit that ended a preview."""

    NONE = "none"
    ROWS = "rows"
    BYTES = "bytes"
    SECONDS = "seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPreview:
    """Rows of a version as texts; None stands for NULL.

    - `columns`: the names of at most `MAX_COLUMNS` columns; `column_count` counts all.
    - `limit`: the limit that ended the preview. Unless it is `NONE`, the version may have more rows that match.
    - `kinds`: for changed rows, the kind of change of each row in words; otherwise empty.
    """

    columns: tuple[str, ...]
    column_count: int
    rows: tuple[Row, ...]
    limit: Limit
    kinds: tuple[str, ...] = ()


class Deadline:
    """The time at which a preview ends. `clock` returns seconds."""

    def __init__(self, max_seconds: float, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ends_at = clock() + max_seconds

    @property
    def has_passed(self) -> bool:
        """Whether the preview must end."""
        return self._clock() > self._ends_at

    def files_in_time(self, files: Iterable[File]) -> Iterator[File]:
        """Yield files until the deadline.

        `collect_rows` checks the deadline after each batch, but a file without a row that matches gives no batch.
        """
        for file in files:
            if self.has_passed:
                return
            yield file


def read_preview(
    store: LogStore,
    version: int,
    conditions: Sequence[str],
    *,
    max_seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> RowPreview:
    """Read the first rows of a version for which all conditions are true.

    Args:
        store: the store of the table.
        version: the version.
        conditions: comparisons, as `parse_where` reads them.
        max_seconds: the preview ends after the file or the batch in which this time has passed.
        clock: returns seconds.

    Raises:
        UnsupportedFeatureError: a file is outside of the table's folder.
        DeltaLiteError: a condition is invalid, or the version or its rows cannot be read.
    """
    deadline = Deadline(max_seconds, clock)
    snapshot = Snapshot.load(store, version)
    predicate = from_filters(parse_where(conditions, snapshot.schema), snapshot.schema)
    names = shown_columns(snapshot.schema)
    files = prune(snapshot.files, predicate, snapshot.table_schema)
    batches = read_files(
        store,
        deadline.files_in_time(inner_files(data_files(files), store.root)),
        snapshot.table_schema,
        columns=names,
        predicate=predicate,
        batch_size=BATCH_ROWS,
        use_threads=False,
    )
    rows, limit = collect_rows(batches, deadline)
    return RowPreview(
        columns=tuple(map(shown_text, names)), column_count=len(snapshot.schema.fields), rows=rows, limit=limit
    )


def shown_columns(schema: StructType) -> list[str]:
    """Return the names of the columns that a preview shows."""
    return [field.name for field in schema.fields][:MAX_COLUMNS]


def collect_rows(batches: Iterable[pa.RecordBatch], deadline: Deadline) -> tuple[tuple[Row, ...], Limit]:
    """Return the first rows as texts, and the limit that ended them."""
    rows: list[Row] = []
    shown_bytes = read_bytes = 0
    for batch in batches:
        read_bytes += batch.nbytes
        for number in range(batch.num_rows):
            if len(rows) == MAX_ROWS:
                return tuple(rows), Limit.ROWS
            row = tuple(cell_text(column[number]) for column in batch.columns)
            shown_bytes += sum(len(text) for text in row if text is not None)
            if shown_bytes > MAX_BYTES:
                return tuple(rows), Limit.BYTES
            rows.append(row)
        if read_bytes > MAX_READ_BYTES:
            return tuple(rows), Limit.BYTES
        if deadline.has_passed:
            return tuple(rows), Limit.SECONDS
    return tuple(rows), Limit.SECONDS if deadline.has_passed else Limit.NONE
