"""Java classes by their names, which py4j looks up once.

py4j resolves `jvm.org.apache.hadoop.fs.Path` part by part, and each part is a request to the JVM. For a part that names
a package, the class loader searches all jars of Spark, which takes a millisecond. The complete name is one request
without a search. PySpark itself asks for a few classes hundreds of times in a job. Each request for a short name costs
such a search.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaClass

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_USED_BY_PYSPARK = (
    "PythonRDD",
    "PythonSQLUtils",
    "PythonUtils",
    "SerDeUtil",
    "SimplePythonFunction",
    "functions",
    "org.apache.spark.sql.classic.SparkSession",
    "org.apache.spark.sql.functions",
)


def java_class(jvm: Any, name: str) -> Any:
    """Return a Java class by its complete name, or by a short name that PySpark has imported.

    Raises:
        AttributeError: this Spark has no such class.
        Py4JError: the JVM does not answer.
    """
    java = getattr(jvm, name)
    if not isinstance(java, JavaClass):  # py4j returns a package for a name that is not a class
        raise AttributeError(f"This Spark has no Java class {name}")  # noqa: TRY004  as for any name that an object lacks
    setattr(jvm, name, java)  # py4j asks the JVM only for names that are not attributes
    return java


def remember_classes(spark: SparkSession) -> None:
    """Look up the classes that PySpark uses most, so that it does not search for them again."""
    for name in _USED_BY_PYSPARK:
        with suppress(AttributeError):
            java_class(spark._jvm, name)
