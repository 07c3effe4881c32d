"""The files of one relation, with the partition values and the other values that the log has for each file.

- Partition values come from the log, not from directory names. If all files of each directory share their values, the
  relation has partitions, and Spark prunes them. Otherwise (random prefixes) the values are joined by file.
- A row finds the values of its file by the file's number in the relation. The relation has this number as the file's
  modification time. Spark gives each row this time as a constant, and nothing else reads it.
- Values such as base row ids are arrays with one value for each file (`_value_of_file`), so that they need no join.
- Relations use the physical names of the files, and results use the logical names of the table. A table may have a
  column of any name, even `_metadata`, so helper columns get unused names.

Protocol: Add File and Remove File (directories have no meaning); Column Mapping.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows
from pyspark.sql import types as spark_types

from deltalite.errors import CorruptDataFileError
from deltalite.protocol.column_mapping import TableSchema
from deltalite.spark.columns.names import column_named, unused_name
from deltalite.spark.columns.partition_columns import (
    PartitionTexts,
    partition_fields,
    partition_texts,
    typed_values,
    with_typed_columns,
)
from deltalite.spark.columns.presenting import file_schema, read_settings, table_columns
from deltalite.spark.columns.text_lengths import pads_on_read
from deltalite.spark.hadoop.files import HadoopFiles
from deltalite.spark.hadoop.uris import glob_escaped, spark_uri
from deltalite.spark.runtime.errors import reading_table
from deltalite.spark.runtime.session import STRICT_READ
from deltalite.spark.scan.listed_files import listed_file, one_uri_of_each_storage, spellings
from deltalite.spark.scan.native_relation import (
    ListedFile,
    ListedPartition,
    NativeRelationError,
    native_relation,
)
from deltalite.spark.scan.row_selection import blocks_of, select_rows

_log = logging.getLogger(__name__)
# The values of more files than this do not become a literal in the plan.
_MAX_LITERAL_VALUES = 1_000


class RelationFiles:
    """The files of one relation, with their partition values. The number of a file is its position in `files`."""

    def __init__(
        self,
        spark: SparkSession,
        root: str,
        table: TableSchema,
        files: pa.Table,
        by_file: Mapping[str, pa.Array | pa.ChunkedArray],
        *,
        disables_float_pushdown: bool,
    ) -> None:
        self._spark = spark
        self._table = table
        self._settings = read_settings(table, disables_float_pushdown=disables_float_pushdown)
        self._root_uri = spark_uri(root)
        self._partition_fields = partition_fields(table)
        self._partition_texts = partition_texts(files, self._partition_fields)
        self._by_file = by_file
        paths, sizes, times = (files[name].to_pylist() for name in ("path", "size", "modificationTime"))
        self._listed = [
            listed_file(root, path, size, time) for path, size, time in zip(paths, sizes, times, strict=True)
        ]
        for uri in one_uri_of_each_storage(self._listed):
            HadoopFiles(spark, uri)  # raises an error that names a storage without a file system

    def rows(
        self, selected: Sequence[pa.Int64Array] | None, *, only_these: bool, position: str | None = None
    ) -> DataFrame:
        """Return the rows of the files.

        Without `selected`, the result has all rows. `selected` has positions for each file. With `only_these`, the
        result has the rows at these positions, otherwise all other rows.

        With `position`, the last column has this name and the row's position in its file.
        """
        partitions = self._partitions_by_directory()
        values = self._typed_values(partitions) if partitions else None
        has_values = not self._partition_fields or values is not None
        needs_numbers = selected is not None or bool(self._by_file) or not has_values
        relation = self._native_relation(partitions or [], values, numbered=needs_numbers)
        is_native = relation is not None
        if relation is None:
            relation, has_values = self._public_relation(), not self._partition_fields
        columns = table_columns(self._table, pads=pads_on_read(self._spark))
        if has_values and not needs_numbers and position is None:
            return self._in_users_session(relation.select(*columns))
        number, row = self._helper_name("number"), self._helper_name("position")
        metadata, helpers = relation.metadataColumn("_metadata"), {}
        if selected is not None or position is not None:
            helpers[row] = metadata.getField("row_index")
        if is_native and needs_numbers:
            helpers[number] = F.unix_millis(metadata.getField("file_modification_time")).cast("int")
        frame = relation.withColumns(helpers)
        if not is_native and (needs_numbers or not has_values):
            path = metadata.getField("file_path")
            frame = self._join_numbers(frame, path, spellings(relation, self._listed), number)
        if selected is not None:
            names = {name: self._helper_name(name) for name in ("block", "words")}
            blocks = blocks_of(selected)
            frame = select_rows(frame, number=number, position=row, blocks=blocks, only_these=only_these, names=names)
        if not has_values:
            frame = self._join_partition_values(frame, number)
        columns += [
            self._value_of_file(values, column_named(number)).alias(name) for name, values in self._by_file.items()
        ]
        if position is not None:
            columns.append(column_named(row).alias(position))
        return self._in_users_session(frame.select(*columns))

    def _in_users_session(self, frame: DataFrame) -> DataFrame:
        """Return the same rows as a frame of the user's session, so that its views can be used."""
        if frame.sparkSession is self._spark:
            return frame
        return self._spark.createDataFrame([], frame.schema).unionAll(frame)

    def _helper_name(self, stem: str) -> str:
        return unused_name(self._table.physical, stem)

    def _typed_values(self, partitions: Sequence[ListedPartition]) -> DataFrame | None:
        """Return the partition values of the directories, or None without partition columns."""
        if not self._partition_fields:
            return None
        return typed_values(self._spark, [tuple(p.values) for p in partitions], self._partition_fields)

    def _native_relation(
        self, partitions: Sequence[ListedPartition], values: DataFrame | None, *, numbered: bool
    ) -> DataFrame | None:
        """Return the relation over the files, or None if this Spark cannot make it (`NativeRelationError`).

        With `numbered`, the modification time of each file is the file's number in milliseconds.
        """
        files = self._listed
        if numbered:
            files = [replace(file, modified_ms=number) for number, file in enumerate(files)]
        try:
            return native_relation(
                self._spark,
                root_uri=self._root_uri,
                files=files,
                data_schema=file_schema(self._table),
                partitions=partitions,
                partition_values=values,
                settings=self._settings,
            )
        except NativeRelationError as error:
            _log.warning("Reading %s through Spark's public API, which is slower: %s.", self._root_uri, error)
            return None

    def _public_relation(self) -> DataFrame:
        with reading_table(self._root_uri):
            return public_relation(self._spark, self._listed, file_schema(self._table), self._settings)

    def _join_numbers(self, rows: DataFrame, path: Column, spelled: Sequence[str], number: str) -> DataFrame:
        """Add the number of each row's file. `spelled` has the path of each file in Spark's spelling."""
        file, key = self._helper_name("file"), self._helper_name("spelled")
        lookup = pa.table({key: pa.array(spelled, pa.string()), number: pa.array(range(len(spelled)), pa.int32())})
        numbers = F.broadcast(self._spark.createDataFrame(lookup))
        return rows.withColumn(file, path).join(numbers, column_named(file) == column_named(key))

    def _join_partition_values(self, rows: DataFrame, number: str) -> DataFrame:
        """Join the rows with the partition values of their file."""
        key = self._helper_name("key")
        columns = {key: pa.array(range(len(self._partition_texts)), pa.int32())}
        for index, field in enumerate(self._partition_fields.values()):
            columns[field.name] = pa.array([texts[index] for texts in self._partition_texts], pa.string())
        lookup = with_typed_columns(self._spark.createDataFrame(pa.table(columns)), self._partition_fields)
        return rows.join(F.broadcast(lookup), column_named(number) == column_named(key))

    def _value_of_file(self, values: pa.Array | pa.ChunkedArray, number: Column) -> Column:
        """Return a column with the value of each row's file.

        The values are one array, because an index into an array costs less for each row than a join. Up to
        `_MAX_LITERAL_VALUES` numbers are a literal. Other values come from a scalar subquery, because Spark prints
        literals in each description of a plan.
        """
        if len(values) <= _MAX_LITERAL_VALUES and values.type == pa.int64():
            items = ", ".join("NULL" if value is None else str(value) for value in values.to_pylist())
            array = F.expr(f"CAST(array({items}) AS array<bigint>)")
            return F.get(array, number)
        flat = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        one_list = pa.ListArray.from_arrays(pa.array([0, len(flat)], pa.int32()), flat)
        return F.get(self._spark.createDataFrame(pa.table({"values": one_list})).scalar(), number)

    def _partitions_by_directory(self) -> list[ListedPartition] | None:
        """Return the partition values of each directory, or None if files of one directory have different values."""
        if not self._partition_fields:
            return []
        texts_by_directory: dict[str, PartitionTexts] = {}
        for listed, texts in zip(self._listed, self._partition_texts, strict=True):
            if texts_by_directory.setdefault(listed.directory_uri, texts) != texts:
                return None
        return [ListedPartition(directory_uri=d, values=v) for d, v in texts_by_directory.items()]


def public_relation(
    spark: SparkSession,
    files: Sequence[ListedFile],
    schema: spark_types.StructType,
    settings: Mapping[str, str],
) -> DataFrame:
    """Return the data columns of the files, read by Spark's public reader, which requests the status of each file.

    With `settings`, the frame belongs to a new session, because the settings must hold when the rows are read.

    Raises:
        CorruptDataFileError: the public reader ignores a file because of its name.
    """
    for file in files:
        if file.is_hidden:
            raise CorruptDataFileError(
                f"The log names the data file {file.uri!r}, but Spark ignores files with a name that begins with '_' "
                "or '.'.",
                remedy="Read the table without Spark, or rewrite it with the engine that wrote it.",
            )
    session = spark.newSession() if settings else spark
    for key, value in settings.items():
        session.conf.set(key, value)
    reader = session.read.schema(schema).options(recursiveFileLookup="true", **STRICT_READ)
    return reader.parquet(*[glob_escaped(file.uri) for file in files])
