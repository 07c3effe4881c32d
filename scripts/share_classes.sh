#!/usr/bin/env bash
# Writes .venv/spark-classes.jsa, an archive of the parsed and verified classes that a small Spark job loads. The tests start
# many JVMs that run for seconds. With the archive, such a JVM needs less than half of the CPU time. The archive is valid only
# for its Java and for the jars from which it was made. Otherwise a JVM loads the classes from the jars.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly ARCHIVE="$PWD/.venv/spark-classes.jsa"
stamp="$(java -version 2>&1 | cksum) $(cksum <.venv/lib/python3*/site-packages/pyspark/version.py)"
if [[ -s "$ARCHIVE" && "$(cat "$ARCHIVE.of" 2>/dev/null)" == "$stamp" ]]; then exit 0; fi

scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
cat >"$scratch/job.py" <<'PYTHON'
import sys
from pyspark.sql import SparkSession, functions as F

spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
folder = sys.argv[1]
rows = spark.range(1000).select("id", (F.col("id") % 3).alias("k"), F.col("id").cast("string").alias("s"))
rows.write.partitionBy("k").parquet(f"{folder}/parquet")
rows.write.json(f"{folder}/json")
rows.write.option("header", True).csv(f"{folder}/csv")
read = spark.read.parquet(f"{folder}/parquet")
joined = read.where("k = 1").join(spark.read.json(f"{folder}/json"), "id").groupBy("s").count()
assert joined.sort("s").collect()
assert spark.read.option("header", True).csv(f"{folder}/csv").distinct().count() == 1000
spark.stop()
PYTHON
rm -f "$ARCHIVE"
SPARK_SUBMIT_OPTS="-XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit=$ARCHIVE" SPARK_LOCAL_IP=127.0.0.1 PATH="$PWD/.venv/bin:$PATH" \
    spark-submit --master 'local[2]' --conf spark.sql.shuffle.partitions=2 \
    --conf "spark.sql.warehouse.dir=$scratch/warehouse" "$scratch/job.py" "$scratch" >"$scratch/log" 2>&1 ||
    true # a JVM that writes an archive ends with exit code 1
if [[ -s "$ARCHIVE" ]]; then
    echo "$stamp" >"$ARCHIVE.of"
else
    echo "This Java wrote no archive of Spark's classes, so the tests take longer." >&2
fi
