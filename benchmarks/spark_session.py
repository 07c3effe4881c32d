"""The Spark session of all benchmarks: a local one with two cores, and otherwise as in a job."""

from __future__ import annotations

from pyspark.sql import SparkSession

from deltalite.spark.runtime.java_classes import remember_classes


def session(settings: dict[str, str] | None = None) -> SparkSession:
    """Return a new session with additional settings of Spark."""
    builder: SparkSession.Builder = SparkSession.builder
    builder = (
        builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "4g")
        .config("spark.log.level", "ERROR")
        .config("spark.python.sql.dataFrameDebugging.enabled", "false")
    )
    for name, value in (settings or {}).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    remember_classes(spark)
    return spark
