"""Chooses Java options with which the drivers on this worker need less time for small jobs.

HotSpot, the JVM of OpenJDK, compiles a method quickly with its compiler C1. If the method runs often, the slower
compiler C2 compiles it again. The JVM of a small job ends before this second compilation is worth its time, and on few
cores C2 delays the threads of the job. `_LATE_C2` lets a method run twenty times as often before C2 compiles it. The
methods that handle the rows of a large job reach this number within a second, so C2 compiles them all the same.

Each driver gets `-XX:+IgnoreUnrecognizedVMOptions` from Spark, so a JVM without these options starts too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from airflow_provider_deltalite.hooks._class_archive import archive_options
from airflow_provider_deltalite.preflight import Launch
from deltalite.installation.class_archive import JVM_OPTIONS_VARIABLE

# The thresholds are twenty times HotSpot's defaults. With `Tier3DelayOn=0`, C1 adds no profiling code to a method
# while other methods wait for C2.
_LATE_C2 = (
    "-XX:Tier4InvocationThreshold=100000 -XX:Tier4MinInvocationThreshold=12000 -XX:Tier4CompileThreshold=300000"
    " -XX:Tier4BackEdgeThreshold=800000 -XX:Tier3DelayOn=0"
)
_COMPILER_OPTION = re.compile(r"(?<!\S)(-Xint\b|-Xcomp\b|-XX:[+-]?(Tier|CompileThreshold|CompilationMode))")
# Variables and settings in which the user may give options to Java.
_OPTION_VARIABLES = (JVM_OPTIONS_VARIABLE, "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")
_OPTION_SETTINGS = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")


def options_of_driver(launch: Launch, conf: Mapping[str, object]) -> str | None:
    """Return the value of SPARK_SUBMIT_OPTS for a driver on this worker; None if the driver runs in a cluster.

    If `conf` or a variable of Java has an option for the compilers (`_COMPILER_OPTION`), the result has no option for
    C2. If one has an option for a class archive, the result has no archive. The user's options come last, so that they
    take precedence. Spark adds the options of a properties file later.
    """
    if launch.in_cluster:
        return None
    user_options = " ".join(
        [launch.environ.get(variable, "") for variable in _OPTION_VARIABLES]
        + [str(conf.get(setting, "")) for setting in _OPTION_SETTINGS]
    )
    options = [
        None if _COMPILER_OPTION.search(user_options) else _LATE_C2,
        archive_options(launch, user_options),
        launch.environ.get(JVM_OPTIONS_VARIABLE),
    ]
    return " ".join(filter(None, options))
