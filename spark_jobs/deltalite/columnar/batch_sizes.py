"""How many rows a batch has, so that it holds about so many bytes whatever the rows are.

A footer says what a file stores, which may be far less than what becomes of it: a text that repeats is stored once, and
a small number in a few bits. Numbers are counted with the width that they have in Arrow; how long texts are, only the
batches themselves can tell, so that files with texts begin with few rows, and the bytes of each batch decide on the
rows of the next. One batch can therefore be too large: the one in which rows become longer all at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from deltalite.columnar.row_groups import RowGroups

if TYPE_CHECKING:
    import pyarrow.parquet as pq

# With texts of a megabyte each, which is about the most that writers put into dictionaries, these are 64 MB.
_FIRST_ROWS = 64
# The next batch has at most so many times the rows of the one before, whose few rows may not be typical.
_GROWTH = 16
# What a value takes in Arrow, in bytes; a decimal of fixed length becomes one of sixteen.
_WIDTHS = {"BOOLEAN": 0, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 8, "FIXED_LEN_BYTE_ARRAY": 16}


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """The most rows of a batch, and about the most bytes; a batch has a row, however long it is."""

    rows: int
    bytes: int


def first_rows(limits: BatchLimits, footer: pq.FileMetaData, run: RowGroups, leaves: Sequence[int], filler: int) -> int:
    """How many rows to begin a run of row groups with.

    Args:
        limits: of a batch.
        footer: of the file.
        run: the row groups; they have rows.
        leaves: the Parquet columns that are read.
        filler: the bytes of a row that do not come from the file.
    """
    widths = [_width(footer.schema.column(leaf)) for leaf in leaves]
    least = most = filler * len(run.rows)
    for group in map(footer.row_group, run.groups):
        for leaf, width in zip(leaves, widths, strict=True):
            chunk = group.column(leaf)
            stored, count = max(chunk.total_uncompressed_size, 1), max(chunk.num_values, 1)
            least += max(stored, count * (width or 0))
            # No text is longer than all that its column stores.
            most += stored * count if width is None else max(stored, count * width)
    fitting, surely = (limits.bytes * len(run.rows) // max(size, 1) for size in (least, most))
    return max(min(limits.rows, max(surely, min(fitting, _FIRST_ROWS))), 1)


def next_rows(limits: BatchLimits, batch: pa.RecordBatch, filler: int) -> int:
    """How many rows to ask for after a raw batch, which is not empty; `filler` as for `first_rows`."""
    rows: int = batch.num_rows
    size: int = batch.nbytes + filler * rows
    fitting = limits.bytes * rows // max(size, 1)
    return max(min(limits.rows, _GROWTH * rows, fitting), 1)


def _width(leaf: pq.ColumnSchema) -> int | None:
    """What a value of a leaf takes in Arrow, at least; None for texts, which differ."""
    width = _WIDTHS.get(leaf.physical_type)
    return None if width is None else max(width, leaf.length)
