"""A native Spark relation over an explicit list of files. This module uses private classes of Spark.

The log knows every file, so Spark must not list the table. A `HadoopFsRelation` over an `InMemoryFileIndex` gets its
leaf files through the `FileStatusCache`, and its partitions as a `PartitionSpec` with the values from the log. Column
pruning, filter push-down, partition pruning and `_metadata` then work as for any Parquet table. The relation keeps a
clone of the session with the settings that must hold when the rows are read.

If a private class has changed, or the cache dropped the files, the module raises `NativeRelationError`. The caller then
uses the public API, which is slower and returns the same rows. Tested with PySpark 4.0 to 4.3, classic sessions.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from deltalite.spark.runtime.java_classes import java_class
from deltalite.spark.runtime.session import STRICT_READ

_DATA_SOURCES = "org.apache.spark.sql.execution.datasources"
_HADOOP_PATH = "org.apache.hadoop.fs.Path"
_FILE_MODE = 0o644


class NativeRelationError(Exception):
    """This Spark does not have the private classes in the expected form, or it dropped the list of files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedFile:
    """A data file that the log names. `uri` has a scheme and no percent-encoding: `file:/lake/a b.parquet`."""

    uri: str
    size_bytes: int
    modified_ms: int

    @property
    def is_hidden(self) -> bool:
        """Whether Spark's index ignores files with this name."""
        return self.uri.rpartition("/")[2].startswith(("_", "."))

    @property
    def spark_path(self) -> str:
        """The path for Spark. With a `/.` at the end, a hidden file has an empty name and can still be opened."""
        return f"{self.uri}/." if self.is_hidden else self.uri

    @property
    def directory_uri(self) -> str:
        """The directory of the file in Spark's index; for a hidden file its own path."""
        return self.uri if self.is_hidden else self.uri.rpartition("/")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPartition:
    """A directory (see `ListedFile.directory_uri`), and the partition values of its files as the text of the log."""

    directory_uri: str
    values: Sequence[str | None]


def native_relation(
    spark: SparkSession,
    *,
    root_uri: str,
    files: Sequence[ListedFile],
    data_schema: spark_types.StructType,
    partitions: Sequence[ListedPartition] = (),
    partition_values: DataFrame | None = None,
    settings: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return a DataFrame over exactly `files`, with the data columns followed by the partition columns.

    `partition_values` has a row of typed values for each of `partitions`, in the same order; None without partition
    columns. `settings` are the SQL settings for reading the files.

    Raises:
        NativeRelationError: this Spark cannot make the relation. Use the public API instead.
    """
    try:
        return _relation(spark, root_uri, files, data_schema, partitions, partition_values, settings or {})
    except (Py4JError, PySparkException, AttributeError, TypeError) as error:
        raise NativeRelationError(str(error)) from error


def input_files(frame: DataFrame) -> list[str]:
    """Return `DataFrame.inputFiles` in one call to the JVM: each file in the spelling of `_metadata.file_path`."""
    java_frame: Any = frame._jdf
    try:
        # "Array(a, b)": blanks are escaped in these paths, so no path contains the separator ", ".
        text: str = java_class(frame.sparkSession._jvm, "scala.runtime.ScalaRunTime").stringOf(java_frame.inputFiles())
    except (Py4JError, PySparkException, AttributeError, TypeError):
        return frame.inputFiles()
    return text.removeprefix("Array(").removesuffix(")").split(", ")


def _relation(
    spark: SparkSession,
    root_uri: str,
    files: Sequence[ListedFile],
    data_schema: spark_types.StructType,
    partitions: Sequence[ListedPartition],
    partition_values: DataFrame | None,
    settings: Mapping[str, str],
) -> DataFrame:
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    none = getattr(java_class(jvm, "scala.None$"), "MODULE$")
    some, sequence_of = java_class(jvm, "scala.Some"), java_class(jvm, "PythonUtils").toSeq
    partition_schema = spark_types.StructType() if partition_values is None else partition_values.schema
    # Without partitions this option makes the index accept files of any directory and ignore the directory's name.
    lookup_options = {} if partition_values is not None else {"recursiveFileLookup": "true"}
    options = java_class(jvm, "PythonUtils").toScalaMap(STRICT_READ | lookup_options)
    # Spark treats two file indexes with the same root as equal. In a join, or from its cache, Spark would then read one
    # version of a table instead of another. So the root has a digest of the file list. The directory need not exist.
    root = java_class(jvm, _HADOOP_PATH)(f"{root_uri}/_deltalite_scan-{_digest(files, partitions)}")
    full_schema = spark_types.StructType([*data_schema.fields, *partition_schema.fields])
    java_data_schema, java_partition_schema, java_full_schema = (
        session.parseDataType(schema.json()) for schema in (data_schema, partition_schema, full_schema)
    )
    spec = none
    if partition_values is not None:
        spec = some(_partition_spec(jvm, java_partition_schema, partition_values, partitions))

    cache = java_class(jvm, f"{_DATA_SOURCES}.FileStatusCache").getOrCreate(session)
    cache.putLeafFiles(root, _file_statuses(jvm, files))
    if not cache.getLeafFiles(root).isDefined():
        raise NativeRelationError("Spark's file status cache is off, or too small for the list of files")
    index = java_class(jvm, f"{_DATA_SOURCES}.InMemoryFileIndex")(
        session, sequence_of([root]), options, some(java_full_schema), cache, spec, none
    )
    if index.allFiles().size() != len(files):
        raise NativeRelationError("Spark's file status cache did not keep the list of files")
    parquet = java_class(jvm, f"{_DATA_SOURCES}.parquet.ParquetFileFormat")()
    read_session = session
    if settings:
        read_session = session.cloneSession()
        for key, value in settings.items():
            read_session.conf().set(key, value)
    relation_class = java_class(jvm, f"{_DATA_SOURCES}.HadoopFsRelation")
    relation = relation_class(index, java_partition_schema, java_data_schema, none, parquet, options, read_session)
    return DataFrame(session.baseRelationToDataFrame(relation), spark)


def _partition_spec(jvm: Any, schema: Any, values: DataFrame, partitions: Sequence[ListedPartition]) -> Any:
    """Return the partitions with their values as Spark's internal rows. A local relation makes all rows in one call."""
    path_class, partition_class = java_class(jvm, _HADOOP_PATH), java_class(jvm, f"{_DATA_SOURCES}.PartitionPath")
    frame: Any = values._jdf
    rows = frame.queryExecution().executedPlan().executeCollect()
    paths = [partition_class(row, path_class(p.directory_uri)) for row, p in zip(rows, partitions, strict=True)]
    return java_class(jvm, f"{_DATA_SOURCES}.PartitionSpec")(schema, java_class(jvm, "PythonUtils").toSeq(paths))


def _file_statuses(jvm: Any, files: Sequence[ListedFile]) -> Any:
    """Return a Java `FileStatus[]` in a few calls. Hadoop reads it from its serialized form."""
    status = java_class(jvm, "java.lang.Class").forName("org.apache.hadoop.fs.FileStatus")
    writable = java_class(jvm, "org.apache.hadoop.io.ArrayWritable")(status)
    serialized = struct.pack(">i", len(files)) + b"".join(_serialized(files))
    stream = java_class(jvm, "java.io.ByteArrayInputStream")(serialized)
    writable.readFields(java_class(jvm, "java.io.DataInputStream")(stream))
    array = java_class(jvm, "java.lang.reflect.Array").newInstance(status, len(files))
    java_class(jvm, "java.lang.System").arraycopy(writable.toArray(), 0, array, 0, len(files))
    return array


def _digest(files: Sequence[ListedFile], partitions: Sequence[ListedPartition]) -> str:
    """Return a digest of the files and their partition values."""
    digest = hashlib.sha256(b"".join(_serialized(files)))
    for partition in partitions:
        digest.update(repr((partition.directory_uri, *partition.values)).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:32]


def _serialized(files: Iterable[ListedFile]) -> Iterable[bytes]:
    """Yield each file as Hadoop's length-prefixed FileStatusProto.

    Fields: 1 type (2 is a file), 2 path, 3 length, 4 permission {1 mode}, 7 modification time.
    """
    mode = _varint(_FILE_MODE)
    permission = b"\x22" + _varint(len(mode) + 1) + b"\x08" + mode
    for file in files:
        path = file.spark_path.encode()
        body = b"\x08\x02\x12" + _varint(len(path)) + path
        body += b"\x18" + _varint(file.size_bytes) + permission + b"\x38" + _varint(file.modified_ms)
        yield struct.pack(">i", len(body)) + body


def _varint(number: int) -> bytes:
    """Return the base-128 form (Protocol Buffers) of a number that is not negative."""
    encoded = bytearray()
    while number >> 7:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
