"""The sides of a comparison: this library and delta-spark in one Spark session, and delta-rs in the same process.

Each side opens a table again for each operation, as a task does. All sides give the rows of a query as Python values,
so that a suite can compare them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from pyspark.sql import DataFrame, SparkSession

import deltalite.spark as delta
from deltalite.commands.merge import merge
from deltalite.commands.write import write
from deltalite.requests import MergeClause, MergeRequest, Source, WriteRequest

Rows = list[tuple[object, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """A merge of the Parquet file `source` into a table. Rows match if all `keys` are equal.

    `matched` is the effect on matched rows: "update", "delete" or None. `inserts` has the condition of each clause for
    new rows; None for a clause without a condition.
    """

    source: str
    keys: tuple[str, ...]
    matched: str | None = "update"
    inserts: tuple[str | None, ...] = (None,)

    @property
    def condition(self) -> str:
        """The condition of the merge, in SQL."""
        return " AND ".join(f"target.{key} = source.{key}" for key in self.keys)


@dataclass(frozen=True, slots=True)
class Query:
    """A query in SQL. `where` repeats the filter of a query on one table.

    Spark plans the SQL after this library has listed the files. So this library needs `where` to skip files.
    """

    sql: str
    where: str | None = None


class Engine(Protocol):
    """One side of a comparison."""

    name: str

    def load(self, source: str, table: str) -> None:
        """Create a table with the rows of a Parquet file."""

    def merge(self, table: str, change: Merge) -> None:
        """Merge rows into a table."""

    def query(self, tables: Mapping[str, str], query: Query) -> Rows:
        """Return the rows of a query. `tables` has the addresses of the tables, by their names in the query."""


@dataclass(frozen=True, slots=True)
class DeltaLite:
    """This library, through its commands."""

    spark: SparkSession
    name: str = "deltalite"

    def load(self, source: str, table: str) -> None:
        """Create a table with the rows of a Parquet file."""
        write(self.spark, WriteRequest(table=table, sources={"source": Source(format="parquet", path=source)}))

    def merge(self, table: str, change: Merge) -> None:
        """Merge rows into a table."""
        matched = {"update": MergeClause(update="*"), "delete": MergeClause(delete=True)}
        request = MergeRequest(
            table=table,
            sources={"source": Source(format="parquet", path=change.source)},
            on=change.condition,
            when_matched=(matched[change.matched],) if change.matched else (),
            when_not_matched=tuple(MergeClause(condition=condition, insert="*") for condition in change.inserts),
        )
        merge(self.spark, request)

    def query(self, tables: Mapping[str, str], query: Query) -> Rows:
        """Return the rows of a query over tables."""
        frames = {name: delta.read(self.spark, table, where=query.where) for name, table in tables.items()}
        return _query(self.spark, frames, query.sql)


@dataclass(frozen=True, slots=True)
class DeltaSpark:
    """delta-spark, through SQL.

    It keeps the snapshots of tables in memory. With `keeps_snapshots` it uses them in later queries. Otherwise it reads
    the log again, as in a new job.
    """

    spark: SparkSession
    name: str = "delta-spark"
    keeps_snapshots: bool = False

    def load(self, source: str, table: str) -> None:
        """Create a table with the rows of a Parquet file."""
        self.spark.read.parquet(source).write.format("delta").save(table)

    def merge(self, table: str, change: Merge) -> None:
        """Merge rows into a table."""
        matched = {"update": "WHEN MATCHED THEN UPDATE SET *", "delete": "WHEN MATCHED THEN DELETE", None: ""}
        conditions = [f"AND {condition}" if condition else "" for condition in change.inserts]
        inserts = " ".join(f"WHEN NOT MATCHED {condition} THEN INSERT *" for condition in conditions)
        source = f"parquet.`{change.source}`"
        into = f"MERGE INTO delta.`{table}` AS target USING {source} AS source ON {change.condition}"
        self.spark.sql(f"{into} {matched[change.matched]} {inserts}")

    def query(self, tables: Mapping[str, str], query: Query) -> Rows:
        """Return the rows of a query over tables."""
        if not self.keeps_snapshots:
            self.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # noqa: SLF001
        frames = {name: self.spark.read.format("delta").load(table) for name, table in tables.items()}
        return _query(self.spark, frames, query.sql)


@dataclass(frozen=True, slots=True)
class DeltaRs:
    """delta-rs, with its query engine DataFusion."""

    name: str = "delta-rs"

    def load(self, source: str, table: str) -> None:
        """Create a table with the rows of a Parquet file."""
        write_deltalake(table, ds.dataset(source).scanner().to_reader())

    def merge(self, table: str, change: Merge) -> None:
        """Merge rows into a table."""
        source = pq.read_table(change.source)
        merger = DeltaTable(table).merge(source, change.condition, source_alias="source", target_alias="target")
        if change.matched == "update":
            merger = merger.when_matched_update_all()
        if change.matched == "delete":
            merger = merger.when_matched_delete()
        for condition in change.inserts:
            merger = merger.when_not_matched_insert_all(condition)
        merger.execute()

    def query(self, tables: Mapping[str, str], query: Query) -> Rows:
        """Return the rows of a query over tables."""
        builder = QueryBuilder()
        for name, table in tables.items():
            builder.register(name, DeltaTable(table))
        rows = pa.RecordBatchReader.from_stream(builder.execute(query.sql)).read_all()
        return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def _query(spark: SparkSession, frames: Mapping[str, DataFrame], sql: str) -> Rows:
    """Return the rows of a query. `frames` has the tables by their names in the query."""
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    return [tuple(row) for row in spark.sql(sql).collect()]
