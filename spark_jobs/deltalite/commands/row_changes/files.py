"""The files of a delete, an update or a merge: data files, deletion vectors and change data files.

Files with changed rows are rewritten. With `delta.enableDeletionVectors`, the changed rows are soft-deleted instead,
and only new rows are written.

The data files and the deletion vectors do not show all changes of an update, or of a rewrite that leaves rows out.
Change data files then hold every change of the commit. The changed rows are computed once, so that the table and its
feed agree on non-deterministic values. Protocol: Deletion Vectors, Change Data Files.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.change_feed import change_file_schema
from deltalite.commands.common.change_data_files import CHANGE_DATA_FOLDER
from deltalite.commands.common.committing import now_ms
from deltalite.commands.common.write_target import WriteTarget
from deltalite.commands.common.written_files import (
    PublishedFiles,
    live_row_count,
    live_rows_per_file_by_statistics,
    publish_change_files,
    publish_files,
    write_layout,
)
from deltalite.commands.row_changes.deletion_vectors import NewVectors, VectorFiles
from deltalite.commands.row_changes.plan import RowChange, TouchedRows, WrittenChange, uses_deletion_vectors
from deltalite.log.file_table import bytes_of, key_column, removes_of
from deltalite.phases import PHASES, Phase
from deltalite.protocol.actions import AddCDCFile
from deltalite.protocol.features import is_in_force
from deltalite.snapshot import Snapshot
from deltalite.spark.columns.conforming import conform_rows
from deltalite.spark.columns.names import column_named
from deltalite.spark.columns.stored_columns import as_in_log
from deltalite.spark.hadoop.folders import folder_of
from deltalite.spark.row_changes.joining import Size, one_partition_if_small
from deltalite.spark.row_changes.row_actions import ActionKind
from deltalite.spark.row_changes.row_rules import apply_rules, fill_new_identities, new_row_guards
from deltalite.spark.row_changes.touched_rows import ChangedRows, NewRows, union_all
from deltalite.spark.runtime.errors import computing_rows, reading_table
from deltalite.spark.scan.frame import scan
from deltalite.spark.scan.row_positions import positions_by_file
from deltalite.spark.write.staging import StagedWrite

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Approximate: Parquet files are encoded and compressed, rows in memory are not.
_MEMORY_TO_FILE_SIZE_RATIO = 5


def write_change(
    spark: SparkSession, base: Snapshot, change: RowChange, stack: ExitStack, *, keeps_new_rows: bool = False
) -> WrittenChange:
    """Write all files that the commit needs, and return its actions. The exit of `stack` removes uncommitted files.

    With `keeps_new_rows`, the result has the new rows even if the files also hold copied rows. The new rows are then
    computed once.

    Raises:
        ConstraintViolationError: a new row breaks a rule of the table.
        SourceError: a row cannot be computed.
        CorruptDataFileError: a file of the table cannot be read.
        StorageError, StoragePermissionError: the table's folder cannot be written.
    """
    PHASES.begin(Phase.WRITE)
    with reading_table(base.store.root):
        if change.inserts is None:
            return _Writer(spark, base, change, change.target, stack, keeps_new_rows=keeps_new_rows).write(None)
        with fill_new_identities(change.inserts, change.target.rules.identities) as (inserts, columns, count):
            target = change.target.with_high_water_marks(columns, count)
            return _Writer(spark, base, change, target, stack, keeps_new_rows=keeps_new_rows).write(inserts)


class _Writer:
    """Writes the files of one change; `target` is the table after the commit."""

    def __init__(
        self,
        spark: SparkSession,
        base: Snapshot,
        change: RowChange,
        target: WriteTarget,
        stack: ExitStack,
        *,
        keeps_new_rows: bool,
    ) -> None:
        self._spark = spark
        self._base = base
        self._change = change
        self._target = target
        self._uses_vectors = uses_deletion_vectors(base)
        self._mixes_rows = change.touched is not None and not self._uses_vectors
        self._keeps_new_rows = keeps_new_rows and self._mixes_rows
        self._has_updates = any(action.kind is ActionKind.UPDATE for action in change.actions.values())
        folder = folder_of(spark, base.store.root)
        self._staging = stack.enter_context(
            StagedWrite(folder, write_layout(target, optimize=change.shuffles_partitions))
        )
        self._vectors = stack.enter_context(VectorFiles(base.store))

    def write(self, inserts: NewRows | None) -> WrittenChange:
        """Write the files, and return the actions of the commit."""
        touched, needs_change_files = self._change.touched, self._needs_change_files()
        if (needs_change_files or self._keeps_new_rows) and touched is not None:
            with computing_rows():
                touched = touched.compute_once()
                inserts = None if inserts is None else inserts.compute_once()
        data_files = self._write_data_files(touched, inserts)
        vectors = self._soft_delete(touched) if touched is not None and self._uses_vectors else None
        removed_files = pa.concat_tables([self._change.whole_files, *self._removed_touched_files(touched, vectors)])
        rows_in_rewritten_files = (
            0 if touched is None or self._uses_vectors else live_row_count(self._base.store, touched.files)
        )
        changes: tuple[AddCDCFile, ...] = ()
        if needs_change_files and touched is not None:
            changes = self._write_change_files(touched.rows, inserts)
        return WrittenChange(
            target=self._target,
            adds=(*data_files.adds, *(() if vectors is None else vectors.adds)),
            removes=tuple(removes_of(removed_files, deletion_timestamp_ms=now_ms(), data_change=True)),
            changes=changes,
            pending_files=(self._staging, self._vectors),
            data_files=data_files,
            vectors=vectors or NewVectors(),
            rows_in_rewritten_files=rows_in_rewritten_files,
            new_rows=self._new_rows(touched, inserts) if self._keeps_new_rows and touched is not None else None,
        )

    def _new_rows(self, touched: TouchedRows, inserts: NewRows | None) -> DataFrame:
        """Return the updated and the inserted rows, as readers of the commit get them."""
        table, action = self._target.table, self._change.columns.action
        partition_columns = {column.lower() for column in table.partition_columns}
        frames = [touched.rows.updated()]
        if inserts is not None:
            frames.append(inserts.frame)
        columns = [column_named(name) for name in (*table.logical.names, action)]
        rows = self._apply_rules(union_all([frame.select(*columns) for frame in frames]))
        return rows.select(
            *[as_in_log(f) if f.name.lower() in partition_columns else column_named(f.name) for f in table.logical]
        )

    def _needs_change_files(self) -> bool:
        """Whether readers of the feed need change data files to see all changes."""
        if self._change.touched is None or (self._uses_vectors and not self._has_updates):
            return False
        return is_in_force("changeDataFeed", self._target.protocol, self._target.metadata)

    def _write_data_files(self, touched: TouchedRows | None, inserts: NewRows | None) -> PublishedFiles:
        """Write the data files: the remaining rows of rewritten files, and the new rows."""
        frames = []
        if touched is not None and not self._uses_vectors:
            frames.append(touched.rows.rewritten())
        elif touched is not None and self._has_updates:
            updated = touched.rows.updated() if touched.updated is None else touched.updated
            frames.append(one_partition_if_small(updated, _estimated_size(touched)))
        table = self._target.copied_table if frames else self._target.table
        if inserts is not None:
            frames.append(inserts.with_null_row_ids(self._target.row_ids) if frames else inserts.frame)
        if not frames:
            return PublishedFiles.empty()
        schema, rules, action = self._target.schema, self._target.rules, self._change.columns.action
        guards = new_row_guards(self._spark, action, schema, rules, self._change.actions)
        staged_files = self._staging.write(self._apply_rules(union_all(frames)), table, guards)
        return publish_files(self._base.store, self._staging, staged_files, self._target, data_change=True)

    def _soft_delete(self, touched: TouchedRows) -> NewVectors:
        """Write deletion vectors for the changed rows."""
        columns = self._change.columns
        deletions: Iterable[tuple[int, pa.Int64Array]]
        if touched.positions is not None:
            deletions = touched.positions()
        else:
            positions_of_files = positions_by_file(touched.rows.addresses(), file=columns.file, row=columns.row)
            deletions = ((touched.scanned.numbers[file], positions) for file, positions in positions_of_files)
        return self._vectors.delete_rows(_with_all_columns(self._base, touched.files), deletions)

    def _removed_touched_files(self, touched: TouchedRows | None, vectors: NewVectors | None) -> list[pa.Table]:
        """Return the touched files that the commit removes, including those that it adds again with another vector."""
        if touched is None:
            return []
        return [touched.files if vectors is None else touched.files.take(pa.array(vectors.file_numbers, pa.int64()))]

    def _write_change_files(self, rows: ChangedRows, inserts: NewRows | None) -> tuple[AddCDCFile, ...]:
        """Write the change data files: preimages and postimages of updates, all deleted rows, and new rows."""
        target, whole_file_rows = self._target, None
        if self._change.whole_files.num_rows:
            rows_to_delete = scan(self._spark, self._base, self._change.whole_files)
            whole_file_rows = conform_rows(rows_to_delete, self._base.schema, target.schema)
        frame = self._apply_rules(rows.feed(inserts, whole_file_rows))
        staged_files = self._staging.write(frame, change_file_schema(target.table), [], folder=CHANGE_DATA_FOLDER)
        return publish_change_files(self._base.store, self._staging, staged_files, target)

    def _apply_rules(self, frame: DataFrame) -> DataFrame:
        change = self._change
        return apply_rules(frame, change.columns.action, self._target.schema, self._target.rules, change.actions)


def _with_all_columns(base: Snapshot, files: pa.Table) -> pa.Table:
    """Return the same files in the same order, with all columns of the log."""
    all_files = base.files_with()
    return all_files.take(pc.index_in(key_column(files), value_set=key_column(all_files).combine_chunks()))


def _estimated_size(touched: TouchedRows) -> Size:
    """Estimate the size of the changed rows from the size of their files."""
    row_count = sum(count or 0 for count in live_rows_per_file_by_statistics(touched.files)) or 1
    size_bytes = bytes_of(touched.files) * _MEMORY_TO_FILE_SIZE_RATIO
    return Size(count=row_count, size_bytes=size_bytes).with_addresses(touched.changed_row_count)
