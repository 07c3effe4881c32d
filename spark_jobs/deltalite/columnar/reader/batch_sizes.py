"""The number of rows of a batch, chosen so that batches have about the same number of bytes.

A footer has the stored size of a column. The size in memory may be much greater, because a repeated text is stored once
and a small number takes a few bits. A number counts with its width in Arrow. Only the batches show the length of texts,
so the first batch of a file with texts has few rows. The bytes of each batch determine the rows of the next batch. If
rows suddenly become longer, one batch can therefore be too large.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from deltalite.columnar.reader.row_groups import RowGroups

if TYPE_CHECKING:
    import pyarrow.parquet as pq

# The first batch may have this many rows of unknown size. Writers put texts of up to about a megabyte into
# dictionaries, so these rows take up to 64 MB.
_MIN_FIRST_ROWS = 64
# A batch has at most this many times the rows of the previous batch, because a few rows may not be typical.
_MAX_GROWTH = 16
# The bytes of a value in Arrow. A boolean takes one bit, and a decimal of fixed length becomes a 16-byte decimal.
_WIDTHS = {"BOOLEAN": 0, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 8, "FIXED_LEN_BYTE_ARRAY": 16}


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """The maximum rows and the approximate maximum bytes of a batch; a batch has at least one row."""

    rows: int
    bytes: int


def rows_of_first_batch(
    limits: BatchLimits, footer: pq.FileMetaData, groups: RowGroups, leaves: Sequence[int], filler_bytes: int
) -> int:
    """Return the number of rows of the first batch of adjacent row groups.

    Args:
        limits: the limits of a batch.
        footer: the footer of the file.
        groups: the row groups, which are not empty.
        leaves: the Parquet columns to read.
        filler_bytes: the bytes of a row that do not come from the file.
    """
    widths = [_width(footer.schema.column(leaf)) for leaf in leaves]
    row_count = len(groups.rows)
    min_bytes = max_bytes = filler_bytes * row_count
    for group in map(footer.row_group, groups.groups):
        for leaf, width in zip(leaves, widths, strict=True):
            chunk = group.column(leaf)
            stored_bytes, count = max(chunk.total_uncompressed_size, 1), max(chunk.num_values, 1)
            min_bytes += max(stored_bytes, count * (width or 0))
            # A text is at most as long as the stored column.
            max_bytes += stored_bytes * count if width is None else max(stored_bytes, count * width)
    possible_rows, safe_rows = (limits.bytes * row_count // max(size, 1) for size in (min_bytes, max_bytes))
    return max(min(limits.rows, max(safe_rows, min(possible_rows, _MIN_FIRST_ROWS))), 1)


def rows_of_next_batch(limits: BatchLimits, batch: pa.RecordBatch, filler_bytes: int) -> int:
    """Return the number of rows of the batch after `batch`, which is not empty; see `rows_of_first_batch`."""
    rows: int = batch.num_rows
    size: int = batch.nbytes + filler_bytes * rows
    rows_within_bytes = limits.bytes * rows // max(size, 1)
    return max(min(limits.rows, _MAX_GROWTH * rows, rows_within_bytes), 1)


def _width(leaf: pq.ColumnSchema) -> int | None:
    """Return the minimum bytes of a leaf's value in Arrow; None for texts, because their lengths vary."""
    width = _WIDTHS.get(leaf.physical_type)
    return None if width is None else max(width, leaf.length)
