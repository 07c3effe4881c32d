"""A DataFrame over files of a snapshot, never over a directory.

Partition values come from the log, whatever the directories are called. Where all files of each directory share their
values the relation is native and Spark prunes partitions itself; where they do not (random prefixes), the values are
joined by file name. A table may have columns of any name, `_metadata` too, so names of our own are made for the table.
Protocol: Add File and Remove File (directories have no meaning).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows
from pyspark.sql import types as spark_types

from deltalite.errors import CorruptDataFileError, UnsupportedFeatureError
from deltalite.protocol.partition_values import parse_partition_value
from deltalite.protocol.paths import canonical_path, is_absolute
from deltalite.protocol.schema import StructField, StructType
from deltalite.snapshot import Snapshot
from deltalite.spark.columns import named, unused_name
from deltalite.spark.errors import reading_table
from deltalite.spark.native_relation import (
    READ_OPTIONS,
    ListedFile,
    ListedPartition,
    NativeRelationError,
    native_relation,
)
from deltalite.spark.types import to_spark

_log = logging.getLogger(__name__)


def scan(
    spark: SparkSession, snapshot: Snapshot, files: pa.Table | None = None, *, file_column: str | None = None
) -> DataFrame:
    """The rows of `files` (all active files where None), in the table's columns and order.

    `file_column` names one more column (see `unused_name`): the path of the row's file, as in the log.

    Raises:
        UnsupportedFeatureError: a file has a deletion vector.
        CorruptDataFileError: the log names a file that Spark would ignore.
    """
    return _Scan(spark, snapshot, snapshot.files if files is None else files).rows(file_column)


class _Scan:
    """One scan: the files, their real names and their partition values."""

    def __init__(self, spark: SparkSession, snapshot: Snapshot, files: pa.Table) -> None:
        self._spark = spark
        self._schema = snapshot.schema
        self._root_uri = f"file:{snapshot.store.root}"
        self._partition_fields = [_field(snapshot.schema, c) for c in snapshot.partition_columns]
        names = {f.name for f in self._partition_fields}
        self._data_schema = StructType(tuple(f for f in snapshot.schema if f.name not in names))
        if files["deletionVector"].null_count != files.num_rows:
            raise UnsupportedFeatureError(
                "The table has deletion vectors, which this release does not read.",
                remedy="Read it with an engine that supports them.",
            )
        self._paths: list[str] = files["path"].to_pylist()
        self._uris = [self._uri(path) for path in self._paths]
        sizes, times = files["size"].to_pylist(), files["modificationTime"].to_pylist()
        self._listed = [
            ListedFile(uri=uri, size_bytes=size, modified_ms=max(time, 0))
            for uri, size, time in zip(self._uris, sizes, times, strict=True)
        ]
        self._values = _typed_values(files, self._partition_fields)

    def rows(self, file_column: str | None) -> DataFrame:
        wanted = [named(name) for name in self._schema.names]
        if not self._paths:
            return self._empty(file_column)
        relation, has_values = self._relation()
        if has_values and file_column is None:
            return relation.select(*wanted)
        path_column = file_column or unused_name(self._schema, "path")
        by_file = self._by_file(relation, path_column, with_values=not has_values)
        return by_file.select(*wanted, *([named(path_column)] if file_column else []))

    def _relation(self) -> tuple[DataFrame, bool]:
        """The data columns, and whether the partition columns are there too."""
        partitions = self._partitions_by_directory()
        native = partitions is not None
        try:
            frame = native_relation(
                self._spark,
                root_uri=self._root_uri,
                files=self._listed,
                data_schema=to_spark(self._data_schema),
                partition_schema=self._partition_schema() if native else spark_types.StructType(),
                partitions=partitions or [],
            )
        except NativeRelationError as error:
            _log.warning("Reading through Spark's public API, which is slower: %s.", error)
            with reading_table(self._root_uri):
                relation = public_relation(self._spark, self._uris, to_spark(self._data_schema))
            return relation, not self._partition_fields
        return frame, native

    def _by_file(self, relation: DataFrame, path_column: str, *, with_values: bool) -> DataFrame:
        """The rows with their file's path in the log, and with its partition values where the relation lacks them."""
        fields = [f for f in self._partition_fields if with_values]
        uri_column = unused_name(self._schema, "uri")
        schema = spark_types.StructType(
            [
                spark_types.StructField(uri_column, spark_types.StringType()),
                spark_types.StructField(path_column, spark_types.StringType()),
                *to_spark(StructType(tuple(fields))).fields,
            ]
        )
        rows = [
            (uri, path, *(values if with_values else ()))
            for uri, path, values in zip(self._uris, self._paths, self._values, strict=True)
        ]
        lookup = F.broadcast(self._spark.createDataFrame(rows, schema))
        return relation.withColumn(uri_column, file_uri(relation)).join(lookup, uri_column)

    def _partitions_by_directory(self) -> list[ListedPartition] | None:
        """The values of each directory, or None where files of one directory differ in them."""
        if not self._partition_fields:
            return []
        found: dict[str, tuple[Any, ...]] = {}
        for uri, values in zip(self._uris, self._values, strict=True):
            if found.setdefault(uri.rpartition("/")[0], values) != values:
                return None
        return [ListedPartition(directory_uri=d, values=v) for d, v in found.items()]

    def _partition_schema(self) -> spark_types.StructType:
        return to_spark(StructType(tuple(self._partition_fields)))

    def _empty(self, file_column: str | None) -> DataFrame:
        schema = to_spark(self._schema)
        if file_column is not None:
            schema = schema.add(file_column, spark_types.StringType())
        return self._spark.createDataFrame([], schema)

    def _uri(self, path: str) -> str:
        real = canonical_path(path)
        if real.rpartition("/")[2].startswith(("_", ".")):
            raise CorruptDataFileError(
                f"The log names the data file {path!r}, and Spark ignores files whose names begin with '_' or '.'.",
                remedy="Read the table without Spark, or rewrite it with the engine that wrote it.",
            )
        return f"file:{real}" if is_absolute(real) else f"{self._root_uri}/{real}"


def public_relation(spark: SparkSession, uris: Sequence[str], schema: spark_types.StructType) -> DataFrame:
    """The data columns of the files through Spark's public reader, which asks for the status of each file."""
    reader = spark.read.schema(schema).options(recursiveFileLookup="true", **READ_OPTIONS)
    return reader.parquet(*[_glob_escaped(uri) for uri in uris])


def file_uri(relation: DataFrame) -> Column:
    """The file of each row in the spelling of `ListedFile.uri`: Spark says it percent-encoded.

    Asked for as metadata, because by name it would be the user's column where there is one called `_metadata`.
    """
    encoded = relation.metadataColumn("_metadata").getField("file_path")
    return F.url_decode(F.replace(encoded, F.lit("+"), F.lit("%2B")))


def _glob_escaped(uri: str) -> str:
    """A path for `DataFrameReader.load`, which expands patterns."""
    return "".join(f"\\{c}" if c in "{}[]*?\\" else c for c in uri)


def _field(schema: StructType, name: str) -> StructField:
    field = schema.find(name)
    if field is None:
        raise CorruptDataFileError(
            f"The table is partitioned by '{name}', which is none of its columns.",
            remedy="Repair the table's metadata.",
        )
    return field


def _typed_values(files: pa.Table, fields: Sequence[StructField]) -> list[tuple[Any, ...]]:
    """The partition values of each file as Python values; each distinct combination is parsed once."""
    if not fields:
        return [()] * files.num_rows
    parsed: dict[tuple[str | None, ...], tuple[Any, ...]] = {}
    rows = []
    for pairs in files["partitionValues"].to_pylist():
        values = {name.lower(): text for name, text in pairs or ()}
        texts = tuple(values.get(f.name.lower()) for f in fields)
        if texts not in parsed:
            parsed[texts] = tuple(parse_partition_value(t, f.type) for t, f in zip(texts, fields, strict=True))
        rows.append(parsed[texts])
    return rows
