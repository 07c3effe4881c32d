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

from deltalite.columnar.deletion_vectors.files import write_vectors
from deltalite.columnar.deletion_vectors.reading import deleted_rows, file_name
from deltalite.columnar.parquet.files import read_footers
from deltalite.columnar.skipping.file_facts import parse_stats
from deltalite.columnar.statistics.wide_bounds import with_wide_bounds
from deltalite.errors import DeltaLiteError
from deltalite.log.file_table import add_of, without_null_values
from deltalite.protocol.actions import AddFile
from deltalite.protocol.paths import decode_path
from deltalite.storage.log_store import LogStore

# The approximate number of positions in one vector file: at most two megabytes if rows are deleted at random.
_POSITIONS_IN_A_FILE = 1_000_000


@dataclass(slots=True, kw_only=True)
class NewVectors:
    """The numbers of the removed files (`touched`), and the files that are added again with a new vector (`adds`)."""

    touched: list[int] = field(default_factory=list)
    adds: list[AddFile] = field(default_factory=list)
    rows: int = 0
    vectors_added: int = 0
    vectors_updated: int = 0
    vectors_removed: int = 0


class VectorFiles:
    """The vector files of one operation. The end of the block removes them, unless `keep` or `leave` was called."""

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

    def delete_rows(self, files: pa.Table, deletions: Iterable[tuple[int, pa.Int64Array]]) -> NewVectors:
        """Soft-delete more rows of some files.

        Args:
            files: the files, with all columns of `ADD_TYPES`.
            deletions: the number of a file, and positions of rows that are not deleted yet, strictly increasing.

        Raises:
            CorruptDataFileError: a vector or a footer cannot be read.
            StorageError, StoragePermissionError: a vector cannot be written.
        """
        outcome = NewVectors()
        for pack in _packs(deletions):
            self._delete_rows_of_pack(files, pack, outcome)
        return outcome

    def _delete_rows_of_pack(self, files: pa.Table, pack: list[tuple[int, pa.Int64Array]], outcome: NewVectors) -> None:
        """Write the vectors of a pack, and add its files to the outcome."""
        rows = dict(zip((n for n, _ in pack), _rows_of_files(files, pack), strict=True))
        deleted = {number: self._deleted_positions(rows[number], positions) for number, positions in pack}
        counts = self._record_counts(rows, deleted)
        remaining: list[tuple[int, pa.Int64Array]] = []  # the files that keep a live row
        for number, positions in pack:
            had_vector = rows[number]["deletionVector"] is not None
            outcome.touched.append(number)
            outcome.rows += len(positions)
            outcome.vectors_removed += had_vector
            if len(deleted[number]) < counts[number]:
                outcome.vectors_added += 1
                outcome.vectors_updated += had_vector
                remaining.append((number, deleted[number]))
        descriptors = write_vectors(self._store, [positions for _, positions in remaining]) if remaining else []
        self._written += dict.fromkeys(name for d in descriptors if (name := file_name(d)) is not None)
        for (number, _), descriptor in zip(remaining, descriptors, strict=True):
            outcome.adds.append(_readded_file(rows[number], descriptor, counts[number]))

    def _deleted_positions(self, row: Mapping[str, Any], positions: pa.Int64Array) -> pa.Int64Array:
        """Return the old and the new positions of soft-deleted rows of a file."""
        descriptor = row["deletionVector"]
        return positions if descriptor is None else _union(deleted_rows(self._store, descriptor), positions)

    def _record_counts(
        self, rows: Mapping[int, Mapping[str, Any]], deleted: Mapping[int, pa.Int64Array]
    ) -> dict[int, int]:
        """Return the number of rows of each file, with deleted rows, from its statistics or its footer.

        The footer decides if there are no statistics, or if the file would be removed whole. So wrong statistics cannot
        remove a row.
        """
        recorded = {n: stats.num_records for n, row in rows.items() if (stats := parse_stats(row["stats"])) is not None}
        counts = {n: count for n, count in recorded.items() if count is not None and count > len(deleted[n])}
        uncertain = [n for n in rows if n not in counts]
        footers = read_footers(self._store, [decode_path(rows[n]["path"]) for n in uncertain])
        return counts | {n: footer.num_rows for n, footer in zip(uncertain, footers, strict=True)}


def _packs(deletions: Iterable[tuple[int, pa.Int64Array]]) -> Iterator[list[tuple[int, pa.Int64Array]]]:
    """Yield the deletions of one vector file after the other."""
    pack: list[tuple[int, pa.Int64Array]] = []
    size = 0
    for number, positions in deletions:
        pack.append((number, positions))
        size += len(positions)
        if size >= _POSITIONS_IN_A_FILE:
            yield pack
            pack, size = [], 0
    if pack:
        yield pack


def _rows_of_files(files: pa.Table, pack: list[tuple[int, pa.Int64Array]]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = files.take(pa.array([n for n, _ in pack], pa.int64())).to_pylist()
    return rows


def _union(old_positions: pa.Int64Array, new_positions: pa.Int64Array) -> pa.Int64Array:
    return pc.unique(pa.concat_arrays([old_positions, new_positions])).sort()


def _readded_file(row: Mapping[str, Any], descriptor: Mapping[str, Any], num_records: int) -> AddFile:
    stats = with_wide_bounds(row["stats"], num_records)
    return replace(add_of(row, data_change=True), stats=stats, deletion_vector=without_null_values(descriptor))
