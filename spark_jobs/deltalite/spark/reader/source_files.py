"""The rows of listed source files, read with the types of the table.

- Parquet and ORC files have types. Columns that a file lacks are null. If Parquet files differ in the types of a
  column, Spark reads them with the types of the table, and fails for a type that it cannot widen.
- Avro files need a schema in the request.
- JSON has no types, so Spark infers the columns of the files. Columns that the table has are read with its types.
- CSV files with a header are grouped by their headers, because Spark assigns columns to a header by position.
- CSV files without a header have the columns of the table, in its order.

Values of partition folders are texts. Decimals in CSV and JSON, and dates in JSON, are read as texts too, because
Spark's readers round and cut them. The reader converts texts to the type of the column. A text that would lose
something fails the read.

If the source has a schema, Spark reads every file with it. Only partition values that it leaves out are texts. A record
that does not fit fails the read.

Spark reads files with different partition folders separately, and the rows are united by the names of the columns. A
file without the folder of a partition column has NULL in it. The reader checks that Spark scans every file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce

from pyspark.errors import ParseException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows
from pyspark.sql import types as spark_types

from deltalite.errors import InvalidRequestError, SchemaMismatchError, SourceError, SourceNotFoundError
from deltalite.protocol.partition_folders import PartitionFolders, group_by_partition_folders
from deltalite.protocol.schema import DataType, DecimalType, StructField, StructType
from deltalite.protocol.source_schemas import (
    DATE,
    STRING,
    columns_by_header,
    schema_for_reading,
    wider_columns,
    with_types_as_text,
)
from deltalite.requests import Source
from deltalite.spark.columns.assigning import assign_value
from deltalite.spark.columns.names import column_named
from deltalite.spark.columns.types import from_spark, spark_type, to_spark
from deltalite.spark.hadoop.opening import source_store
from deltalite.spark.hadoop.uris import glob_escaped, spark_uri
from deltalite.spark.reader.bad_record_reasons import PERMISSIVE, corrupt_field
from deltalite.spark.reader.bad_records import RecordSchema, RecordSeparation
from deltalite.spark.reader.csv_headers import CsvHeaderReader
from deltalite.spark.reader.scanned_files import count_scanned_files
from deltalite.spark.runtime.errors import SPARK_ERRORS, file_problem, first_line, is_missing_path, is_schema_conflict
from deltalite.spark.runtime.session import settings

_FILE_PATH = "_metadata.file_path"
_HEADER_THREADS = 16
_COMPRESSED_ENDINGS = (".gz", ".bz2", ".deflate", ".zst", ".lz4", ".snappy")
_MAX_PARTITION_GROUPS = 100  # Spark plans a scan for each of them
_STRICT = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}
_MERGED = {"mergeSchema": "true"}
_MAX_MERGES = 64  # Spark reads the metadata of some files for each of them
_FAIL_FAST = {"mode": "FAILFAST"}
_PARTITION_VALUES_ARE_TEXT = {"spark.sql.sources.partitionColumnTypeInference.enabled": "false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFiles:
    """The files to read.

    - `folder`: the canonical address of the folder of the source, with which all addresses begin.
    - `sizes`: the canonical addresses of the files, and their sizes in bytes.
    - `file_column`: the name of a column for the address of the file of a row, None without one.
    """

    source: Source
    folder: str
    sizes: Mapping[str, int]
    file_column: str | None = None

    @property
    def addresses(self) -> Sequence[str]:
        """The canonical addresses of the files."""
        return list(self.sizes)


def read_source_files(
    spark: SparkSession,
    files: SourceFiles,
    table: StructType | None,
    *,
    merge_schema: bool,
    separation: RecordSeparation | None = None,
) -> DataFrame:
    """Return the rows of the files.

    Args:
        spark: the session.
        files: the files; at least one.
        table: the columns of the table; None if the table does not exist, or a query computes its columns.
        merge_schema: whether the table may get new columns, so that their types are inferred.
        separation: separates the bad records of CSV and JSON files. Without it, a bad record fails the query.

    Raises:
        SourceNotFoundError: a file no longer exists.
        SourceError: a file cannot be read or has no columns, or the partition folders are too different.
        InvalidRequestError: the schema or an option of the source is wrong.
        SchemaMismatchError: the files have the column `file_column` already.
    """
    _refuse_capital_endings(files)
    with _opening(files):
        return _Reader(spark, files, table, merge_schema=merge_schema, separation=separation).frame()


class _Reader:
    def __init__(
        self,
        spark: SparkSession,
        files: SourceFiles,
        table: StructType | None,
        *,
        merge_schema: bool,
        separation: RecordSeparation | None,
    ) -> None:
        self._spark = spark
        self._files = files
        self._table = table
        self._merge_schema = merge_schema
        self._separation = separation
        self._groups = group_by_partition_folders(files.folder, files.addresses)
        self._scanned_addresses: set[str] = set()

    def frame(self) -> DataFrame:
        """Return the rows of all files."""
        if len(self._groups) > _MAX_PARTITION_GROUPS:
            bases = [f"'{group.base}'" for group in self._groups][:3]
            raise SourceError(
                f"The files in {self._files.folder} have partition folders of {len(self._groups)} kinds, for example "
                f"below {', '.join(bases)}. Spark reads at most {_MAX_PARTITION_GROUPS} kinds together.",
                remedy="Set `pattern` or `max_files`, so that a run loads fewer folders.",
            )
        frame = self._frame()
        left_out = set(self._files.addresses) - self._scanned_addresses
        if left_out:
            raise self._incomplete_scan(len(self._scanned_addresses), len(self._files.sizes), left_out)
        return frame

    def _frame(self) -> DataFrame:
        source, addresses = self._files.source, self._files.addresses
        if source.schema is not None:
            return self._load(addresses, source.schema)
        match source.format:
            case "parquet":
                return self._parquet()
            case "orc":
                return self._load(addresses, None, _MERGED)
            case "json":
                return self._json()
            case "csv":
                headers = CsvHeaderReader(source.options)
                return self._csv_with_headers(headers) if headers.has_header else self._csv_by_position()
            case _:
                return self._load(addresses, None)

    def _parquet(self) -> DataFrame:
        """Return the rows, with the types of the table if the files have different types in a column."""
        addresses = self._files.addresses
        try:
            return self._load(addresses, None, _MERGED)
        except SPARK_ERRORS as error:
            if self._table is None or not is_schema_conflict(error):
                raise
        inferred = wider_columns(self._parquet_schemas(addresses, _MAX_MERGES))
        return self._load(addresses, schema_for_reading(StructType(tuple(inferred.values())), self._table))

    def _parquet_schemas(self, addresses: Sequence[str], merges: int) -> list[StructType]:
        """Return schemas that together have all columns of the files. `merges` limits the number of attempts."""
        try:
            return [from_spark(self._configured(_MERGED).load(_uris(addresses)).schema)]
        except SPARK_ERRORS as error:
            if not is_schema_conflict(error) or len(addresses) == 1 or merges < 2:  # noqa: PLR2004  two halves
                raise
        half = len(addresses) // 2
        parts = (addresses[:half], addresses[half:])
        return [schema for part in parts for schema in self._parquet_schemas(part, merges // 2)]

    def _json(self) -> DataFrame:
        inferred = self._inferred(self._files.addresses)
        if self._table is not None:
            inferred = schema_for_reading(inferred, self._table)
            if not inferred.fields:  # the files have no record
                inferred = self._stored_columns(self._table)
        return self._load(self._files.addresses, self._checked(inferred))

    def _csv_by_position(self) -> DataFrame:
        if self._table is None:
            return self._load(self._files.addresses, self._checked(self._inferred(self._files.addresses)))
        return self._load(self._files.addresses, self._stored_columns(self._table))

    def _csv_with_headers(self, reader: CsvHeaderReader) -> DataFrame:
        groups = self._addresses_by_header(reader)
        inferred: Mapping[str, StructField] = {}
        if self._table is None or self._merge_schema:
            with_new_columns = [header for header in groups if self._has_new_column(header)]
            inferred = wider_columns(self._inferred(groups[header]) for header in with_new_columns)
        if self._table is None and all(field.type == STRING for field in inferred.values()) and self._has_no_record():
            self._checked(StructType(()))
        if not groups:
            names = self._stored_columns(self._table).names if self._table else ()
            groups = {tuple(names): list(self._files.addresses)}
        frames = [
            self._load(addresses, columns_by_header(header, self._table, inferred))
            for header, addresses in groups.items()
        ]
        return self._united(frames)

    def _has_no_record(self) -> bool:
        """Whether all CSV files are empty below their headers. Otherwise a header would make each column a STRING."""
        reader = self._configured({}).option("mode", "PERMISSIVE").schema("value STRING")
        return reader.load(_uris(self._files.addresses)).isEmpty()

    def _addresses_by_header(self, reader: CsvHeaderReader) -> dict[tuple[str, ...], list[str]]:
        """Return the files by their headers, without empty files."""
        store = source_store(self._spark, self._files.folder)
        prefix_length = len(self._files.folder.rstrip("/")) + 1
        groups: dict[tuple[str, ...], list[str]] = {}
        with ThreadPoolExecutor(max_workers=_HEADER_THREADS, thread_name_prefix="headers") as pool:
            names = [address[prefix_length:] for address in self._files.addresses]
            headers = pool.map(lambda name: reader.read(store, name), names)
            for address, header in zip(self._files.addresses, headers, strict=True):
                if header is not None:
                    groups.setdefault(header, []).append(address)
                else:
                    self._scanned_addresses.add(address)  # the file has no line
        return groups

    def _has_new_column(self, header: Sequence[str]) -> bool:
        return self._table is None or any(self._table.find(name) is None for name in header)

    def _stored_columns(self, table: StructType) -> StructType:
        """Return the columns of the table that are stored in the files or in their folders."""
        return StructType(tuple(f for f in table if f.name.lower() != (self._files.file_column or "").lower()))

    def _inferred(self, addresses: Sequence[str]) -> StructType:
        """Return the columns that Spark infers from the content of the files."""
        # Otherwise Spark merges names in JSON that differ only in case, and reads only one of them.
        is_json = self._files.source.format == "json"
        with settings(self._spark, {"spark.sql.caseSensitive": "true"} if is_json else {}):
            reader = self._configured({"inferSchema": "true"})
            if self._separation is not None:  # no column follows from a record that is no JSON
                reader = reader.option("mode", "DROPMALFORMED")
            spark_schema = reader.load(_uris(addresses)).schema
        try:
            return from_spark(spark_schema)
        except SchemaMismatchError as error:
            raise SchemaMismatchError(
                f"Could not infer the columns of the files in {self._files.folder}: {error.problem}",
                remedy="Write each name with one spelling, or load the files of each spelling in separate runs.",
            ) from error

    def _checked(self, schema: StructType) -> StructType:
        if not schema.fields:
            raise SourceError(
                f"The columns of the files in {self._files.folder} are unknown: the files have no record.",
                remedy="Give `schema` in the source, or wait for a file with records.",
            )
        return schema

    def _load(
        self, addresses: Sequence[str], schema: StructType | str | None, options: Mapping[str, str] | None = None
    ) -> DataFrame:
        """Return the rows of files with the same columns. Their partition folders may differ."""
        groups = group_by_partition_folders(self._files.folder, addresses)
        if schema is None and len(groups) > 1:
            read_schema = self._configured(options or {}).load(_uris(addresses)).schema
            frames = [
                self._load_group(group, files, _without(read_schema, group), {}, options)
                for group, files in groups.items()
            ]
        elif isinstance(schema, StructType):
            types = {field.name.lower(): field.type for field in schema}
            text_schema = to_spark(with_types_as_text(schema, self._types_read_as_text()))
            frames = [
                self._load_group(group, files, _without(text_schema, group), types, options)
                for group, files in groups.items()
            ]
        else:
            frames = [self._load_group(group, files, schema, {}, options) for group, files in groups.items()]
        return self._united(frames)

    def _load_group(
        self,
        group: PartitionFolders,
        addresses: Sequence[str],
        schema: spark_types.StructType | str | None,
        types: Mapping[str, DataType],
        options: Mapping[str, str] | None,
    ) -> DataFrame:
        """Return the rows of files with the same partition columns.

        A schema without the partition columns reads their values as texts. `types` are the types to which texts are
        converted, by lower-case name.
        """
        types = {name: to_type for name, to_type in types.items() if name not in group.lower_names}

        def read(addresses: Sequence[str], read_schema: spark_types.StructType | str | None) -> DataFrame:
            reader = self._configured(options or {}, group)
            if read_schema is not None:
                reader = reader.schema(read_schema)
            with settings(self._spark, _PARTITION_VALUES_ARE_TEXT):
                return self._with_file_column(reader.load(_uris(addresses)))

        if self._separation is None or schema is None:
            frame = read(addresses, schema)
        else:
            frame = self._good_rows(self._separation, group, addresses, schema, types, read)
        self._check_scan(frame, addresses)
        return self._converted(frame, types, group)

    def _check_scan(self, frame: DataFrame, addresses: Sequence[str]) -> None:
        """Check that the frame scans all of these files that are not empty."""
        file_count = sum(self._files.sizes[address] > 0 for address in addresses)
        scanned_count = count_scanned_files(self._spark, frame)
        if scanned_count < file_count:
            raise self._incomplete_scan(scanned_count, file_count, addresses)
        self._scanned_addresses.update(addresses)

    def _incomplete_scan(self, scanned_count: int, file_count: int, addresses: Collection[str]) -> SourceError:
        """Return the error for a load without some files. Its record would list files whose rows are in no table."""
        return SourceError(
            f"Nothing was written: Spark reads only {scanned_count} of {file_count} files in {self._files.folder}. The "
            f"other ones are among {min(addresses)} and {len(addresses) - 1} more.",
            remedy="Run the task again if a file was replaced. Otherwise load the folders in separate runs, with "
            "`pattern`.",
        )

    def _united(self, frames: Sequence[DataFrame]) -> DataFrame:
        """Return the rows of all frames, by the names of the columns."""
        if len(frames) > 1:
            frames = _with_partition_texts(frames, {name for group in self._groups for name in group.lower_names})
        return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)

    def _good_rows(
        self,
        separation: RecordSeparation,
        group: PartitionFolders,
        addresses: Sequence[str],
        spark_schema: spark_types.StructType | str,
        types: Mapping[str, DataType],
        read: Callable[[Sequence[str], spark_types.StructType], DataFrame],
    ) -> DataFrame:
        """Return the rows of the good records, before texts are converted to `types`."""
        if isinstance(spark_schema, str):
            # Spark's reader parses the DDL, so that each spelling that it accepts is accepted here.
            with settings(self._spark, _PARTITION_VALUES_ARE_TEXT):
                spark_schema = self._configured({}, group).schema(spark_schema).load(_uris(addresses)).schema
        with_corrupt = spark_types.StructType([*spark_schema.fields, corrupt_field()])
        schema = RecordSchema(
            source=self._files.source,
            addresses=addresses,
            columns=_without(spark_schema, group),
            types=types,
        )
        return separation.good_rows(schema, lambda addresses: read(addresses, with_corrupt))

    def _types_read_as_text(self) -> Callable[[DataType], bool]:
        """Return which types are read as STRING, because Spark's reader would round or cut values of them.

        An option that changes the format of the values needs Spark's reader.
        """
        options = {name.lower() for name in self._files.source.options}
        reads_decimals = "locale" not in options and self._files.source.format != "parquet"
        reads_dates = self._files.source.format == "json" and "dateformat" not in options
        return lambda data_type: (
            (reads_decimals and isinstance(data_type, DecimalType)) or (reads_dates and data_type == DATE)
        )

    def _converted(self, frame: DataFrame, types: Mapping[str, DataType], group: PartitionFolders) -> DataFrame:
        """Convert the columns that were read as STRING: to `types`, and partition values to the types of the table."""
        if self._table is not None:
            partition_columns = (self._table.find(name) for name in group.lower_names)
            types = {**{c.name.lower(): c.type for c in partition_columns if c is not None}, **types}
        if not types:
            return frame
        converted = {}
        for field in from_spark(frame.schema):
            name = field.name.lower()
            if name in group.lower_names and field.type != STRING:  # `schema` of the source has the type
                continue
            to_type = types.get(name)
            if to_type is not None and spark_type(to_type) != spark_type(field.type):
                converted[field.name] = assign_value(column_named(field.name), field.type, to_type, field.name)
        return frame.withColumns(converted) if converted else frame

    def _with_file_column(self, frame: DataFrame) -> DataFrame:
        name = self._files.file_column
        if name is None:
            return frame
        if name.lower() in (column.lower() for column in frame.columns):
            raise SchemaMismatchError(
                f"The files have a column '{name}', so file_column cannot have this name.",
                remedy="Choose another name for file_column.",
            )
        return frame.withColumn(name, F.col(_FILE_PATH))

    def _configured(self, options: Mapping[str, str], group: PartitionFolders | None = None) -> DataFrameReader:
        """Return the reader. Without a group of files with partition folders, it has no partition columns."""
        source = self._files.source
        reader = self._spark.read.format(source.format).options(**{**options, **source.options, **_STRICT})
        if source.format in ("csv", "json"):
            reader = reader.options(**(_FAIL_FAST if self._separation is None else PERMISSIVE))
        if group is not None and group.names:
            base = f"{self._files.folder.rstrip('/')}/{group.base}" if group.base else self._files.folder
            reader = reader.option("basePath", spark_uri(base))
        return reader


def _without(schema: spark_types.StructType, group: PartitionFolders) -> spark_types.StructType:
    """Return the columns that are not partition columns of the group."""
    return spark_types.StructType([field for field in schema.fields if field.name.lower() not in group.lower_names])


def _with_partition_texts(frames: Sequence[DataFrame], partition_names: Collection[str]) -> list[DataFrame]:
    """Return the frames with one type for each partition column: STRING, if the frames have different types."""
    types_by_name: dict[str, set[str]] = {}
    for frame in frames:
        for field in frame.schema.fields:
            types_by_name.setdefault(field.name.lower(), set()).add(field.dataType.simpleString())
    as_text = {name for name in partition_names if len(types_by_name.get(name, ())) > 1}

    def converted(frame: DataFrame) -> DataFrame:
        texts = {name: column_named(name).cast("string") for name in frame.columns if name.lower() in as_text}
        return frame.withColumns(texts) if texts else frame

    return [converted(frame) for frame in frames]


def _refuse_capital_endings(files: SourceFiles) -> None:
    """Refuse names such as `a.csv.GZ`, because Hadoop decompresses only files with an ending in lower case."""
    if files.source.format not in ("csv", "json", "text"):
        return
    for address in files.addresses:
        if address.lower().endswith(_COMPRESSED_ENDINGS) and not address.endswith(_COMPRESSED_ENDINGS):
            raise SourceError(
                f"Spark does not decompress {address}, because the ending of its name is not in lower case.",
                remedy="Rename the file, or leave it out with `pattern` or `file_names`.",
            )


def _uris(addresses: Sequence[str]) -> list[str]:
    return [glob_escaped(spark_uri(address)) for address in addresses]


@contextmanager
def _opening(files: SourceFiles) -> Iterator[None]:
    """Convert the errors of Spark when it opens the files."""
    description = f"The files ({files.source.format} in {files.folder})"
    try:
        yield
    except ParseException as error:
        raise InvalidRequestError(
            f"The schema of the source is not DDL: {first_line(error)}",
            remedy="Write the schema as 'id BIGINT, name STRING'.",
        ) from error
    except SPARK_ERRORS as error:
        if is_missing_path(error):
            raise SourceNotFoundError(
                f"{description} do not exist any more: {first_line(error)}",
                remedy="Run the task again if a file was replaced.",
            ) from error
        remedy = "Check that the files, their format and their options are right. `pattern` selects files."
        if files.source.format == "avro":
            remedy += (
                " Spark reads Avro with the package org.apache.spark:spark-avro, in `packages` or on its classpath."
            )
        raise SourceError(f"{description} cannot be read: {file_problem(error)}", remedy=remedy) from error
