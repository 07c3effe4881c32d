"""The plan of delete and update: one action on the rows that a condition selects.

The condition is evaluated for each row separately. So two such operations on different rows of one file do not conflict
if the table uses deletion vectors (`Proposal.row_level`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.commands.common.write_target import WriteTarget
from deltalite.commands.common.written_files import (
    live_row_count,
    live_rows_per_file_by_footers,
    live_rows_per_file_by_statistics,
)
from deltalite.commands.row_changes.plan import RowChange, ScannedRows, TouchedRows, uses_deletion_vectors
from deltalite.log.file_table import key_column
from deltalite.snapshot import Snapshot
from deltalite.spark.row_changes.row_actions import ActionKind, RowAction
from deltalite.spark.row_changes.selecting import (
    Selection,
    matching_positions_by_file,
    matching_rows_by_file,
    rows_changed_by,
    selection,
)
from deltalite.spark.row_changes.touched_rows import RowColumns
from deltalite.txn.proposal import ReadSet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltalite.storage.log_store import LogStore

_PARAMETER = "condition"


def selected_change(
    spark: SparkSession, base: Snapshot, condition: str | None, action: RowAction, target: WriteTarget
) -> RowChange:
    """Return the plan that applies `action` on the snapshot. `condition` is the SQL text of the action's condition.

    Raises:
        InvalidRequestError: the condition is wrong, or cannot be computed for a row.
        CorruptDataFileError: a file cannot be read.
    """
    columns = RowColumns.unused_in(base.schema)
    matching_files = _matching_files(spark, base, condition, columns)
    is_delete = action.kind is ActionKind.DELETE
    whole_files, touched_files = (
        matching_files.split(base.store) if is_delete else (matching_files.no_files, matching_files)
    )
    touched = None
    if touched_files.files.num_rows:

        def scan() -> ScannedRows:
            rows, numbers = rows_changed_by(spark, base, touched_files.files, columns, action, target.schema)
            return ScannedRows(rows=rows, numbers=numbers)

        row_count = (
            live_row_count(base.store, touched_files.files)
            if touched_files.counts is None
            else sum(touched_files.counts)
        )
        positions = touched_files.positions
        touched = TouchedRows(
            files=touched_files.files,
            scan=scan,
            changed_row_count=row_count,
            positions=None if positions is None else partial(enumerate, positions),
        )
    return RowChange(
        target=target,
        reads=matching_files.reads,
        actions={0: action},
        columns=columns,
        whole_files=whole_files,
        touched=touched,
        row_level=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _MatchingFiles:
    """The files with matching rows, and the read set.

    `counts` has the number of matching rows of each file. It is None if all rows match. `positions` has the positions
    of these rows in each file, if the table uses deletion vectors and the positions are few.
    """

    files: pa.Table
    counts: list[int] | None
    reads: ReadSet
    positions: list[pa.Int64Array] | None = None

    @property
    def no_files(self) -> pa.Table:
        """An empty table with the columns of `files`."""
        return self.files.slice(0, 0)

    def split(self, store: LogStore) -> tuple[pa.Table, _MatchingFiles]:
        """Return the files in which all rows match, and the other files.

        The row counts of the statistics may be wrong, so the footers confirm them.
        """
        if self.counts is None:
            return self.files, _MatchingFiles(files=self.no_files, counts=[], reads=self.reads)
        live_counts = live_rows_per_file_by_statistics(self.files)
        likely_whole = [n for n, live in enumerate(live_counts) if live == self.counts[n]]
        footer_counts = live_rows_per_file_by_footers(store, self.files.take(pa.array(likely_whole, pa.int64())))
        whole_numbers = {n for n, count in zip(likely_whole, footer_counts, strict=True) if count == self.counts[n]}
        is_whole = pa.array([n in whole_numbers for n in range(len(self.counts))], pa.bool_())
        partly_matching = _MatchingFiles(
            files=self.files.filter(pc.invert(is_whole)),
            counts=[count for n, count in enumerate(self.counts) if n not in whole_numbers],
            reads=self.reads,
            positions=None
            if self.positions is None
            else [positions for n, positions in enumerate(self.positions) if n not in whole_numbers],
        )
        return self.files.filter(is_whole), partly_matching


def _matching_files(spark: SparkSession, base: Snapshot, condition: str | None, columns: RowColumns) -> _MatchingFiles:
    if condition is None:
        return _MatchingFiles(files=base.files, counts=None, reads=ReadSet(whole_table=True))
    candidates = selection(spark, base, condition, parameter=_PARAMETER)
    if candidates.all_rows_match:
        return _MatchingFiles(files=candidates.files, counts=None, reads=_reads(candidates, candidates.files))
    positions = None
    if uses_deletion_vectors(base):
        matching = matching_positions_by_file(spark, base, candidates, condition, columns, parameter=_PARAMETER)
        counts, positions = matching.counts, matching.positions
    else:
        counts = matching_rows_by_file(spark, base, candidates, condition, columns, parameter=_PARAMETER)
    numbers = sorted(counts)
    files = candidates.files.take(pa.array(numbers, pa.int64()))
    return _MatchingFiles(
        files=files,
        counts=[counts[number] for number in numbers],
        reads=_reads(candidates, files),
        positions=None if positions is None else [positions[number] for number in numbers],
    )


def _reads(candidates: Selection, files: pa.Table) -> ReadSet:
    """Return the read set of an operation that selects `candidates` and finds matching rows in `files`."""
    return ReadSet(keys=frozenset(key_column(files).to_pylist()), row_tests=(candidates.test,))
