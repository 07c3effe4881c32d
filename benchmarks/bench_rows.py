"""Merge, update and delete in a table of 8,000,000 rows, compared with delta-rs on the same data.

The source of a merge has as many rows as one percent of the table. Half of them are new. The other rows change rows of
the table: one source changes rows that are spread over the table, another source changes rows with adjacent keys. An
update and a delete change a tenth of a percent of the rows. Each round works on a new table of hard links to the same
files. The time does not include making this table. Both sides read the source from a Parquet file. To use smaller
tables, set `DELTALITE_BENCH_ROWS`.
"""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from linked_copy import copy_with_links
from measuring import TimedPair, print_table
from pyspark.sql import SparkSession
from spark_session import session

from deltalite.commands.delete import delete
from deltalite.commands.merge import merge
from deltalite.commands.update import update
from deltalite.requests import DeleteRequest, MergeClause, MergeRequest, Source, UpdateRequest

ROWS = int(os.environ.get("DELTALITE_BENCH_ROWS", "8000000"))
FILES = 16
ROUNDS = 3
FOLDER = Path(".benchmarks").resolve() / f"rows-{ROWS}"
WORK = FOLDER / "work"
PROPERTIES_BY_TABLE = {"files": {}, "vectors": {"delta.enableDeletionVectors": "true"}}
TARGETS = {"files": 3.0, "vectors": 1.5}
ROWS_PER_CHANGE = 1_000
STRIDE = 7_919  # a prime, so that the keys are spread over the whole table


def rows_of(keys: pa.Array, score: float) -> pa.Table:
    """Return rows as in a typical feed, with these keys and the same score."""
    text = keys.cast(pa.string())
    return pa.table(
        {
            "order_id": keys,
            "customer": pc.binary_join_element_wise("customer-", text, ""),
            "score": pa.array([score], pa.float64()).take(pa.array([0] * len(keys), pa.int32())),
        }
    )


def make_tables() -> None:
    """Write the tables that each round copies, and the sources of the merges."""
    rows_per_file = ROWS // FILES
    for name, properties in PROPERTIES_BY_TABLE.items():
        table = FOLDER / name
        for number in range(FILES):
            keys = pa.array(range(number * rows_per_file, (number + 1) * rows_per_file), pa.int64())
            write_deltalake(table, rows_of(keys, 0.0), mode="append", configuration=properties)
    half = ROWS // 200
    new_keys = range(ROWS, ROWS + half)
    spread_keys = pa.array(sorted({n * STRIDE % ROWS for n in range(half)} | set(new_keys)), pa.int64())
    adjacent_keys = pa.array([*range(ROWS // 3, ROWS // 3 + half), *new_keys], pa.int64())
    pq.write_table(rows_of(spread_keys, 1.0), FOLDER / "spread.parquet")
    pq.write_table(rows_of(adjacent_keys, 1.0), FOLDER / "adjacent.parquet")


def merge_with_deltalite(spark: SparkSession, source: Path) -> Callable[[Path], object]:
    """Return a function that merges a source into a table with this library."""
    return lambda table: merge(
        spark,
        MergeRequest(
            table=str(table),
            sources={"source": Source(format="parquet", path=str(source))},
            on="target.order_id = source.order_id",
            when_matched=(MergeClause(update="*"),),
            when_not_matched=(MergeClause(insert="*"),),
        ),
    )


def merge_with_delta_rs(source: Path) -> Callable[[Path], object]:
    """Return a function that merges a source into a table with delta-rs."""
    return lambda table: (
        DeltaTable(table)
        .merge(pq.read_table(source), "target.order_id = source.order_id", source_alias="source", target_alias="target")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )


def measure(
    name: str, table_name: str, run_deltalite: Callable[[Path], object], run_delta_rs: Callable[[Path], object]
) -> TimedPair:
    """Measure an operation with both sides on new tables, and return the times.

    `table_name` is a key of `PROPERTIES_BY_TABLE`. delta-rs writes no deletion vectors, so its tables never have the
    property.
    """
    pair = TimedPair(name=f"{name}, {table_name}", peer="delta-rs", target=TARGETS[table_name])
    tables: dict[str, Path] = {}

    def prepare() -> None:
        for side, original in (("deltalite", table_name), ("delta-rs", "files")):
            tables[side] = copy_with_links(FOLDER / original, WORK / f"{original}-{side}")

    pair.run(
        lambda: run_deltalite(tables["deltalite"]),
        lambda: run_delta_rs(tables["delta-rs"]),
        rounds=ROUNDS,
        prepare=prepare,
    )
    check_same_rows(name, tables["deltalite"], tables["delta-rs"])
    return pair


def check_same_rows(name: str, deltalite_table: Path, delta_rs_table: Path) -> None:
    """Exit unless both tables have the same number of rows and the same sum of scores."""
    from deltalite import DeltaTable as DeltaLiteTable

    deltalite_rows = DeltaLiteTable(str(deltalite_table)).to_arrow(columns=["score"])
    delta_rs_rows = DeltaTable(delta_rs_table).to_pyarrow_table(columns=["score"])
    results = [(rows.num_rows, pc.sum(rows["score"]).as_py()) for rows in (deltalite_rows, delta_rs_rows)]
    if results[0] != results[1]:
        raise SystemExit(f"{name}: (rows, sum of scores) is {results[0]} with deltalite, {results[1]} with delta-rs.")


def main() -> None:
    """Measure all operations, and print a table."""
    if not (FOLDER / "adjacent.parquet").exists():
        shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir(parents=True)
        make_tables()
    spark = session({"spark.sql.shuffle.partitions": "4"})
    pairs = []
    condition = f"order_id % {ROWS_PER_CHANGE} = 17"
    for table_name in PROPERTIES_BY_TABLE:
        for keys in ("spread", "adjacent"):
            source = FOLDER / f"{keys}.parquet"
            pairs.append(
                measure(
                    f"merge of 1%, {keys} keys",
                    table_name,
                    merge_with_deltalite(spark, source),
                    merge_with_delta_rs(source),
                )
            )
        pairs.append(
            measure(
                "update of 0.1%",
                table_name,
                lambda table: update(spark, UpdateRequest(table=str(table), condition=condition, set={"score": "2"})),
                lambda table: DeltaTable(table).update(predicate=condition, updates={"score": "2"}),
            )
        )
        pairs.append(
            measure(
                "delete of 0.1%",
                table_name,
                lambda table: delete(spark, DeleteRequest(table=str(table), condition=condition)),
                lambda table: DeltaTable(table).delete(condition),
            )
        )
    print_table(pairs)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of this process, which also runs delta-rs: {peak_mib:.0f} MiB")
    spark.stop()
    shutil.rmtree(WORK, ignore_errors=True)


if __name__ == "__main__":
    main()
