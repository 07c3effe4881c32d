"""Data files that Spark writes in their final place, for storages on which a rename is a copy.

Spark's committers move each file at least once. The file sink of structured streaming moves no file: its tasks write
under unique names, and the driver lists the files of successful tasks in a manifest. This module calls the sink with a
single batch. The caller reads and removes the manifest.

Like `native_relation` this module uses Spark's internals. If they have changed, it raises `DirectWriteError`. The
caller then uses the public writer, which also copies each file. Tested with PySpark 4.3, classic sessions; PySpark 4.0
has the class in another package.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import DataFrame

from deltalite.spark.runtime.java_classes import java_class

MANIFEST_DIR = "_spark_metadata"
MANIFEST = f"{MANIFEST_DIR}/0"
_BATCH_ID = 0
_ADD_ACTION = "add"


class DirectWriteError(Exception):
    """This Spark does not have the sink in the expected form, or the sink left another manifest than expected."""


def write_directly(frame: DataFrame, uri: str, *, partition_columns: Sequence[str], options: Mapping[str, str]) -> None:
    """Write the rows as Parquet files below `uri`, a new directory, which also gets the manifest.

    Spark's errors for the rows are raised unchanged.

    Raises:
        DirectWriteError: this Spark has no such sink, and nothing was written. Use the public writer.
    """
    spark = frame.sparkSession
    jvm: Any = spark._jvm
    java_frame: Any = frame._jdf
    try:
        parquet = java_class(jvm, "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat")()
        utils = java_class(jvm, "PythonUtils")
        columns, settings = utils.toSeq(list(partition_columns)), utils.toScalaMap(dict(options))
        sink = _sink_class(jvm)(spark._jsparkSession, uri, parquet, columns, settings)
        sink.addBatch(_BATCH_ID, java_frame)
    except Py4JJavaError:
        raise
    except (Py4JError, AttributeError, TypeError) as error:
        raise DirectWriteError(str(error)) from error


def manifest_uris(data: bytes) -> list[str]:
    """Return the files of a manifest as percent-encoded URIs.

    Raises:
        DirectWriteError: the manifest has another version than `v1`.
    """
    version, *lines = data.decode().splitlines()
    if version != "v1":
        raise DirectWriteError(f"The manifest of Spark's sink has the version {version!r}")
    entries = [json.loads(line) for line in lines]
    return [entry["path"] for entry in entries if entry["action"] == _ADD_ACTION and not entry["isDir"]]


def _sink_class(jvm: Any) -> Any:
    streaming = "org.apache.spark.sql.execution.streaming"
    try:
        return java_class(jvm, f"{streaming}.sinks.FileStreamSink")
    except AttributeError:  # before Spark 4.1
        return java_class(jvm, f"{streaming}.FileStreamSink")
