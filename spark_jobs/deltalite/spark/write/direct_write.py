"""Data files that Spark writes in their final place, for storages on which a rename is a copy.

Spark's usual committers move each file at least once. The committer of structured streaming moves no file: its tasks
write under unique names, and the driver lists the files of successful tasks in a manifest. This module writes a frame
with the streaming committer. The manifest lies in a temporary folder on the driver's disk, because a manifest on an
object store costs about forty requests.

Like `native_relation`, this module uses Spark's internals. If they have changed, it raises `DirectWriteError`. The
caller then uses the public writer, which copies each file. Tested with PySpark 4.3, classic sessions; PySpark 4.0 has
the manifest's class in another package.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import DataFrame

from deltalite.spark.hadoop.uris import spark_uri
from deltalite.spark.runtime.java_classes import java_class

_EXECUTION = "org.apache.spark.sql.execution"
_MANIFEST_VERSION = 1
_BATCH_ID = 0
# Users set these for streams on other storages. The class may reject a local folder. The interval may change the name
# of the manifest.
_STREAM_SETTINGS = (
    "spark.sql.streaming.checkpointFileManagerClass",
    "spark.sql.streaming.fileSink.log.compactInterval",
)
_ADD_ACTION = "add"


class DirectWriteError(Exception):
    """This Spark does not have the committer in the expected form, or the manifest is not as expected."""


def write_directly(
    frame: DataFrame, uri: str, *, partition_columns: Sequence[str], options: Mapping[str, str]
) -> list[str]:
    """Write the rows as Parquet files below `uri`, a new directory. Return the files as percent-encoded URIs.

    The directory may also contain files of failed tasks. Spark's errors for the rows are raised unchanged.

    Raises:
        DirectWriteError: this Spark does not have the expected committer, or its manifest is not as expected. Files may
            have been written. Use the public writer.
    """
    with tempfile.TemporaryDirectory(prefix="deltalite-") as folder:
        manifest = Path(folder, "manifest")
        _write(frame, uri, spark_uri(str(manifest)), partition_columns, options)
        try:
            data = (manifest / str(_BATCH_ID)).read_bytes()
        except FileNotFoundError as error:
            raise DirectWriteError("Spark's committer left no manifest") from error
    return _uris(data)


def _write(
    frame: DataFrame, uri: str, manifest_uri: str, partition_columns: Sequence[str], options: Mapping[str, str]
) -> None:
    spark = frame.sparkSession
    jvm: Any = spark._jvm
    java_session: Any = spark._jsparkSession
    try:
        utils = java_class(jvm, "PythonUtils")
        execution: Any = frame._jdf.queryExecution()
        columns = execution.analyzed().output()
        by_name = {column.name(): column for column in map(columns.apply, range(columns.length()))}
        committer = java_class(jvm, f"{_EXECUTION}.streaming.ManifestFileCommitProtocol")(str(_BATCH_ID), uri)
        committer.setupManifestOptions(_manifest_log(jvm, java_session, manifest_uri), _BATCH_ID)
        writer = java_class(jvm, f"{_EXECUTION}.datasources.FileFormatWriter")
        no_bucket_spec = jvm.scala.Option.empty()
        no_statistics = utils.toSeq([])  # Spark's statistics take a request for each file
        arguments = (
            java_session,
            execution.executedPlan(),
            java_class(jvm, f"{_EXECUTION}.datasources.parquet.ParquetFileFormat")(),
            committer,
            java_class(jvm, f"{_EXECUTION}.datasources.FileFormatWriter$OutputSpec")(
                uri, utils.toScalaMap({}), columns
            ),
            java_session.sessionState().newHadoopConf(),
            utils.toSeq([by_name[name] for name in partition_columns]),
            no_bucket_spec,
            no_statistics,
            utils.toScalaMap(dict(options)),
        )
        # The last two parameters have default values. A call from Scala adds them; a call from Java must pass them.
        defaults = [getattr(writer, f"write$default${position}")() for position in (11, 12)]
        writer.write(*arguments, *defaults)
    except Py4JJavaError:
        raise
    except (Py4JError, AttributeError, TypeError, KeyError) as error:
        raise DirectWriteError(str(error)) from error


def _manifest_log(jvm: Any, java_session: Any, uri: str) -> Any:
    """Return the Java object that writes the manifest. It creates a folder with this URI."""
    streaming = f"{_EXECUTION}.streaming"
    try:
        log_class = java_class(jvm, f"{streaming}.sinks.FileStreamSinkLog")
    except AttributeError:  # before Spark 4.1
        log_class = java_class(jvm, f"{streaming}.FileStreamSinkLog")
    session = java_session.newSession()
    for setting in _STREAM_SETTINGS:
        session.conf().unset(setting)
    return log_class(_MANIFEST_VERSION, session, uri, jvm.scala.Option.empty())


def _uris(data: bytes) -> list[str]:
    """Return the files of a manifest as percent-encoded URIs.

    Raises:
        DirectWriteError: the manifest is malformed, or has another version than `v1`.
    """
    try:
        version, *lines = data.decode().splitlines()
        if version != f"v{_MANIFEST_VERSION}":
            raise DirectWriteError(f"The manifest of Spark's committer has the version {version!r}")
        entries = [json.loads(line) for line in lines]
        return [entry["path"] for entry in entries if entry["action"] == _ADD_ACTION and not entry["isDir"]]
    except (ValueError, LookupError, TypeError) as error:
        raise DirectWriteError(f"The manifest of Spark's committer is malformed: {error!r}") from error
