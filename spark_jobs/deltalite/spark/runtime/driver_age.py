"""The age of the driver's JVM, which `spark-submit` starts before the Python process of a job."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from deltalite.spark.runtime.java_classes import java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)


def driver_age_s(spark: SparkSession, *, job_start_ms: int) -> float | None:
    """Return the seconds since the start of the driver's JVM; None if they are unknown.

    `job_start_ms` is the start of the job's Python code in milliseconds since 1970. If the Spark context is older, the
    JVM runs several jobs, as in a service. Its age then says nothing about this job.
    """
    if spark.sparkContext.startTime < job_start_ms:
        return None
    try:
        management = java_class(spark._jvm, "java.lang.management.ManagementFactory")
        return int(management.getRuntimeMXBean().getUptime()) / 1000
    except (Py4JError, AttributeError) as error:
        _log.debug("Could not read the age of the driver: %s", error)
        return None
