"""A write of eight million rows to a table, compared with Spark's `df.write.parquet` of the same rows.

Both sides read the same Parquet source, so the difference is the cost of a Delta table: the plan, the footers, the
statistics, the move of the files, and the commit.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from measuring import TimedPair, print_table
from pyspark.sql import SparkSession
from spark_session import session

from deltalite.commands.write import write
from deltalite.requests import Source, WriteRequest

ROWS = int(sys.argv[1]) if len(sys.argv) > 1 else 8_000_000
ROUNDS = 5
FOLDER = Path(".benchmarks").resolve()
SOURCE, PARQUET, TABLE = FOLDER / f"write-{ROWS}", FOLDER / "parquet", FOLDER / "table"


def make_source(spark: SparkSession) -> None:
    """Write the source: keys, strings, amounts and times, as in a typical feed."""
    rows = spark.range(ROWS).selectExpr(
        "id AS order_id",
        "concat('customer-', id % 100000) AS customer",
        "CAST(id % 10000 AS DECIMAL(12,2)) AS amount",
        "timestamp_seconds(1700000000 + id) AS updated_at",
        "CASE WHEN id % 7 = 0 THEN NULL ELSE id * 0.25 END AS score",
    )
    rows.write.mode("overwrite").parquet(str(SOURCE))


def main() -> None:
    """Measure both writes, each time to a new table or folder, and print a table. Exit if the table lacks rows."""
    # Delta requires this type for timestamps, so both sides write it.
    spark = session({"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"})
    if not (SOURCE / "_SUCCESS").exists():
        make_source(spark)
    request = WriteRequest(table=str(TABLE), sources={"source": Source(format="parquet", path=str(SOURCE))})

    def write_table() -> None:
        shutil.rmtree(TABLE, ignore_errors=True)
        result = write(spark, request)
        if result.metrics["numOutputRows"] != ROWS:
            raise SystemExit(f"Wrote {result.metrics['numOutputRows']} rows instead of {ROWS}.")

    def write_parquet() -> None:
        spark.read.parquet(str(SOURCE)).write.mode("overwrite").parquet(str(PARQUET))

    pair = TimedPair(name=f"write of {ROWS:,} rows", peer="df.write.parquet", target=1.05)
    pair.run(write_table, write_parquet, rounds=ROUNDS)
    print_table([pair])
    spark.stop()


if __name__ == "__main__":
    main()
