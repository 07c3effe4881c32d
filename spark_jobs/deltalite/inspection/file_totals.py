"""The totals of a version's files: their number, bytes and rows.

The allocation of memory for a list of a million files takes a second of processor time, so `read_totals` reads the
files in blocks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.columnar.skipping.record_counts import num_records
from deltalite.log.file_table import bytes_of, deleted_rows_of
from deltalite.log.state import BlocksInvalidated
from deltalite.snapshot import Snapshot

_COLUMNS = ("size", "stats", "deletionVector")
_BLOCK_ROWS = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTotals:
    """The totals of files.

    - `rows`: the rows, including soft-deleted rows; None if the statistics of a file lack the number.
    """

    files: int
    size_bytes: int
    rows: int | None
    deleted_rows: int

    @classmethod
    def of(cls, blocks: Iterable[pa.Table]) -> FileTotals:
        """Add up the files of all blocks, which must have the columns `size`, `stats` and `deletionVector`."""
        files = size_bytes = rows = unknown_rows = deleted_rows = 0
        for block in blocks:
            records = num_records(block["stats"])
            files += block.num_rows
            size_bytes += bytes_of(block)
            rows += pc.sum(records).as_py() or 0
            unknown_rows += records.null_count
            deleted_rows += deleted_rows_of(block)
        return cls(files=files, size_bytes=size_bytes, rows=None if unknown_rows else rows, deleted_rows=deleted_rows)


def read_totals(snapshot: Snapshot) -> FileTotals:
    """Return the totals of a version's files, with bounded memory.

    Raises:
        CorruptLogError: the log cannot be read.
    """
    while True:
        try:
            return FileTotals.of(snapshot.file_blocks(_COLUMNS, max_rows=_BLOCK_ROWS))
        except BlocksInvalidated:  # the snapshot now reads other log files, and their number is finite
            continue
