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

from deltalite.redaction import SECRET_NAMES

_REDACTION = "spark.redaction.regex"


def open_session(app_name: str) -> SparkSession:
    """The session of a job, with its clock in UTC unless the user said otherwise.

    Its UI and event log hide the settings that this library takes for secrets, unless the user has set
    `spark.redaction.regex`; Spark's own pattern leaves out account keys of Azure.

    `app_name` is for a Spark that was not started by `spark-submit`, which always has a name.
    """
    builder: SparkSession.Builder = SparkSession.builder
    given = SparkConf()
    if not given.contains("spark.app.name"):
        builder = builder.appName(app_name)
    if not given.contains(_REDACTION):
        builder = builder.config(_REDACTION, SECRET_NAMES)
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
