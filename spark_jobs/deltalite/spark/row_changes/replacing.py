"""The files that a write replaces, and the surviving rows of these files.

A write replaces all files, the files of some partitions, or the rows that match a predicate. A file with matching rows
is rewritten without these rows; see `selecting`. delta-spark: replaceWhere, dynamic partition overwrite.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.log.file_table import key_column
from deltalite.snapshot import Snapshot
from deltalite.spark.row_changes.selecting import PartitionKeys, matching_rows_by_file, selection
from deltalite.spark.row_changes.touched_rows import RowColumns
from deltalite.spark.scan.frame import scan, scan_with_row_ids
from deltalite.txn.proposal import ReadSet, RowTest


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """The replaced files, and the rows of rewritten files.

    - `removed_files`: the files of which all rows are deleted.
    - `rewritten_files`: the files that are written again without their deleted rows, perhaps without any row.
    - `reads`: the read set of the write.
    - `survivors`: the remaining rows of the rewritten files, with the columns of `scan_with_row_ids`.
    - `deleted`: the deleted rows of the rewritten files. Like `survivors`, None if no file is rewritten.
    - `matched_row_count`: the number of deleted rows, or None if they were not counted.
    """

    removed_files: pa.Table
    rewritten_files: pa.Table
    reads: ReadSet
    survivors: DataFrame | None = None
    deleted: DataFrame | None = None
    matched_row_count: int | None = None

    @classmethod
    def of(
        cls,
        removed_files: pa.Table,
        rewritten_files: pa.Table,
        *,
        row_test: RowTest | None = None,
        survivors: DataFrame | None = None,
        deleted: DataFrame | None = None,
        matched_row_count: int | None = None,
    ) -> Replacement:
        """Return the replacement of files. `row_test` selected them; it is None for files of an earlier run."""
        keys = frozenset(key_column(pa.concat_tables([removed_files, rewritten_files])).to_pylist())
        reads = ReadSet(keys=keys, row_tests=() if row_test is None else (row_test,))
        return cls(
            removed_files=removed_files,
            rewritten_files=rewritten_files,
            reads=reads,
            survivors=survivors,
            deleted=deleted,
            matched_row_count=matched_row_count,
        )

    @property
    def files(self) -> pa.Table:
        """All replaced files. The commit removes both kinds."""
        return pa.concat_tables([self.removed_files, self.rewritten_files])


def replacement_of_all_files(snapshot: Snapshot) -> Replacement:
    """Return the replacement of all files."""
    return Replacement(
        removed_files=snapshot.files, rewritten_files=snapshot.files.slice(0, 0), reads=ReadSet(whole_table=True)
    )


def replacement_of_partitions(snapshot: Snapshot, partitions: Iterable[Mapping[str, str | None]]) -> Replacement:
    """Return the replacement of all files in the written partitions. The values are compared, not their spellings.

    Raises:
        CorruptLogError, UnsupportedFeatureError: see `PartitionKeys.key`.
    """
    test = _SamePartitions(snapshot, partitions)
    values_of_files = snapshot.files["partitionValues"].to_pylist(maps_as_pydicts="strict")
    is_written = pa.array([test.may_match(values) for values in values_of_files], pa.bool_())
    return Replacement.of(snapshot.files.filter(is_written), snapshot.files.slice(0, 0), row_test=test)


def replacement_of_matching_rows(spark: SparkSession, snapshot: Snapshot, predicate: str) -> Replacement:
    """Return the replacement of the rows for which `predicate` (SQL) is true.

    Raises:
        InvalidRequestError: the predicate is wrong, or cannot be computed for a row. The message names
            `replace_where`.
        CorruptDataFileError, CorruptLogError, StorageError, UnsupportedStorageError, UnsupportedFeatureError: see
            `selection` and `matching_rows_by_file`.
    """
    candidates = selection(spark, snapshot, predicate, parameter="replace_where")
    no_files = snapshot.files.slice(0, 0)
    if candidates.all_rows_match:
        return Replacement.of(candidates.files, no_files, row_test=candidates.test)
    columns = RowColumns.unused_in(snapshot.schema)
    counts = matching_rows_by_file(spark, snapshot, candidates, predicate, columns, parameter="replace_where")
    rewritten_files = candidates.files.take(pa.array(sorted(counts), pa.int64()))
    survivors = scan_with_row_ids(spark, snapshot, rewritten_files, disables_float_pushdown=True)
    survivors = survivors.where(~F.coalesce(F.expr(predicate), F.lit(False)))
    deleted_rows = scan(spark, snapshot, rewritten_files, disables_float_pushdown=True).where(predicate)
    return Replacement.of(
        no_files,
        rewritten_files,
        row_test=candidates.test,
        survivors=survivors,
        deleted=deleted_rows,
        matched_row_count=sum(counts.values()),
    )


class _SamePartitions:
    """Tests whether a file lies in one of the written partitions."""

    def __init__(self, snapshot: Snapshot, partitions: Iterable[Mapping[str, str | None]]) -> None:
        self._keys = PartitionKeys(snapshot)
        self._written_keys = {self._keys.key(values) for values in partitions}

    def may_match(self, partition_values: Mapping[str, str | None], _stats: str | None = None) -> bool:
        return self._keys.key(partition_values) in self._written_keys
