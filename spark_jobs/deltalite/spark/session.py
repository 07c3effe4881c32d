"""The Spark session of a job, and settings that hold for one step only.

A job's session is the user's Spark as `spark-submit` configured it; nothing of it is overridden here but what the file
format demands, and that only while it is needed, because in a notebook the session belongs to somebody else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf, SparkFiles
from pyspark.sql import SparkSession


def open_session(app_name: str) -> SparkSession:
    """The session of a job, with its clock in UTC unless the user said otherwise.

    `app_name` is for a Spark that was not started by `spark-submit`, which always has a name.
    """
    builder: SparkSession.Builder = SparkSession.builder
    if not SparkConf().contains("spark.app.name"):
        builder = builder.appName(app_name)
    session = builder.getOrCreate()
    if not session.sparkContext.getConf().contains("spark.sql.session.timeZone"):
        session.conf.set("spark.sql.session.timeZone", "UTC")
    return session


def shipped_file(name: str) -> Path:
    """Where Spark put a file that `spark-submit --files` sent along with the job."""
    return Path(SparkFiles.get(name))


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Set SQL settings for the time of a block, and put back what was there."""
    before = {key: spark.conf.get(key, None) for key in values}
    try:
        for key, value in values.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, previous in before.items():
            if previous is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, previous)
