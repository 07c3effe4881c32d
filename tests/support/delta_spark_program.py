"""Runs SQL statements in delta-spark, the reference implementation.

The interpreter of `.venv-reference` runs this file. The arguments are the jars of the session. Each line of the input
is a statement as a JSON text. The program prints one line for each statement: `{"rows": [...]}` or `{"error": "..."}`.
"""

import json
import os
import sys

from pyspark.sql import SparkSession

SETTINGS = {
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    # If a row group has only 0.0, Spark's filter on Parquet files skips it for -0.0, although the two are equal in SQL.
    "spark.sql.parquet.filterPushdown": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
}
_MAX_MESSAGE_LENGTH = 4000


def answer(spark, statement):
    try:
        return {"rows": [[*row] for row in spark.sql(statement).collect()]}
    except Exception as error:  # noqa: BLE001  the caller decides what an error means
        return {"error": str(error)[:_MAX_MESSAGE_LENGTH]}


def main(jars):
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    # From here, Spark's output goes to the standard error, so that it does not mix with the answers.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    builder = SparkSession.builder.master("local[1]").config("spark.jars", ",".join(jars))
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    for line in sys.stdin:
        print(json.dumps(answer(spark, json.loads(line)), default=str), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
