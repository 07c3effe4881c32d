"""The selection of a data file's rows by position.

A deletion vector removes rows. A second deletion vector, `only_rows`, limits the rows to read. Both are loaded once per
file, and applied to each batch. Protocol: Deletion Vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.columnar.deletion_vectors.reading import (
    check_positions,
    mask_without_rows,
    positions_within,
    vector_positions,
)
from deltalite.columnar.reader.data_file import DataFile, Descriptor

if TYPE_CHECKING:
    from deltalite.storage.log_store import LogStore


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSelection:
    """The positions of deleted rows (None for no row), and of the only rows to read (None for all rows)."""

    deleted: pa.Int64Array | None = None
    only_rows: pa.Int64Array | None = None

    def may_have_rows(self, rows: range, *, with_deleted: bool) -> bool:
        """Whether the reader may return any of these rows; deleted rows count only with `with_deleted`."""
        if self.only_rows is not None and not len(positions_within(self.only_rows, rows)):
            return False
        return with_deleted or self.deleted is None or len(positions_within(self.deleted, rows)) < len(rows)

    def requested_mask(self, first_row: int, count: int) -> pa.BooleanArray | None:
        """Return a mask of the rows to read among the `count` rows from `first_row` on; None for all rows."""
        if self.only_rows is None:
            return None
        unrequested_mask = mask_without_rows(self.only_rows, first_row, count)
        return pa.repeat(pa.scalar(False), count) if unrequested_mask is None else pc.invert(unrequested_mask)

    def not_deleted_mask(self, first_row: int, count: int) -> pa.BooleanArray | None:
        """Return a mask of the rows that are not deleted among the `count` rows from `first_row` on; None for all."""
        return None if self.deleted is None else mask_without_rows(self.deleted, first_row, count)


def load_selection(store: LogStore, file: DataFile, num_rows: int, file_name: str) -> RowSelection:
    """Load the selection for a file of `num_rows` rows; `file_name` is its name in errors.

    Raises:
        CorruptDataFileError: a vector is missing or damaged, or has positions that the file does not have.
        StorageError: the operating system or the network failed.
    """

    def load(descriptor: Descriptor | None) -> pa.Int64Array | None:
        if descriptor is None:
            return None
        rows = vector_positions(store, descriptor)
        check_positions(rows, num_rows, file_name)
        return rows

    return RowSelection(deleted=load(file.deletion_vector), only_rows=load(file.only_rows_vector))
