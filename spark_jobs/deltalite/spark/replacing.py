"""Which files a write takes out of the table, and which of their rows stay.

The answer is a `Replacement`: files that go as a whole, and files that are rewritten without the rows that match a
predicate: see `selecting`. delta-spark: replaceWhere, dynamic partition overwrite.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.log.file_table import key_column
from deltalite.snapshot import Snapshot
from deltalite.spark.changed_rows import RowColumns
from deltalite.spark.scan import scan
from deltalite.spark.selecting import PartitionKeys, counts_by_file, selection
from deltalite.txn.proposal import ReadSet, RowTest


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """`whole` files disappear; of the `partly` replaced files, `survivors` stay and `deleted` go. `reads` led to them.

    What another writer adds meanwhile would have to go too where `reads` would have read it. `matched_rows` is how many
    rows of the `partly` replaced files go, None where nobody counted them.
    """

    whole: pa.Table
    partly: pa.Table
    reads: ReadSet
    survivors: DataFrame | None = None
    deleted: DataFrame | None = None
    matched_rows: int | None = None

    @classmethod
    def of(
        cls,
        whole: pa.Table,
        partly: pa.Table,
        *,
        rows: RowTest | None = None,
        survivors: DataFrame | None = None,
        deleted: DataFrame | None = None,
        matched_rows: int | None = None,
    ) -> Replacement:
        """The replacement of the files that were found, by a test or by their names alone."""
        keys = frozenset(key_column(pa.concat_tables([whole, partly])).to_pylist())
        reads = ReadSet(keys=keys, rows=() if rows is None else (rows,))
        return cls(
            whole=whole, partly=partly, reads=reads, survivors=survivors, deleted=deleted, matched_rows=matched_rows
        )

    @property
    def files(self) -> pa.Table:
        """All files that leave the table."""
        return pa.concat_tables([self.whole, self.partly])


def everything(snapshot: Snapshot) -> Replacement:
    """All files are replaced."""
    return Replacement(whole=snapshot.files, partly=snapshot.files.slice(0, 0), reads=ReadSet(whole_table=True))


def same_partitions(snapshot: Snapshot, written: Iterable[Mapping[str, str | None]]) -> Replacement:
    """The files of the partitions that were written, compared by value: one value may be spelled in two ways."""
    test = _SamePartitions(snapshot, written)
    rows = snapshot.files["partitionValues"].to_pylist(maps_as_pydicts="strict")
    mask = pa.array([test.may_match(values) for values in rows], pa.bool_())
    return Replacement.of(snapshot.files.filter(mask), snapshot.files.slice(0, 0), rows=test)


def matching(spark: SparkSession, snapshot: Snapshot, predicate: str) -> Replacement:
    """The rows for which `predicate` (SQL) is true.

    Raises:
        InvalidRequestError: the predicate is wrong, naming `replace_where`.
    """
    found = selection(spark, snapshot, predicate, parameter="replace_where")
    none = snapshot.files.slice(0, 0)
    if found.is_whole:
        return Replacement.of(found.files, none, rows=found.test)
    columns = RowColumns.beside(snapshot.schema)
    counts = counts_by_file(spark, snapshot, found, predicate, columns, parameter="replace_where")
    partly = found.files.take(pa.array(sorted(counts), pa.int64()))
    rows = scan(spark, snapshot, partly, is_exact=True)
    survivors = rows.where(~F.coalesce(F.expr(predicate), F.lit(False)))
    deleted = rows.where(predicate)
    matched = sum(counts.values())
    return Replacement.of(none, partly, rows=found.test, survivors=survivors, deleted=deleted, matched_rows=matched)


class _SamePartitions:
    """Whether a file lies in one of the partitions that were written."""

    def __init__(self, snapshot: Snapshot, written: Iterable[Mapping[str, str | None]]) -> None:
        self._keys = PartitionKeys(snapshot)
        self._written = {self._keys.key(values) for values in written}

    def may_match(self, partition_values: Mapping[str, str | None], _stats: str | None = None) -> bool:
        return self._keys.key(partition_values) in self._written
