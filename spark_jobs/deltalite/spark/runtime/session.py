"""The Spark session of a job, and settings that hold for one step only.

The session has the user's configuration from `spark-submit`. Apart from the three settings of `open_session`, this
library overrides settings for one step only, and restores them after the step. A notebook, for example, shares its
session with other code.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext, SparkFiles
from pyspark.sql import SparkSession

from deltalite.redaction import SECRET_NAMES
from deltalite.spark.runtime.java_classes import remember_classes
from deltalite.spark.runtime.scala_reflection import initialize_scala_reflection

STRICT_READ = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}
"""Options with which a read leaves out no file and no part of a file, even if the session's settings allow it."""
_CALL_SITE_SETTING = "spark.python.sql.dataFrameDebugging.enabled"
_REDACTION = "spark.redaction.regex"
_TIME_ZONE = "spark.sql.session.timeZone"


def open_session(app_name: str) -> SparkSession:
    """Open the session of a job. Its time zone is UTC unless the user has set one.

    The Spark UI and the event log hide the settings that this library treats as secrets, unless the user has set
    `spark.redaction.regex`. Spark's own pattern does not cover account keys of Azure.

    For each operation on a column, PySpark can send the line of Python code to the JVM, so that errors show this line.
    This costs ten requests, and the lines of this library mean nothing to users. So the session sends none, unless the
    user has set `spark.python.sql.dataFrameDebugging.enabled`.

    `app_name` is used only without `spark-submit`, which always sets a name.
    """
    builder: SparkSession.Builder = SparkSession.builder
    SparkContext._ensure_initialized()  # `SparkConf` reads the settings of `spark-submit` from the JVM, if it runs
    initialize_scala_reflection()
    submitted_conf = SparkConf()
    if not submitted_conf.contains("spark.app.name"):
        builder = builder.appName(app_name)
    if not submitted_conf.contains(_REDACTION):
        builder = builder.config(_REDACTION, SECRET_NAMES)
    if not submitted_conf.contains(_CALL_SITE_SETTING):
        builder = builder.config(_CALL_SITE_SETTING, "false")
    session = builder.getOrCreate()
    if not session.sparkContext.getConf().contains(_TIME_ZONE):
        session.conf.set(_TIME_ZONE, "UTC")
    remember_classes(session)
    return session


def stop_session(spark: SparkSession) -> None:
    """Stop Spark at the end of a job. Call this only if the process ends afterwards.

    `SparkSession.stop` waits up to half a second until PySpark's server of accumulators sees that it has to end. The
    server is a daemon thread, so a process that ends need not wait. A server with a Unix socket also removes the
    socket's file. So `stop` waits for such a server.
    """
    context: Any = spark.sparkContext
    server: Any = getattr(context, "_accumulatorServer", None)
    if isinstance(getattr(server, "server_address", None), tuple):
        context._accumulatorServer = None
        threading.Thread(target=server.shutdown, daemon=True).start()
    spark.stop()


def isolated_session(spark: SparkSession) -> SparkSession:
    """Return a session of the same application with separate SQL settings and views, for one of several threads.

    A step of this library sets SQL settings and restores them (`settings`). Two threads with one session would restore
    the settings of each other.
    """
    session = spark.newSession()
    session.conf.set(_TIME_ZONE, str(spark.conf.get(_TIME_ZONE)))
    return session


def shipped_file(name: str) -> Path:
    """Return the local path of a file that `spark-submit --files` shipped with the job."""
    return Path(SparkFiles.get(name))


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Set SQL settings for a block, and restore the old values afterwards."""
    old_values = {key: spark.conf.get(key, None) for key in values}
    try:
        for key, value in values.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, old_value in old_values.items():
            if old_value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old_value)
