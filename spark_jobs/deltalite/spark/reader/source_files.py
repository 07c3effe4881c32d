"""The rows of listed source files, read with the types of the table.

- Parquet and ORC files have types. Columns that a file lacks are null. If files differ in the types of a column, Spark
  reads them with the types of the table, and fails for a type that it cannot widen.
- Avro files need a schema in the request.
- JSON has no types, so Spark infers the columns of the files (`json_files.py`). Columns that the table has are read
  with the types of the table.
- The columns of CSV files with a header are matched by name (`csv_files.py`). Without a header, the files have the
  columns of the table, in the order of the table.

Values of partition folders are texts. Decimals in CSV and JSON, and dates in JSON, are read as texts too, because
Spark's readers round and cut them. The same holds for decimals in ORC files with different types. The reader converts
texts to the type of the column. The read fails if a value does not fit this type exactly.

If the source has a schema, Spark reads every file with this schema. Only partition values that the schema leaves out
are texts. The read fails if a record does not match the schema. The columns of CSV files are matched by name or by
position (`csv_files.py`).

This module decides on the schema of each file. `file_loading.py` loads the files with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.errors import ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.errors import InvalidRequestError, SourceError, SourceNotFoundError
from deltalite.loaded_files.bad_file_search import find_one_bad_file
from deltalite.protocol.partition_folders import group_by_partition_folders
from deltalite.protocol.schema import StructType
from deltalite.protocol.source_schemas import columns_to_fill, schema_for_reading, wider_columns
from deltalite.protocol.unknown_columns import columns_problem, known_columns
from deltalite.spark.columns.types import from_spark, to_spark
from deltalite.spark.hadoop.uris import load_paths
from deltalite.spark.reader.bad_records import RecordSeparation
from deltalite.spark.reader.column_inference import ColumnInference
from deltalite.spark.reader.csv_files import CsvReader
from deltalite.spark.reader.file_loading import FileLoader, SourceFiles
from deltalite.spark.reader.json_files import JsonReader
from deltalite.spark.reader.unreadable_file_error import UnreadableFileError, unfit_file_error
from deltalite.spark.runtime.errors import (
    SPARK_ERRORS,
    file_problem,
    first_line,
    is_missing_path,
    is_schema_conflict,
)

_COMPRESSED_ENDINGS = (".gz", ".bz2", ".deflate", ".zst", ".lz4", ".snappy")
_MERGED = {"mergeSchema": "true"}
_MAX_MERGES = 64  # Spark reads the metadata of some files for each attempt


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
        SourceError: a file cannot be read or has no columns, or the files have partition folders of too many
            kinds.
        InvalidRequestError: the schema or an option of the source is wrong.
        SchemaMismatchError: the files have the column `file_column` already, the columns of a file do not fit the
            table, or names in JSON objects do not fit together.
    """
    _refuse_capital_endings(files)
    with _opening(files):
        return _Reader(spark, files, table, merge_schema=merge_schema, separation=separation).frame()


def no_source_rows(spark: SparkSession, files: SourceFiles, table: StructType | None) -> DataFrame:
    """Return an empty frame with the columns of files without a readable record. `table` is as in `read_source_files`.

    Columns that the table computes are left out, because some of them accept no value.

    Raises:
        SourceError: no schema is known.
        InvalidRequestError: the schema of the source is wrong.
    """
    source = files.source
    with _opening(files):
        if source.schema is not None:
            frame = spark.createDataFrame([], source.schema)
        elif table is not None:
            frame = spark.createDataFrame([], to_spark(columns_to_fill(table)))
        else:
            raise SourceError(
                f"The columns of the files in {files.folder} are unknown: no file can be read.",
                remedy="Give `schema` in the source, create the table first, or wait for a file that can be read.",
            )
    groups = group_by_partition_folders(files.folder, files.addresses)
    names = [name for group in groups for name in group.names] + [files.file_column or ""]
    for name in filter(None, names):
        if name.lower() not in (column.lower() for column in frame.columns):
            frame = frame.withColumn(name, F.lit(None).cast("string"))
    return frame


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
        self._loader = FileLoader(spark, files, table, separation, merge_schema=merge_schema)
        self._inference = ColumnInference(spark, files, self._loader, drops_bad_records=separation is not None)
        self._csv = CsvReader(self._loader, self._inference, table, merge_schema=merge_schema)

    def frame(self) -> DataFrame:
        """Return the rows of all files."""
        frame = self._frame()
        self._loader.check_complete()
        if self._table is not None and self._files.source.schema is None:
            self._check_columns(from_spark(frame.schema), self._table)
        return frame

    def _check_columns(self, columns: StructType, table: StructType) -> None:
        """Raise `UnfitFileError` for a file with columns that do not fit the table.

        The write checks the columns that are in no file: those of partition folders, and `file_column`.
        """
        other_names = {*self._loader.partition_names, (self._files.file_column or "").lower()}

        def problem_of(columns: StructType) -> str | None:
            in_files = StructType(tuple(field for field in columns if field.name.lower() not in other_names))
            if self._files.source.schema is not None:  # Spark ignores other columns of the files
                in_files = known_columns(in_files, table)
            return columns_problem(in_files, table, merge_schema=self._merge_schema)

        problem = problem_of(columns)
        if problem is None:
            return

        def is_unfit(addresses: Sequence[str]) -> bool:
            return any(map(problem_of, self._columns_of(addresses)))

        address = find_one_bad_file(self._files.addresses, is_unfit)
        if address is not None:
            problems = map(problem_of, self._columns_of([address]))
            problem = next(filter(None, problems), problem)
            raise unfit_file_error(self._files.source.format, address, problem, table)

    def _check_stored_types(self, schema: StructType) -> None:
        """Check that a schema holds each value of the ORC files. Spark's reader would make NULL of any other value."""
        for stored in self._stored_schemas(self._files.addresses, _MAX_MERGES):
            self._check_columns(stored, schema)

    def _columns_of(self, addresses: Sequence[str]) -> list[StructType]:
        """Return the columns of files, in one or several schemas."""
        match self._files.source.format:
            case "parquet" | "orc":
                return self._stored_schemas(addresses, _MAX_MERGES)
            case "json":
                inferred = self._inference.columns(addresses)
                return [inferred if self._table is None else schema_for_reading(inferred, self._table)]
            case "csv":
                return self._csv.columns_of(addresses)
            case _:
                return [from_spark(self._loader.configured({}).load(load_paths(addresses)).schema)]

    def _frame(self) -> DataFrame:
        source, addresses = self._files.source, self._files.addresses
        if source.format == "csv":
            frame = self._csv.frame()
            return no_source_rows(self._spark, self._files, self._table) if frame is None else frame
        if source.format == "json":
            return self._json()
        if source.schema is not None:
            frame = self._loader.load(addresses, source.schema)
            if source.format == "orc":
                self._check_stored_types(from_spark(frame.schema))
            return frame
        match source.format:
            case "parquet" | "orc":
                return self._with_stored_types()
            case _:
                return self._loader.load(addresses, None)

    def _with_stored_types(self) -> DataFrame:
        """Return the rows, with the types of the table if the files have different types in a column."""
        addresses, table = self._files.addresses, self._table
        try:
            return self._loader.load(addresses, None, _MERGED)
        except SPARK_ERRORS as error:
            if table is None or not is_schema_conflict(error):
                raise
        schemas = self._stored_schemas(addresses, _MAX_MERGES)
        if self._files.source.format == "orc":  # the ORC reader makes NULL of a value that does not fit
            for schema in schemas:
                self._check_columns(schema, table)
        inferred = wider_columns(schemas)
        return self._loader.load(addresses, schema_for_reading(StructType(tuple(inferred.values())), table))

    def _stored_schemas(self, addresses: Sequence[str], max_merges: int) -> list[StructType]:
        """Return schemas that together have all columns of the files."""
        try:
            return [from_spark(self._loader.configured(_MERGED).load(load_paths(addresses)).schema)]
        except SPARK_ERRORS as error:
            if not is_schema_conflict(error) or len(addresses) == 1 or max_merges < 2:  # noqa: PLR2004  two halves
                raise
        half = len(addresses) // 2
        parts = (addresses[:half], addresses[half:])
        return [schema for part in parts for schema in self._stored_schemas(part, max_merges // 2)]

    def _json(self) -> DataFrame:
        reader = JsonReader(
            inference=self._inference,
            loader=self._loader,
            table=self._table,
            merge_schema=self._merge_schema,
            separates=self._separation is not None,
        )
        return reader.frame()


def _refuse_capital_endings(files: SourceFiles) -> None:
    """Refuse names such as `a.csv.GZ`, because Hadoop decompresses only files with an ending in lower case."""
    if files.source.format not in ("csv", "json", "text"):
        return
    for address in files.addresses:
        if address.lower().endswith(_COMPRESSED_ENDINGS) and not address.endswith(_COMPRESSED_ENDINGS):
            raise UnreadableFileError(
                f"Spark does not decompress {address}, because the ending of its name is not in lower case.",
                remedy="Rename the file, or leave it out with `pattern` or `file_names`.",
            )


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
