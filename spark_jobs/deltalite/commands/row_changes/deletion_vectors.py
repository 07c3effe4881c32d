"""Files that get a new deletion vector: each one is removed and added again with the new vector.

A file that loses its last row is only removed. Many vectors share one vector file. No version refers to a vector file
before the commit, and an uncommitted one is removed. Protocol: Deletion Vectors (writer requirements), Add File and
Remove File.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.columnar.deletion_vector_files import write_vectors
from deltalite.columnar.deletion_vectors import deleted_rows, file_name
from deltalite.columnar.file_facts import parse_stats
from deltalite.columnar.parquet_files import read_footers
from deltalite.columnar.stats_text import with_wide_bounds
from deltalite.errors import DeltaLiteError
from deltalite.log.file_table import add_of, without_null_values
from deltalite.protocol.actions import AddFile
from deltalite.protocol.paths import decode_path
from deltalite.storage.log_store import LogStore

# The approximate number of positions in one vector file: at most two megabytes if rows are deleted at random.
_POSITIONS_IN_A_FILE = 1_000_000


@dataclass(slots=True, kw_only=True)
class MarkedFiles:
    """The result: `touched` has the numbers of the removed files, `adds` the files with a new deletion vector."""

    touched: list[int] = field(default_factory=list)
    adds: list[AddFile] = field(default_factory=list)
    rows: int = 0
    vectors_added: int = 0
    vectors_updated: int = 0
    vectors_removed: int = 0


class VectorFiles:
    """The vector files of one operation. The end of the block removes them without `keep()` or `leave()`."""

    def __init__(self, store: LogStore) -> None:
        self._store = store
        self._written: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        for name in self._written:
            with suppress(DeltaLiteError):  # a vacuum deletes the files that remain
                self._store.delete(name)

    def keep(self) -> None:
        """Keep the files, because the vectors are committed."""
        self._written.clear()

    def leave(self) -> None:
        """Keep the files, because it is unknown whether the vectors are committed."""
        self._written.clear()

    def delete_rows(self, files: pa.Table, marks: Iterable[tuple[int, pa.Int64Array]]) -> MarkedFiles:
        """Mark more rows of some files as deleted.

        Args:
            files: the files, with all columns of `ADD_TYPES`.
            marks: the number of a file, and positions of rows that are not deleted yet, strictly increasing.

        Raises:
            CorruptDataFileError: a vector or a footer cannot be read.
            StorageError, StoragePermissionError: a vector cannot be written.
        """
        found = MarkedFiles()
        for pack in _packs(marks):
            self._mark(files, pack, found)
        return found

    def _mark(self, files: pa.Table, pack: list[tuple[int, pa.Int64Array]], found: MarkedFiles) -> None:
        rows = dict(zip((n for n, _ in pack), _rows(files, pack), strict=True))
        marked = {number: self._with_marks(rows[number], positions) for number, positions in pack}
        counts = self._record_counts(rows, marked)
        staying: list[tuple[int, pa.Int64Array]] = []
        for number, positions in pack:
            was_marked = rows[number]["deletionVector"] is not None
            found.touched.append(number)
            found.rows += len(positions)
            found.vectors_removed += was_marked
            if len(marked[number]) < counts[number]:
                found.vectors_added += 1
                found.vectors_updated += was_marked
                staying.append((number, marked[number]))
        descriptors = write_vectors(self._store, [own for _, own in staying]) if staying else []
        self._written += dict.fromkeys(name for d in descriptors if (name := file_name(d)) is not None)
        for (number, _), descriptor in zip(staying, descriptors, strict=True):
            found.adds.append(_add(rows[number], descriptor, counts[number]))

    def _with_marks(self, row: Mapping[str, Any], positions: pa.Int64Array) -> pa.Int64Array:
        """Return all positions of a file that are marked as deleted afterwards."""
        old = row["deletionVector"]
        return positions if old is None else _union(deleted_rows(self._store, old), positions)

    def _record_counts(
        self, rows: Mapping[int, Mapping[str, Any]], marked: Mapping[int, pa.Int64Array]
    ) -> dict[int, int]:
        """Return the number of rows of each file, with deleted rows, from its statistics or its footer.

        The footer decides if there are no statistics, or if the file would be removed whole. So wrong statistics cannot
        remove a row.
        """
        known = {n: stats.num_records for n, row in rows.items() if (stats := parse_stats(row["stats"])) is not None}
        counts = {n: count for n, count in known.items() if count is not None and count > len(marked[n])}
        others = [n for n in rows if n not in counts]
        footers = read_footers(self._store, [decode_path(rows[n]["path"]) for n in others])
        return counts | {n: footer.num_rows for n, footer in zip(others, footers, strict=True)}


def _packs(marks: Iterable[tuple[int, pa.Int64Array]]) -> Iterator[list[tuple[int, pa.Int64Array]]]:
    pack: list[tuple[int, pa.Int64Array]] = []
    size = 0
    for number, positions in marks:
        pack.append((number, positions))
        size += len(positions)
        if size >= _POSITIONS_IN_A_FILE:
            yield pack
            pack, size = [], 0
    if pack:
        yield pack


def _rows(files: pa.Table, pack: list[tuple[int, pa.Int64Array]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = files.take(pa.array([n for n, _ in pack], pa.int64())).to_pylist()
    return found


def _union(one: pa.Int64Array, other: pa.Int64Array) -> pa.Int64Array:
    return pc.unique(pa.concat_arrays([one, other])).sort()


def _add(row: Mapping[str, Any], descriptor: Mapping[str, Any], num_records: int) -> AddFile:
    stats = with_wide_bounds(row["stats"], num_records)
    return replace(add_of(row, data_change=True), stats=stats, deletion_vector=without_null_values(descriptor))
