"""A PySpark job of a user: Spark replays the log of a table, and writes a checkpoint of it.

Usage: replay_job.py TABLE ANSWER_FILE. The answer is a JSON object with the paths of the table's files, as in the log,
and the number of files of the checkpoint.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

import deltalite.spark as delta
from deltalite.snapshot import Snapshot
from deltalite.spark.hadoop.opening import writable_store
from deltalite.spark.large_tables.large_checkpoint import write_large_checkpoint

if __name__ == "__main__":
    table, answer_file = sys.argv[1:]
    spark = SparkSession.builder.getOrCreate()
    paths = [row.path for row in delta.files(spark, table).select("path").collect()]
    # A job writes such a checkpoint for a table with more than a million files.
    snapshot = Snapshot.load(writable_store(spark, table, single_writer=False))
    checkpoint = write_large_checkpoint(spark, snapshot, now_ms=round(time.time() * 1000), actions_per_file=100)
    answer = {"paths": paths, "checkpoint_parts": None if checkpoint is None else checkpoint.parts}
    Path(answer_file).write_text(json.dumps(answer))
    spark.stop()
