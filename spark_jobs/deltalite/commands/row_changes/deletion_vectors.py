"""Files that get a new deletion vector: the commit removes each file, and adds it again with the new vector.

A file that loses its last row is only removed. Many vectors share one vector file. No version refers to a vector file
before the commit, and uncommitted vector files are deleted. Protocol: Deletion Vectors (writer requirements), Add File
and Remove File.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.columnar.deletion_vectors.descriptors import file_name
from deltalite.columnar.deletion_vectors.files import write_vectors
from deltalite.columnar.deletion_vectors.reading import check_positions, positions_of_vectors
from deltalite.columnar.parquet.files import read_footers
from deltalite.columnar.skipping.file_facts import parse_stats
from deltalite.columnar.statistics.wide_bounds import with_wide_bounds
from deltalite.errors import DeltaLiteError
from deltalite.log.file_table import add_of, without_null_values
from deltalite.protocol.actions import AddFile
from deltalite.protocol.paths import decode_path
from deltalite.storage.log_store import LogStore

# The approximate maximum. A file of so many random positions has at most two megabytes.
_POSITIONS_PER_VECTOR_FILE = 1_000_000


@dataclass(slots=True, kw_only=True)
class NewVectors:
    """The files with newly deleted rows, and the counts of added, updated and removed vectors.

    `file_numbers` has the positions of these files in the table of files. `adds` has the files that keep a live row,
    with their new vectors.
    """

    file_numbers: list[int] = field(default_factory=list)
    adds: list[AddFile] = field(default_factory=list)
    vectors_added: int = 0
    vectors_updated: int = 0
    vectors_removed: int = 0


class VectorFiles:
    """The vector files of one operation, as a context manager.

    On exit, the context manager deletes the files that were written since the last call of `keep_published` or
    `keep_all`. Both methods keep all files.
    """

    def __init__(self, store: LogStore) -> None:
        self._store = store
        self._uncommitted_names: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        for name in self._uncommitted_names:
            with suppress(DeltaLiteError):  # a vacuum deletes the files that remain
                self._store.delete(name)

    def keep_published(self) -> None:
        """Keep the files, because the log refers to them."""
        self._uncommitted_names.clear()

    def keep_all(self) -> None:
        """Keep the files, because it is unknown whether the log refers to them."""
        self._uncommitted_names.clear()

    def delete_rows(self, files: pa.Table, deletions: Iterable[tuple[int, pa.Int64Array]]) -> NewVectors:
        """Write vector files that soft-delete more rows of some files, and return the new vectors.

        Args:
            files: the files, with all columns of `ADD_TYPES`.
            deletions: for each touched file, its index in `files`, and the positions of the rows to delete, strictly
                increasing. None of these rows may be deleted already.

        Raises:
            CorruptDataFileError: a vector or a footer cannot be read.
            StorageError, StoragePermissionError: a vector cannot be written.
        """
        outcome = NewVectors()
        for pack in _packs(deletions):
            self._delete_rows_of_pack(files, pack, outcome)
        return outcome

    def _delete_rows_of_pack(self, files: pa.Table, pack: list[tuple[int, pa.Int64Array]], outcome: NewVectors) -> None:
        """Write the vectors of a pack (the deletions of one vector file), and add its files to the outcome."""
        file_rows = _file_rows(files, [number for number, _ in pack])
        deleted_positions = self._deleted_positions(file_rows, pack)
        counts = self._record_counts(file_rows, deleted_positions)
        partly_deleted: list[int] = []  # the files that keep a live row
        for number, _ in pack:
            had_vector = file_rows[number]["deletionVector"] is not None
            outcome.file_numbers.append(number)
            outcome.vectors_removed += had_vector
            if len(deleted_positions[number]) < counts[number]:
                outcome.vectors_added += 1
                outcome.vectors_updated += had_vector
                partly_deleted.append(number)
        new_vectors = [deleted_positions[number] for number in partly_deleted]
        descriptors = write_vectors(self._store, new_vectors) if new_vectors else []
        self._uncommitted_names += dict.fromkeys(name for d in descriptors if (name := file_name(d)) is not None)
        for number, descriptor in zip(partly_deleted, descriptors, strict=True):
            outcome.adds.append(_readded_file(file_rows[number], descriptor, counts[number]))

    def _deleted_positions(
        self, file_rows: Mapping[int, Mapping[str, Any]], pack: Iterable[tuple[int, pa.Int64Array]]
    ) -> dict[int, pa.Int64Array]:
        """Return the positions of all soft-deleted rows, old and new, by file of the pack."""
        old_vectors = {n: row["deletionVector"] for n, row in file_rows.items() if row["deletionVector"] is not None}
        old_positions = dict(
            zip(old_vectors, positions_of_vectors(self._store, list(old_vectors.values())), strict=True)
        )
        return {n: _union(old_positions.pop(n), new) if n in old_positions else new for n, new in pack}

    def _record_counts(
        self, file_rows: Mapping[int, Mapping[str, Any]], deleted_positions: Mapping[int, pa.Int64Array]
    ) -> dict[int, int]:
        """Return the number of rows of each file, including its deleted rows, from its statistics or its footer.

        The method reads the footer if the statistics lack the number, or if no live row would remain by this number. So
        wrong statistics, or a vector with positions beyond the last row, lose no live row.

        Raises:
            CorruptDataFileError: a footer cannot be read, or there is such a vector.
        """
        all_stats = {number: parse_stats(file_row["stats"]) for number, file_row in file_rows.items()}
        recorded_counts = {number: stats.num_records for number, stats in all_stats.items() if stats is not None}
        counts = {
            n: count for n, count in recorded_counts.items() if count is not None and count > len(deleted_positions[n])
        }
        names = {number: decode_path(row["path"]) for number, row in file_rows.items() if number not in counts}
        for (number, name), footer in zip(names.items(), read_footers(self._store, list(names.values())), strict=True):
            check_positions(deleted_positions[number], footer.num_rows, name)
            counts[number] = footer.num_rows
        return counts


def _packs(deletions: Iterable[tuple[int, pa.Int64Array]]) -> Iterator[list[tuple[int, pa.Int64Array]]]:
    """Yield packs of deletions. The vectors of one pack go into one vector file."""
    pack: list[tuple[int, pa.Int64Array]] = []
    position_count = 0
    for number, positions in deletions:
        pack.append((number, positions))
        position_count += len(positions)
        if position_count >= _POSITIONS_PER_VECTOR_FILE:
            yield pack
            pack, position_count = [], 0
    if pack:
        yield pack


def _file_rows(files: pa.Table, numbers: list[int]) -> dict[int, dict[str, Any]]:
    """Return the rows of the table `files` at these positions, by position."""
    return dict(zip(numbers, files.take(pa.array(numbers, pa.int64())).to_pylist(), strict=True))


def _union(old_positions: pa.Int64Array, new_positions: pa.Int64Array) -> pa.Int64Array:
    return pc.unique(pa.concat_arrays([old_positions, new_positions])).sort()


def _readded_file(file_row: Mapping[str, Any], descriptor: Mapping[str, Any], num_records: int) -> AddFile:
    stats = with_wide_bounds(file_row["stats"], num_records)
    return replace(add_of(file_row, data_change=True), stats=stats, deletion_vector=without_null_values(descriptor))
