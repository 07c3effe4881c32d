"""The plan of delete and update, which do one thing to the rows that a condition selects.

The condition is evaluated row by row. So two such operations on different rows of one file do not conflict if the table
uses deletion vectors (`Proposal.row_level`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.commands.common.write_target import WriteTarget
from deltalite.commands.common.written_files import live_row_count, live_rows_by_footers, live_rows_of
from deltalite.commands.row_changes.plan import RowChange, TouchedRows
from deltalite.log.file_table import key_column
from deltalite.snapshot import Snapshot
from deltalite.spark.row_changes.row_actions import ActionKind, RowAction
from deltalite.spark.row_changes.selecting import Selection, changed_by, counts_by_file, selection
from deltalite.spark.row_changes.touched_rows import RowColumns
from deltalite.txn.proposal import ReadSet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltalite.storage.log_store import LogStore

_PARAMETER = "condition"


def selected_change(
    spark: SparkSession, base: Snapshot, condition: str | None, action: RowAction, target: WriteTarget
) -> RowChange:
    """Plan `action`, which has the same condition, on the snapshot.

    Raises:
        InvalidRequestError: the condition is wrong, or cannot be computed for a row.
        CorruptDataFileError: a file cannot be read.
    """
    columns = RowColumns.beside(base.schema)
    found = _found(spark, base, condition, columns)
    gone, left = found.split(base.store) if action.kind is ActionKind.DELETE else (found.nothing, found)
    touched = None
    if left.files.num_rows:
        rows, numbers = changed_by(spark, base, left.files, columns, action, target.schema)
        changed = live_row_count(base.store, left.files) if left.matches is None else sum(left.matches)
        touched = TouchedRows(files=left.files, rows=rows, numbers=numbers, changed=changed)
    return RowChange(
        target=target,
        reads=found.reads,
        actions={0: action},
        columns=columns,
        gone=gone,
        touched=touched,
        row_level=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """The files with matching rows, the number of matches in each (None: all rows), and the read set."""

    files: pa.Table
    matches: list[int] | None
    reads: ReadSet

    @property
    def nothing(self) -> pa.Table:
        return self.files.slice(0, 0)

    def split(self, store: LogStore) -> tuple[pa.Table, _Found]:
        """Return the files whose rows all match, and the others. Footers confirm it, as statistics may be wrong."""
        if self.matches is None:
            return self.files, _Found(files=self.nothing, matches=[], reads=self.reads)
        likely = [n for n, live in enumerate(live_rows_of(self.files)) if live == self.matches[n]]
        rows = live_rows_by_footers(store, self.files.take(pa.array(likely, pa.int64())))
        whole = {n for n, count in zip(likely, rows, strict=True) if count == self.matches[n]}
        mask = pa.array([n in whole for n in range(len(self.matches))], pa.bool_())
        others = [count for n, count in enumerate(self.matches) if n not in whole]
        return self.files.filter(mask), _Found(
            files=self.files.filter(pc.invert(mask)), matches=others, reads=self.reads
        )


def _found(spark: SparkSession, base: Snapshot, condition: str | None, columns: RowColumns) -> _Found:
    if condition is None:
        return _Found(files=base.files, matches=None, reads=ReadSet(whole_table=True))
    chosen = selection(spark, base, condition, parameter=_PARAMETER)
    if chosen.is_whole:
        return _Found(files=chosen.files, matches=None, reads=_reads(chosen, chosen.files))
    counts = counts_by_file(spark, base, chosen, condition, columns, parameter=_PARAMETER)
    numbers = sorted(counts)
    files = chosen.files.take(pa.array(numbers, pa.int64()))
    return _Found(files=files, matches=[counts[number] for number in numbers], reads=_reads(chosen, files))


def _reads(chosen: Selection, files: pa.Table) -> ReadSet:
    return ReadSet(keys=frozenset(key_column(files).to_pylist()), rows=(chosen.test,))
