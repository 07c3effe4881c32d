"""A DataFrame over files of a snapshot, never over a directory.

Partition values come from the log, whatever the directories are called. Where all files of each directory share their
values the relation is native and Spark prunes partitions itself; where they do not (random prefixes), the values are
joined by file. Files of which some rows are left out are a relation of their own, joined with those rows; all others
are scanned plainly beside them. Relations have the physical names of files, and results the table's. A table may have
columns of any name, `_metadata` too, so names of our own are made for the table. Sizes of local files are asked of the
file system, because Spark drops the end of a file that is longer than it is told; of others the log is believed.
Protocol: Add File and Remove File (directories have no meaning); Deletion Vectors; Column Mapping.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows
from pyspark.sql import types as spark_types

from deltalite.errors import CorruptDataFileError
from deltalite.protocol.column_mapping import TableSchema
from deltalite.snapshot import Snapshot
from deltalite.spark.columns import named, unused_name
from deltalite.spark.errors import reading_table
from deltalite.spark.hadoop import HadoopFiles
from deltalite.spark.listed_files import listed_file, one_of_each_place, spellings
from deltalite.spark.native_relation import (
    READ_OPTIONS,
    ListedFile,
    ListedPartition,
    NativeRelationError,
    native_relation,
)
from deltalite.spark.partition_columns import Texts, partition_fields, partition_texts, typed_values, with_typed_columns
from deltalite.spark.presenting import file_schema, presented, read_settings
from deltalite.spark.row_selection import RowSelection, live_rows, selected, words_of
from deltalite.spark.text_lengths import pads_on_read
from deltalite.spark.types import to_spark, with_char_types
from deltalite.spark.uris import glob_escaped, spark_uri

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


def scan(
    spark: SparkSession, snapshot: Snapshot, files: pa.Table | None = None, *, is_exact: bool = False
) -> DataFrame:
    """The rows of `files` (all active files where None), in the table's columns and order.

    Where it is exact, filters lose no row: see `scan_rows`.

    Raises:
        CorruptDataFileError: a deletion vector cannot be read.
        CorruptLogError: a partition value is no value of its column.
        UnsupportedStorageError: a file lies on a storage that Spark does not reach.
    """
    files = snapshot.files if files is None else files
    rows = live_rows(snapshot.store, files)
    return scan_rows(spark, snapshot.store.root, snapshot.table_schema, files, rows=rows, is_exact=is_exact)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressedRows:
    """Rows that say where they stand: after the table's columns, their file as Spark spells it and their position.

    `numbers` has for each spelling the number of the file in `files`, those that are scanned.
    """

    frame: DataFrame
    files: pa.Table
    numbers: Mapping[str, int]

    def by_path(self, found: Mapping[str, _T]) -> dict[str, _T]:
        """By the path of each file in the log what was found under its spelling."""
        paths = self.files["path"]
        return {paths[self.numbers[file]].as_py(): own for file, own in found.items()}


def scan_addressed(spark: SparkSession, snapshot: Snapshot, files: pa.Table, *, file: str, row: str) -> AddressedRows:
    """The live rows of `files`, none of which is listed twice, with their addresses in columns of these names.

    Filters lose no row, since rows that are addressed are going to be changed. Errors are those of `scan`.
    """
    numbers: dict[str, int] = {}
    frame = scan_rows(
        spark,
        snapshot.store.root,
        snapshot.table_schema,
        files,
        rows=live_rows(snapshot.store, files),
        address=_Address(file=file, row=row, numbers=numbers),
        is_exact=True,
    )
    return AddressedRows(frame=frame, files=files, numbers=numbers)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Address:
    """Names for the columns of an address; `numbers` is filled with the files by their spelling."""

    file: str
    row: str
    numbers: dict[str, int]


def scan_rows(
    spark: SparkSession,
    root: str,
    table: TableSchema,
    files: pa.Table,
    *,
    rows: Mapping[int, RowSelection],
    by_file: Mapping[str, pa.Array | pa.ChunkedArray] | None = None,
    address: _Address | None = None,
    is_exact: bool = False,
) -> DataFrame:
    """The rows of `files` that `rows` selects, in the table's columns and order.

    Args:
        spark: the session.
        root: the table's address.
        table: the schema under which the files are read.
        files: columns `path`, `partitionValues`, `size` and `modificationTime`, as in the log.
        rows: by the number of a row of `files`: which rows of that file are given; all of the files that are not there.
        by_file: more columns, after the table's: for each row of `files` the value that all rows of that file have.
        address: two more columns, after all others: see `scan_addressed`.
        is_exact: filters give every row for which they are true, as Spark's own scan of floating point does not.

    Raises: as `scan`.
    """
    by_file = by_file or {}
    parts: dict[bool | None, list[int]] = {None: [], False: [], True: []}
    for row in range(files.num_rows):
        parts[rows[row].only if row in rows else None].append(row)
    frames = []
    for only, chosen in parts.items():
        # A file that is listed twice, with other rows or other values, goes into a relation of its own.
        for some in _without_repetition(files["path"], chosen):
            at = pa.array(some, pa.int64())
            extra = {name: values.take(at) for name, values in by_file.items()}
            own = files if len(some) == files.num_rows else files.take(at)
            part = _Part(spark, root, table, own, extra, is_exact=is_exact)
            positions = None if only is None else [rows[row].positions for row in some]
            frames.append(part.rows(positions, only=bool(only), address=address))
            if address is not None:
                address.numbers.update(zip(part.spelled, some, strict=True))
    if not frames:
        return _empty(spark, table, by_file, address)
    result = frames[0]
    for frame in frames[1:]:
        result = result.unionAll(frame)
    return result


class _Part:
    """Files that are one relation: their real names and their partition values."""

    def __init__(
        self,
        spark: SparkSession,
        root: str,
        table: TableSchema,
        files: pa.Table,
        by_file: Mapping[str, pa.Array | pa.ChunkedArray],
        *,
        is_exact: bool,
    ) -> None:
        self._spark = spark
        self._table = table
        self._settings = read_settings(table, is_exact=is_exact)
        self._root_uri = spark_uri(root)
        self._fields = partition_fields(table)
        self._texts = partition_texts(files, self._fields)
        self._by_file = by_file
        paths, sizes, times = (files[name].to_pylist() for name in ("path", "size", "modificationTime"))
        self._listed = [
            listed_file(root, path, size, time) for path, size, time in zip(paths, sizes, times, strict=True)
        ]
        for uri in one_of_each_place(self._listed):
            HadoopFiles(spark, uri)  # so that one that Spark does not reach is named
        self.spelled: Sequence[str] = ()  # the files as Spark spells them, once `rows` has needed it

    def rows(
        self, positions: Sequence[pa.Int64Array] | None, *, only: bool, address: _Address | None = None
    ) -> DataFrame:
        """All rows where `positions` is None, else without, or `only`, those at the positions of each file."""
        relation, has_values = self._relation()
        wanted = presented(self._table, pads=pads_on_read(self._spark))
        looks_up = bool(self._by_file) or not has_values
        if positions is None and not looks_up and address is None:
            return self._of_session(relation.select(*wanted))
        spelled = self.spelled = spellings(relation, self._listed)
        file, position = self._own_name("uri"), self._own_name("position")
        metadata = relation.metadataColumn("_metadata")
        found = relation.withColumn(file, metadata.getField("file_path"))
        if positions is not None or address is not None:
            found = found.withColumn(position, metadata.getField("row_index"))
        if positions is not None:
            words = words_of(list(zip(spelled, positions, strict=True)))
            names = {name: self._own_name(name) for name in ("file", "word", "bits")}
            found = selected(found, named(file), named(position), words, only=only, names=names)
        if looks_up:
            found, extra = self._looked_up(found, file, spelled, with_values=not has_values)
            wanted += extra
        if address is not None:
            wanted += [named(file).alias(address.file), named(position).alias(address.row)]
        return self._of_session(found.select(*wanted))

    def _of_session(self, frame: DataFrame) -> DataFrame:
        """The same rows as a frame of the user's session, in which its views are looked for."""
        if frame.sparkSession is self._spark:
            return frame
        return self._spark.createDataFrame([], frame.schema).unionAll(frame)

    def _own_name(self, stem: str) -> str:
        return unused_name(self._table.physical, stem)

    def _relation(self) -> tuple[DataFrame, bool]:
        """The columns of the files, and whether the partition columns are there too."""
        partitions = self._partitions_by_directory()
        schema = file_schema(self._table)
        values = None
        if partitions and self._fields:
            values = typed_values(self._spark, [tuple(p.values) for p in partitions], self._fields)
        try:
            frame = native_relation(
                self._spark,
                root_uri=self._root_uri,
                files=self._listed,
                data_schema=schema,
                partitions=partitions or [],
                partition_values=values,
                settings=self._settings,
            )
        except NativeRelationError as error:
            _log.warning("Reading through Spark's public API, which is slower: %s.", error)
            with reading_table(self._root_uri):
                relation = public_relation(self._spark, self._listed, schema, self._settings)
            return relation, not self._fields
        return frame, not self._fields or values is not None

    def _looked_up(
        self, relation: DataFrame, file: str, spelled: Sequence[str], *, with_values: bool
    ) -> tuple[DataFrame, list[Column]]:
        """The rows with the values of their file: those of the caller, and the partition values where they lack."""
        fields = self._fields if with_values else {}
        key = self._own_name("key")
        extra = {name: self._own_name(f"extra{n}") for n, name in enumerate(self._by_file)}
        columns: dict[str, pa.Array | pa.ChunkedArray] = {key: pa.array(spelled, pa.string())}
        columns |= {own: self._by_file[name] for name, own in extra.items()}
        for n, f in enumerate(fields.values()):
            columns[f.name] = pa.array([texts[n] for texts in self._texts], pa.string())
        lookup = with_typed_columns(self._spark.createDataFrame(pa.table(columns)), fields)
        found = relation.join(F.broadcast(lookup), named(file) == named(key))
        return found, [named(own).alias(name) for name, own in extra.items()]

    def _partitions_by_directory(self) -> list[ListedPartition] | None:
        """The values of each directory, or None where files of one directory differ in them."""
        if not self._fields:
            return []
        found: dict[str, Texts] = {}
        for listed, texts in zip(self._listed, self._texts, strict=True):
            if found.setdefault(listed.directory_uri, texts) != texts:
                return None
        return [ListedPartition(directory_uri=d, values=v) for d, v in found.items()]


def public_relation(
    spark: SparkSession,
    files: Sequence[ListedFile],
    schema: spark_types.StructType,
    settings: Mapping[str, str],
) -> DataFrame:
    """The data columns of the files through Spark's public reader, which asks for the status of each file.

    Where `settings` must hold when the rows are read the frame belongs to a session of its own.

    Raises:
        CorruptDataFileError: the public reader passes over a file, because of its name.
    """
    for file in files:
        if file.is_hidden:
            raise CorruptDataFileError(
                f"The log names the data file {file.uri!r}, and Spark ignores files whose names begin with '_' or '.'.",
                remedy="Read the table without Spark, or rewrite it with the engine that wrote it.",
            )
    session = spark.newSession() if settings else spark
    for key, value in settings.items():
        session.conf.set(key, value)
    reader = session.read.schema(schema).options(recursiveFileLookup="true", **READ_OPTIONS)
    return reader.parquet(*[glob_escaped(file.uri) for file in files])


def _without_repetition(paths: pa.ChunkedArray, rows: Sequence[int]) -> list[list[int]]:
    """The rows in groups none of which has a path twice; nearly always one group."""
    if not rows:
        return []
    chosen = paths.take(pa.array(rows, pa.int64()))
    if pc.count_distinct(chosen).as_py() == len(rows):
        return [list(rows)]
    groups: list[list[int]] = []
    seen: Counter[str] = Counter()
    for row, path in zip(rows, chosen.to_pylist(), strict=True):
        if seen[path] == len(groups):
            groups.append([])
        groups[seen[path]].append(row)
        seen[path] += 1
    return groups


def _empty(
    spark: SparkSession,
    table: TableSchema,
    by_file: Mapping[str, pa.Array | pa.ChunkedArray],
    address: _Address | None,
) -> DataFrame:
    schema = with_char_types(to_spark(table.logical), table.logical)
    if by_file:
        extra = spark.createDataFrame(pa.table({name: values.slice(0, 0) for name, values in by_file.items()}))
        schema = spark_types.StructType([*schema.fields, *extra.schema.fields])
    if address is not None:
        schema = schema.add(address.file, spark_types.StringType()).add(address.row, spark_types.LongType())
    return spark.createDataFrame([], schema)
