"""Merge, update and delete in a table of 8,000,000 rows, compared with delta-rs on the same data.

A merge has one percent of the rows, half of them new: once spread over the table, once from one range of keys. An
update and a delete change a tenth of a percent. Each round works on a new table of hard links to the same files; making
it is not timed. Both sides read the source from a Parquet file. `DELTALITE_BENCH_ROWS` makes the tables smaller.
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
STRIDE = 7_919  # a prime, so that the keys are spread over the whole table


def rows_of(keys: pa.Array, score: float) -> pa.Table:
    """Return rows with these keys, as in a typical feed."""
    text = keys.cast(pa.string())
    return pa.table(
        {
            "order_id": keys,
            "customer": pc.binary_join_element_wise("customer-", text, ""),
            "score": pa.array([score], pa.float64()).take(pa.array([0] * len(keys), pa.int32())),
        }
    )


def make_tables() -> None:
    """Write the tables with which every round begins, and the sources."""
    rows_per_file = ROWS // FILES
    for name, properties in PROPERTIES.items():
        table = FOLDER / name
        for number in range(FILES):
            keys = pa.array(range(number * rows_per_file, (number + 1) * rows_per_file), pa.int64())
            write_deltalake(table, rows_of(keys, 0.0), mode="append", configuration=properties)
    half = ROWS // 200
    spread = pa.array(sorted({n * STRIDE % ROWS for n in range(half)} | set(range(ROWS, ROWS + half))), pa.int64())
    local = pa.array([*range(ROWS // 3, ROWS // 3 + half), *range(ROWS, ROWS + half)], pa.int64())
    pq.write_table(rows_of(spread, 1.0), FOLDER / "random.parquet")
    pq.write_table(rows_of(local, 1.0), FOLDER / "localized.parquet")


def copy_table(name: str, side: str) -> Path:
    """Make a table of hard links to the files of another one."""
    table = WORK / f"{name}-{side}"
    shutil.rmtree(table, ignore_errors=True)
    shutil.copytree(FOLDER / name, table, copy_function=os.link)
    return table


def merge_ours(spark: SparkSession, source: Path) -> Callable[[Path], object]:
    """Return the merge of a source with this library."""
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
    """Return the merge of a source with delta-rs."""
    return lambda table: (
        DeltaTable(table)
        .merge(pq.read_table(source), "target.order_id = source.order_id", source_alias="source", target_alias="target")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )


def measure(name: str, kind: str, ours: Callable[[Path], object], peers: Callable[[Path], object]) -> Pair:
    """Measure both sides, each on a new table; delta-rs writes no deletion vectors, so its tables have none."""
    pair = Pair(name=f"{name}, {kind}", peer="delta-rs", target=1.0)
    tables: dict[str, Path] = {}

    def prepare() -> None:
        tables["ours"], tables["peers"] = copy_table(kind, "ours"), copy_table("files", "peers")

    pair.run(lambda: ours(tables["ours"]), lambda: peers(tables["peers"]), rounds=ROUNDS, prepare=prepare)
    check_same(name, tables["ours"], tables["peers"])
    return pair


def check_same(name: str, ours: Path, peers: Path) -> None:
    """Exit unless both tables have the same number of rows and the same sum."""
    from deltalite import DeltaTable as OurTable

    actual = OurTable(str(ours)).to_arrow(columns=["score"])
    expected = DeltaTable(peers).to_pyarrow_table(columns=["score"])
    sums = [(t.num_rows, pc.sum(t["score"]).as_py()) for t in (actual, expected)]
    if sums[0] != sums[1]:
        raise SystemExit(f"{name}: the tables differ in rows and sum, {sums[0]} against {sums[1]}.")


def main() -> None:
    """Measure all operations, and print a table."""
    if not (FOLDER / "localized.parquet").exists():
        shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir(parents=True)
        make_tables()
    spark = session({"spark.sql.shuffle.partitions": "4"})
    pairs = []
    condition = f"order_id % {ONE_IN} = 17"
    for kind in PROPERTIES:
        for source in ("random", "localized"):
            file = FOLDER / f"{source}.parquet"
            pairs.append(measure(f"merge of 1%, {source}", kind, merge_ours(spark, file), merge_peers(file)))
        pairs.append(
            measure(
                "update of 0.1%",
                kind,
                lambda table: update(spark, UpdateRequest(table=str(table), condition=condition, set={"score": "2"})),
                lambda table: DeltaTable(table).update(predicate=condition, updates={"score": "2"}),
            )
        )
        pairs.append(
            measure(
                "delete of 0.1%",
                kind,
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
