"""Scala's reflection, which the JVM initializes while it starts Spark.

The first session of a JVM needs Scala's reflection, and waits for its initialization about as long as for the start of
the SparkContext. The initialization uses no class of Spark, so another thread can do it in the meantime.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext

from deltalite.spark.runtime.java_classes import java_class


def initialize_scala_reflection() -> threading.Thread:
    """Start the initialization in another thread, and return this thread. PySpark must have started its JVM.

    If it fails, the first session does the initialization.
    """
    thread = threading.Thread(target=_initialize, args=(SparkContext._jvm,), name="scala-reflection", daemon=True)
    thread.start()
    return thread


def _initialize(jvm: Any) -> None:
    with suppress(AttributeError, Py4JError, OSError):
        java_class(jvm, "scala.reflect.runtime.package").universe()
