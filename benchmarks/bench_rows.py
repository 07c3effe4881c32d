"""Merge, update and delete in a table of 8,000,000 rows, beside delta-rs on the same data.

One percent of the rows is merged, drawn at random and from one place, half of it new; a tenth of a percent is updated
and deleted. Each round works on a fresh table made of links to the same files, which is not timed. Both sides get the
source as a Parquet file. `DELTALITE_BENCH_ROWS` makes the tables smaller.
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
from measuring import Pair, print_table
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
PROPERTIES = {"files": {}, "vectors": {"delta.enableDeletionVectors": "true"}}
ONE_IN = 1_000
STRIDE = 7_919  # a prime: keys that it steps to lie all over the table


def rows_of(keys: pa.Array, score: float) -> pa.Table:
    """Rows as a feed has them."""
    text = keys.cast(pa.string())
    return pa.table(
        {
            "order_id": keys,
            "customer": pc.binary_join_element_wise("customer-", text, ""),
            "score": pa.array([score], pa.float64()).take(pa.array([0] * len(keys), pa.int32())),
        }
    )


def make_tables() -> None:
    """The tables that every round begins with, and the sources."""
    each = ROWS // FILES
    for name, properties in PROPERTIES.items():
        table = FOLDER / name
        for number in range(FILES):
            keys = pa.array(range(number * each, (number + 1) * each), pa.int64())
            write_deltalake(table, rows_of(keys, 0.0), mode="append", configuration=properties)
    half = ROWS // 200
    spread = pa.array(sorted({n * STRIDE % ROWS for n in range(half)} | set(range(ROWS, ROWS + half))), pa.int64())
    local = pa.array([*range(ROWS // 3, ROWS // 3 + half), *range(ROWS, ROWS + half)], pa.int64())
    pq.write_table(rows_of(spread, 1.0), FOLDER / "random.parquet")
    pq.write_table(rows_of(local, 1.0), FOLDER / "localized.parquet")


def fresh(name: str, side: str) -> Path:
    """A table of links to the files of another one."""
    table = WORK / f"{name}-{side}"
    shutil.rmtree(table, ignore_errors=True)
    shutil.copytree(FOLDER / name, table, copy_function=os.link)
    return table


def merge_ours(spark: SparkSession, source: Path) -> Callable[[Path], object]:
    """Our merge of a source."""
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


def merge_peers(source: Path) -> Callable[[Path], object]:
    """The same by delta-rs."""
    return lambda table: (
        DeltaTable(table)
        .merge(pq.read_table(source), "target.order_id = source.order_id", source_alias="source", target_alias="target")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )


def timed(name: str, kind: str, ours: Callable[[Path], object], peers: Callable[[Path], object]) -> Pair:
    """Both sides, each on a fresh table; delta-rs writes no deletion vectors, so its tables have none."""
    pair = Pair(name=f"{name}, {kind}", peer="delta-rs", target=1.0)
    tables: dict[str, Path] = {}

    def prepare() -> None:
        tables["ours"], tables["peers"] = fresh(kind, "ours"), fresh("files", "peers")

    pair.run(lambda: ours(tables["ours"]), lambda: peers(tables["peers"]), rounds=ROUNDS, prepare=prepare)
    check_same(name, tables["ours"], tables["peers"])
    return pair


def check_same(name: str, ours: Path, peers: Path) -> None:
    """Both tables hold the same."""
    from deltalite import DeltaTable as OurTable

    found = OurTable(str(ours)).to_arrow(columns=["score"])
    expected = DeltaTable(peers).to_pyarrow_table(columns=["score"])
    sums = [(t.num_rows, pc.sum(t["score"]).as_py()) for t in (found, expected)]
    if sums[0] != sums[1]:
        raise SystemExit(f"{name}: {sums[0]} and {sums[1]}")


def main() -> None:
    """Print a table of all."""
    if not (FOLDER / "localized.parquet").exists():
        shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir(parents=True)
        make_tables()
    spark = session({"spark.sql.shuffle.partitions": "4"})
    pairs = []
    some = f"order_id % {ONE_IN} = 17"
    for kind in PROPERTIES:
        for source in ("random", "localized"):
            file = FOLDER / f"{source}.parquet"
            pairs.append(timed(f"merge of 1%, {source}", kind, merge_ours(spark, file), merge_peers(file)))
        pairs.append(
            timed(
                "update of 0.1%",
                kind,
                lambda table: update(spark, UpdateRequest(table=str(table), condition=some, set={"score": "2"})),
                lambda table: DeltaTable(table).update(predicate=some, updates={"score": "2"}),
            )
        )
        pairs.append(
            timed(
                "delete of 0.1%",
                kind,
                lambda table: delete(spark, DeleteRequest(table=str(table), condition=some)),
                lambda table: DeltaTable(table).delete(some),
            )
        )
    print_table(pairs)
    print(
        f"memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB, delta-rs's too"
    )
    spark.stop()
    shutil.rmtree(WORK, ignore_errors=True)


if __name__ == "__main__":
    main()
