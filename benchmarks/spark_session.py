"""The Spark session of all benchmarks: a local one with two cores."""

from __future__ import annotations

from pyspark.sql import SparkSession


def session(settings: dict[str, str] | None = None) -> SparkSession:
    """Return a new session with additional settings of Spark."""
    builder: SparkSession.Builder = SparkSession.builder
    builder = (
        builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "4g")
        .config("spark.log.level", "ERROR")
    )
    for name, value in (settings or {}).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
