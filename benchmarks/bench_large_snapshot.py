"""A snapshot of 10,000,000 files by Spark in a driver of 2 GB, compared with a snapshot of a tenth of the files.

Spark replays the log: a multi-part checkpoint, and ten commits after it. Each commit adds and removes files. The result
is the number of files and the sum of their sizes. The time should grow no faster than the number of files. The logs are
synthetic and stay in `.benchmarks/` (1.5 GB). To measure another number of files, give it on the command line.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path, PurePath

import pyarrow.parquet as pq
from measuring import TimedPair, print_table
from pyspark.sql import SparkSession
from spark_session import session
from synthetic_log import ADDED_BY_COMMIT, COMMITS, checkpoint_of, write_commits

import deltalite.spark as delta
from deltalite.protocol.file_names import part_name

FILES = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
GROWTH = 10
FILES_PER_PART = 100_000
ROUNDS = 3


def log_of(files: int) -> Path:
    """Return the folder of the log of the table with this number of files."""
    return Path(".benchmarks").resolve() / f"large-snapshot-{files}" / "_delta_log"


def write_log(files: int) -> None:
    """Write the log unless it exists: the checkpoint of version 0, and then the commits."""
    log = log_of(files)
    if (log / f"{COMMITS:020d}.json").exists():
        return
    log.mkdir(parents=True, exist_ok=True)
    part_count = math.ceil(files / FILES_PER_PART)
    for part in range(part_count):
        numbers = range(part * FILES_PER_PART, min((part + 1) * FILES_PER_PART, files))
        rows = checkpoint_of(numbers, with_first_actions=part == 0)
        pq.write_table(rows, log / PurePath(part_name(0, part + 1, part_count)).name)
    (log / "_last_checkpoint").write_text(json.dumps({"version": 0, "size": files + 2, "parts": part_count}))
    write_commits(log, files)


def replay(spark: SparkSession, files: int) -> None:
    """Replay the log with Spark, and exit if the number of files is wrong."""
    rows = delta.files(spark, str(log_of(files).parent))
    count, size = rows.selectExpr("count(*)", "sum(size)").collect()[0]
    expected = files + COMMITS * (ADDED_BY_COMMIT - 1)
    if count != expected or not size:
        raise SystemExit(f"Spark replays {count:,} files of {size or 0:,} bytes instead of {expected:,} files.")


def main() -> None:
    """Make the logs unless they exist, measure both snapshots, and print a table."""
    few = FILES // GROWTH
    for files in (few, FILES):
        write_log(files)
    spark = session({"spark.driver.memory": "2g"})
    pair = TimedPair(name=f"snapshot of {FILES:,} files", peer=f"of {few:,} files", target=float(GROWTH))
    pair.run(lambda: replay(spark, FILES), lambda: replay(spark, few), rounds=ROUNDS)
    print_table([pair])
    spark.stop()


if __name__ == "__main__":
    main()
