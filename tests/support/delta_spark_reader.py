"""Reads tables with delta-spark, the reference implementation; the interpreter of `.venv-reference` runs this file.

The first argument names a JSON file with the `jars` of the session, and `tables` as `[address, oldest version, newest
version]`. The second argument names the file for the answers: rows by version, history, changed rows. delta-spark also
generates the symlink manifests of a table that has no deletion vectors.
"""

import json
import sys

from pyspark.sql import SparkSession

SETTINGS = {
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
}


def sorted_rows(frame):
    return sorted(([*row] for row in frame.collect()), key=repr)


def answer(spark, table, oldest, newest):
    def read(**options):
        return spark.read.format("delta").options(**options).load(table)

    changes = read(readChangeFeed="true", startingVersion=oldest + 1)
    properties = spark.sql(f"DESCRIBE DETAIL delta.`{table}`").first()["properties"]
    if properties.get("delta.enableDeletionVectors") != "true":
        spark.sql(f"GENERATE symlink_format_manifest FOR TABLE delta.`{table}`")
    history = spark.sql(f"DESCRIBE HISTORY delta.`{table}`").select("version", "operation")
    return {
        "rows": sorted_rows(read()),
        "versions": {str(version): sorted_rows(read(versionAsOf=version)) for version in range(oldest, newest + 1)},
        "history": sorted_rows(history),
        "changes": sorted_rows(changes.drop("_commit_timestamp")),
    }


def main(requests_file, answers_file):
    with open(requests_file, encoding="utf-8") as file:
        request = json.load(file)
    builder = SparkSession.builder.master("local[1]").config("spark.jars", ",".join(request["jars"]))
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    answers = {}
    for table, oldest, newest in request["tables"]:
        try:
            answers[table] = answer(spark, table, oldest, newest)
        except Exception as error:  # noqa: BLE001  the test shows it, and the other tables are read all the same
            answers[table] = {"error": str(error)[:2000]}
    with open(answers_file, "w", encoding="utf-8") as file:
        json.dump(answers, file)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
