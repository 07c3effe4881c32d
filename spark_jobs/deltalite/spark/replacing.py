"""Which files a write takes out of the table, and which of their rows stay.

The answer is a `Replacement`: files that go as a whole, and files that are rewritten without the rows that match a
predicate. A predicate on partition columns alone is decided by Spark on the distinct partition values, so any
expression works and no data is read. One on data columns reads only the files that statistics cannot rule out, first
to find which of them hold a matching row. delta-spark: replaceWhere, dynamic partition overwrite.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows
from pyspark.sql.types import IntegerType

from deltalite.columnar.skipping import FileTest, prune
from deltalite.log.file_table import key_column
from deltalite.protocol.partition_values import parse_partition_value, partition_text
from deltalite.protocol.schema import StructType
from deltalite.snapshot import Snapshot
from deltalite.spark.columns import named, unused_name
from deltalite.spark.errors import computing, reading_table
from deltalite.spark.predicates import parse_predicate, reads_only
from deltalite.spark.scan import scan
from deltalite.spark.types import spark_type, to_spark
from deltalite.txn.proposal import ReadSet, RowTest

# Python's NaN equals only the same object; SQL's equals every NaN.
_NAN = float("nan")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """`whole` files disappear; of the `partly` replaced files, `survivors` stay and `deleted` go. `reads` led to them.

    What another writer adds meanwhile would have to go too where `reads` would have read it.
    """

    whole: pa.Table
    partly: pa.Table
    reads: ReadSet
    survivors: DataFrame | None = None
    deleted: DataFrame | None = None

    @classmethod
    def of(
        cls,
        whole: pa.Table,
        partly: pa.Table,
        *,
        rows: RowTest | None = None,
        survivors: DataFrame | None = None,
        deleted: DataFrame | None = None,
    ) -> Replacement:
        """The replacement of the files that were found, by a test or by their names alone."""
        keys = frozenset(key_column(pa.concat_tables([whole, partly])).to_pylist())
        reads = ReadSet(keys=keys, rows=() if rows is None else (rows,))
        return cls(whole=whole, partly=partly, reads=reads, survivors=survivors, deleted=deleted)

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
    tree = parse_predicate(spark, predicate, snapshot.schema, parameter="replace_where")
    test = FileTest(tree, snapshot.table_schema)
    if reads_only(tree, snapshot.partition_columns):
        return Replacement.of(_in_partitions(spark, snapshot, predicate), snapshot.files.slice(0, 0), rows=test)
    candidates = prune(snapshot.files, tree, snapshot.table_schema)
    file_column = unused_name(snapshot.schema, "file")
    matches = scan(spark, snapshot, candidates, file_column=file_column).where(predicate)
    with reading_table(snapshot.store.root), computing("replace_where", predicate):
        touched = [row[0] for row in matches.select(named(file_column)).distinct().collect()]
    partly = candidates.filter(pc.is_in(candidates["path"], value_set=pa.array(touched, pa.string())))
    rows = scan(spark, snapshot, partly)
    survivors = rows.where(~F.coalesce(F.expr(predicate), F.lit(False)))
    deleted = rows.where(predicate)
    return Replacement.of(snapshot.files.slice(0, 0), partly, rows=test, survivors=survivors, deleted=deleted)


def _in_partitions(spark: SparkSession, snapshot: Snapshot, predicate: str) -> pa.Table:
    keys = _PartitionKeys(snapshot)
    rows = snapshot.files["partitionValues"].to_pylist(maps_as_pydicts="strict")
    positions: dict[tuple[Any, ...], list[int]] = {}
    for position, values in enumerate(rows):
        positions.setdefault(keys.key(values), []).append(position)
    distinct = list(positions)
    at_column = unused_name(snapshot.schema, "at")
    schema = to_spark(StructType((*keys.fields,))).add(at_column, IntegerType())
    frame = spark.createDataFrame([(*values, at) for at, values in enumerate(distinct)], schema)
    # The text may still name a data column, as in `day = 1 AND (id > 0 OR TRUE)`; its value makes no difference.
    partition_names = {f.name for f in keys.fields}
    others = [f for f in snapshot.schema if f.name not in partition_names]
    frame = frame.select("*", *[F.lit(None).cast(spark_type(f.type)).alias(f.name) for f in others])
    with computing("replace_where", predicate):
        chosen = [row[0] for row in frame.where(predicate).select(named(at_column)).collect()]
    taken = sorted(position for at in chosen for position in positions[distinct[at]])
    return snapshot.files.take(pa.array(taken, pa.int64()))


class _PartitionKeys:
    """Partition values as a tuple of typed values, which compares by value; `fields` are named as users know them."""

    def __init__(self, snapshot: Snapshot) -> None:
        table = snapshot.table_schema
        both = {own.name: f for own, f in zip(table.physical, table.logical, strict=True)}
        self.fields = [both[name] for name in table.partition_keys]
        self._keys = tuple(zip(table.partition_keys.values(), self.fields, strict=True))

    def key(self, values: Mapping[str, str | None]) -> tuple[Any, ...]:
        typed = (parse_partition_value(partition_text(values, key), f.type) for key, f in self._keys)
        return tuple(_NAN if value != value else value for value in typed)  # noqa: PLR0124  only NaN differs from itself


class _SamePartitions:
    """Whether a file lies in one of the partitions that were written."""

    def __init__(self, snapshot: Snapshot, written: Iterable[Mapping[str, str | None]]) -> None:
        self._keys = _PartitionKeys(snapshot)
        self._written = {self._keys.key(values) for values in written}

    def may_match(self, partition_values: Mapping[str, str | None], _stats: str | None = None) -> bool:
        return self._keys.key(partition_values) in self._written
