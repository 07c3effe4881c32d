"""Makes the errors of Spark quicker in a session of many tests.

PySpark compares each error of the JVM with up to fourteen classes. For each comparison py4j looks up the function
`py4j.reflection.TypeUtil.isInstanceOf`, and for the part `py4j` the class loader searches all jars of Spark. A job has
few such errors. The tests have thousands, so `make_errors_quicker` keeps the class of the function after one look-up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def make_errors_quicker(spark: SparkSession) -> None:
    """Look up `py4j.reflection.TypeUtil`, so that PySpark does not search for it again."""
    jvm: Any = spark._jvm
    package, reflection = jvm.py4j, jvm.py4j.reflection
    reflection.TypeUtil = reflection.TypeUtil
    package.reflection = reflection
    jvm.py4j = package
