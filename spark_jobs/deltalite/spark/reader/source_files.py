"""The rows of listed source files, read with the types of the table.

- Parquet and ORC files have types. Columns that a file lacks are null. Avro files need a schema in the request.
- JSON has no types, so Spark infers the columns of the files. Columns that the table has are read with its types.
- CSV files with a header are grouped by their headers, because Spark assigns columns to a header by position.
- CSV files without a header have the columns of the table, in its order.

Values of partition folders are texts. Decimals in CSV and JSON, and dates in JSON, are read as texts too, because
Spark's readers round and cut them. The reader converts texts to the type of the column. A text that would lose
something fails the read.

If the source has a schema, Spark reads every file with it. Only partition values that it leaves out are texts. A record
that does not fit fails the read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce

from pyspark.errors import ParseException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows
from pyspark.sql import types as spark_types

from deltalite.errors import InvalidRequestError, SchemaMismatchError, SourceError, SourceNotFoundError
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
from deltalite.spark.runtime.errors import SPARK_ERRORS, first_line, is_missing_path
from deltalite.spark.runtime.session import settings

_FILE_PATH = "_metadata.file_path"
_HEADER_THREADS = 16
_STRICT = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}
_FAIL_FAST = {"mode": "FAILFAST"}
_PARTITION_VALUES_ARE_TEXT = {"spark.sql.sources.partitionColumnTypeInference.enabled": "false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFiles:
    """The files to read.

    - `folder`: the canonical address of the folder of the source, with which all addresses begin.
    - `addresses`: the canonical addresses of the files.
    - `file_column`: the name of a column for the address of the file of a row, None without one.
    """

    source: Source
    folder: str
    addresses: Sequence[str]
    file_column: str | None = None

    @property
    def partition_names(self) -> frozenset[str]:
        """The lower-case names of the columns in folder names such as `day=2026-01-01`."""
        prefix_length = len(self.folder.rstrip("/")) + 1
        folders = {address[prefix_length:].rpartition("/")[0] for address in self.addresses}
        parts = {part for folder in folders for part in folder.split("/") if "=" in part}
        return frozenset(part.partition("=")[0].lower() for part in parts)


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
        SourceError: a file cannot be read, or has no columns.
        InvalidRequestError: the schema or an option of the source is wrong.
        SchemaMismatchError: the files have the column `file_column` already.
    """
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
        self._partition_names = files.partition_names

    def frame(self) -> DataFrame:
        source, addresses = self._files.source, self._files.addresses
        if source.schema is not None:
            return self._load(addresses, source.schema)
        match source.format:
            case "parquet" | "orc":
                return self._load(addresses, None, {"mergeSchema": "true"})
            case "json":
                return self._json()
            case "csv":
                headers = CsvHeaderReader(source.options)
                return self._csv_with_headers(headers) if headers.has_header else self._csv_by_position()
            case _:
                return self._load(addresses, None)

    def _json(self) -> DataFrame:
        inferred = self._inferred(self._files.addresses)
        if self._table is not None:
            inferred = schema_for_reading(inferred, self._table)
            if not inferred.fields:  # the files have no record
                inferred = self._file_columns(self._table)
        return self._load(self._files.addresses, self._checked(inferred))

    def _csv_by_position(self) -> DataFrame:
        if self._table is None:
            return self._load(self._files.addresses, self._checked(self._inferred(self._files.addresses)))
        return self._load(self._files.addresses, self._file_columns(self._table))

    def _csv_with_headers(self, reader: CsvHeaderReader) -> DataFrame:
        groups = self._addresses_by_header(reader)
        inferred: Mapping[str, StructField] = {}
        if self._table is None or self._merge_schema:
            with_new_columns = [header for header in groups if self._has_new_column(header)]
            inferred = wider_columns(self._inferred(groups[header]) for header in with_new_columns)
        if not groups:
            if self._table is None:
                self._checked(StructType(()))
            groups = {tuple(self._table.names if self._table else ()): list(self._files.addresses)}
        frames = [
            self._load(addresses, columns_by_header(header, self._table, inferred))
            for header, addresses in groups.items()
        ]
        return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)

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
        return groups

    def _has_new_column(self, header: Sequence[str]) -> bool:
        return self._table is None or any(self._table.find(name) is None for name in header)

    def _file_columns(self, table: StructType) -> StructType:
        """Return the columns of the table that are stored in the files."""
        others = {*self._partition_names, (self._files.file_column or "").lower()}
        return StructType(tuple(field for field in table if field.name.lower() not in others))

    def _inferred(self, addresses: Sequence[str]) -> StructType:
        """Return the columns that Spark infers from the files, without those of folder names."""
        # Otherwise Spark merges names in JSON that differ only in case, and reads only one of them.
        is_json = self._files.source.format == "json"
        with settings(self._spark, {"spark.sql.caseSensitive": "true"} if is_json else {}):
            reader = self._configured({"inferSchema": "true"})
            if self._separation is not None:  # no column follows from a record that is no JSON
                reader = reader.option("mode", "DROPMALFORMED")
            spark_schema = reader.load(_uris(addresses)).schema
        try:
            columns = from_spark(spark_schema)
        except SchemaMismatchError as error:
            raise SchemaMismatchError(
                f"Could not infer the columns of the files in {self._files.folder}: {error.problem}",
                remedy="Write each name with one spelling, or load the files of each spelling in separate runs.",
            ) from error
        return StructType(tuple(field for field in columns if field.name.lower() not in self._partition_names))

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
        types: dict[str, DataType] = {}
        spark_schema: spark_types.StructType | str | None = None
        if isinstance(schema, str):
            spark_schema = schema
        elif schema is not None:
            types = {field.name.lower(): field.type for field in schema}
            spark_schema = to_spark(with_types_as_text(schema, self._types_read_as_text()))

        def read(addresses: Sequence[str], read_schema: spark_types.StructType | str | None) -> DataFrame:
            reader = self._configured(options or {})
            if read_schema is not None:
                reader = reader.schema(read_schema)
            with settings(self._spark, _PARTITION_VALUES_ARE_TEXT):
                return self._with_file_column(reader.load(_uris(addresses)))

        if self._separation is None or spark_schema is None:
            return self._converted(read(addresses, spark_schema), types)
        return self._converted(self._good_rows(self._separation, addresses, spark_schema, types, read), types)

    def _good_rows(
        self,
        separation: RecordSeparation,
        addresses: Sequence[str],
        spark_schema: spark_types.StructType | str,
        types: Mapping[str, DataType],
        read: Callable[[Sequence[str], spark_types.StructType], DataFrame],
    ) -> DataFrame:
        """Return the rows of the good records, before texts are converted to `types`."""
        if isinstance(spark_schema, str):
            # Spark's reader parses the DDL, so that each spelling that it accepts is accepted here.
            with settings(self._spark, _PARTITION_VALUES_ARE_TEXT):
                spark_schema = self._configured({}).schema(spark_schema).load(_uris(addresses)).schema
        columns = [field for field in spark_schema.fields if field.name.lower() not in self._partition_names]
        with_corrupt = spark_types.StructType([*spark_schema.fields, corrupt_field()])
        schema = RecordSchema(
            source=self._files.source,
            addresses=addresses,
            columns=spark_types.StructType(columns),
            types={name: to_type for name, to_type in types.items() if name not in self._partition_names},
        )
        return separation.good_rows(schema, lambda addresses: read(addresses, with_corrupt))

    def _types_read_as_text(self) -> Callable[[DataType], bool]:
        """Return which types are read as STRING, because Spark's reader would round or cut values of them.

        An option that changes the format of the values needs Spark's reader.
        """
        options = {name.lower() for name in self._files.source.options}
        reads_decimals = "locale" not in options
        reads_dates = self._files.source.format == "json" and "dateformat" not in options
        return lambda data_type: (
            (reads_decimals and isinstance(data_type, DecimalType)) or (reads_dates and data_type == DATE)
        )

    def _converted(self, frame: DataFrame, types: Mapping[str, DataType]) -> DataFrame:
        """Convert the columns that were read as STRING: to `types`, and partition values to the types of the table."""
        if self._table is not None:
            partition_columns = (self._table.find(name) for name in self._partition_names)
            types = {**{c.name.lower(): c.type for c in partition_columns if c is not None}, **types}
        if not types:
            return frame
        converted = {}
        for field in from_spark(frame.schema):
            name = field.name.lower()
            if name in self._partition_names and field.type != STRING:  # `schema` of the source has the type
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

    def _configured(self, options: Mapping[str, str]) -> DataFrameReader:
        source = self._files.source
        reader = self._spark.read.format(source.format).options(**{**options, **source.options, **_STRICT})
        if source.format in ("csv", "json"):
            reader = reader.options(**(_FAIL_FAST if self._separation is None else PERMISSIVE))
        if self._partition_names:
            reader = reader.option("basePath", spark_uri(self._files.folder))
        return reader


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
        remedy = "Check that the files, their format and their options are right."
        if files.source.format == "avro":
            remedy += (
                " Spark reads Avro with the package org.apache.spark:spark-avro, in `packages` or on its classpath."
            )
        raise SourceError(f"{description} cannot be read: {first_line(error)}", remedy=remedy) from error
