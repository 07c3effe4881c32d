"""The number of files that Spark scans for a frame, so that a reader notices files that Spark leaves out.

`DataFrame.inputFiles()` does not show this number: it also lists the files that Spark drops because they lie in no
partition folder. The file index of the relation returns the files of the scan, and runs no job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deltalite.spark.expressions.catalyst import query_execution
from deltalite.spark.runtime.java_classes import java_class

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def count_scanned_files(spark: SparkSession, frame: DataFrame) -> int:
    """Return the number of files that Spark reads for the frame if no filter skips a file.

    Empty files do not count.
    """
    nil = getattr(java_class(spark._jvm, "scala.collection.immutable.Nil$"), "MODULE$")
    leaves = query_execution(frame).analyzed().collectLeaves()
    count = 0
    for number in range(leaves.size()):
        directories = _file_index(leaves.apply(number)).listFiles(nil, nil)
        count += sum(directories.apply(position).files().size() for position in range(directories.size()))
    return count


def _file_index(leaf: Any) -> Any:
    """Return the file index of a relation of Spark's data source API V1 or V2."""
    is_version_2 = leaf.getClass().getSimpleName().startswith("DataSourceV2")
    return leaf.table().fileIndex() if is_version_2 else leaf.relation().location()
