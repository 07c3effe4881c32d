"""Run suites and save their results: `python -m benchmarks.suites --scale 1 merge load`.

The program needs the Spark that delta-spark supports, so the folder with this Spark comes first on the path of Python.
`make bench-suites` sets this path.
"""

from __future__ import annotations

import argparse
import os
import re
import time
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.machine import machine
from benchmarks.spark_session import session
from benchmarks.suites import load, many_files, merge, micro_merges, refresh, results
from benchmarks.suites.engines import DeltaLite, DeltaRs, DeltaSpark
from benchmarks.suites.suite import Bench

SUITES = {
    "merge": merge.run,
    "load": load.run,
    "refresh": refresh.run,
    "many_files": many_files.run,
    "micro_merges": micro_merges.run,
}
CACHE = Path(".benchmarks").resolve() / "suites"
JARS = sorted(Path(".venv-reference/jars").resolve().glob("*.jar"))


def spark_with_delta() -> SparkSession:
    """Return a session with delta-spark. This library does not use delta-spark's classes."""
    if not JARS:
        raise SystemExit("The jars of delta-spark are missing. Run `make reference`, which needs Maven.")
    return session(
        {
            "spark.jars": ",".join(map(str, JARS)),
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            # Few tasks suit a machine with few cores. The default of delta-spark for its snapshots is 50.
            "spark.sql.shuffle.partitions": "4",
            "spark.databricks.delta.snapshotPartitions": "4",
        }
    )


def delta_spark_version() -> str:
    """Return the version in the name of delta-spark's jar."""
    return next(match[1] for jar in JARS if (match := re.match(r"delta-spark.*-([\d.]+)\.jar$", jar.name)))


def main() -> None:
    """Run the suites that the command line names, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="suite", help=f"one of {', '.join(SUITES)} (default: all)")
    parser.add_argument("--scale", type=float, default=1.0, help="scale factor of TPC-DS (default: 1)")
    parser.add_argument("--rounds", type=int, default=3, help="timed rounds of each case (default: 3)")
    arguments = parser.parse_args()
    if unknown := set(arguments.suites) - set(SUITES):
        parser.error(f"unknown suite {', '.join(sorted(unknown))}; the suites are {', '.join(SUITES)}")
    CACHE.mkdir(parents=True, exist_ok=True)
    load_average = round(os.getloadavg()[0], 1)
    spark = spark_with_delta()
    java_version = spark._jvm.java.lang.System.getProperty("java.version")  # noqa: SLF001
    for name in arguments.suites or SUITES:
        bench = Bench(
            folder=CACHE,
            scale=arguments.scale,
            rounds=arguments.rounds,
            engines=(DeltaLite(spark), DeltaSpark(spark), DeltaRs()),
        )
        bench.clear_work()
        started = time.monotonic()
        SUITES[name](bench)
        bench.clear_work()
        results.save(
            results.Result(
                suite=name,
                date=results.today(),
                scale=arguments.scale,
                rounds=arguments.rounds,
                minutes=round((time.monotonic() - started) / 60, 1),
                load_average=load_average,
                machine=machine(),
                versions=results.versions(spark.version, java_version, delta_spark_version()),
                cases=bench.cases,
            )
        )
    spark.stop()


if __name__ == "__main__":
    main()
