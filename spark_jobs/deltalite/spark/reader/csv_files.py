"""The rows of CSV files.

Spark assigns the columns of a schema to the columns of a CSV file by position, and ignores the header. So this reader
reads the headers, and loads files with different headers separately. Without a header, the columns have the order of
the table, or Spark's names if there is no table.

If the source has a schema, a file is read in one of these ways:

1. by name, if each name of the header is in the schema, or each name of the schema in the header. Columns that the
   header lacks are null, and columns that the schema lacks are ignored.
2. by position otherwise, as by Spark, so that a schema may rename columns. But if the schema has a name of the header
   at another position, the file does not fit: its values would get into wrong columns. A header in a compression that
   `csv_headers` cannot read is not compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows
from pyspark.sql import types as spark_types

from deltalite.protocol.csv_columns import are_matched_by_name, misplaced_column
from deltalite.protocol.partition_folders import group_by_partition_folders
from deltalite.protocol.schema import StructField, StructType
from deltalite.protocol.source_schemas import STRING, columns_by_header, columns_to_fill, wider_columns
from deltalite.spark.columns.names import column_named
from deltalite.spark.columns.types import spark_type
from deltalite.spark.hadoop.opening import source_store
from deltalite.spark.hadoop.uris import load_paths
from deltalite.spark.reader.column_inference import ColumnInference, checked_columns, no_record_error, stored_columns
from deltalite.spark.reader.csv_headers import CsvHeaderReader
from deltalite.spark.reader.file_loading import FileLoader
from deltalite.spark.reader.unreadable_file_error import misplaced_column_error

_HEADER_THREADS = 16
# Otherwise Spark accepts a record with too few columns if the query needs only some columns.
_PARSE_ALL_COLUMNS = {"columnPruning": "false"}


class CsvReader:
    """Reads the CSV files of one read.

    Args:
        loader: the loader of the files.
        inference: infers their columns.
        table: the columns of the table, as in `read_source_files`.
        merge_schema: whether the table may get new columns.
    """

    def __init__(
        self, loader: FileLoader, inference: ColumnInference, table: StructType | None, *, merge_schema: bool
    ) -> None:
        self._loader = loader
        self._inference = inference
        self._files = inference.files
        self._table = table
        self._merge_schema = merge_schema
        self._headers = CsvHeaderReader(self._files.source.options)
        self._addresses_by_header: Mapping[tuple[str, ...], Sequence[str]] = {}

    def frame(self) -> DataFrame | None:
        """Return the rows of all files. With headers, the result is None if no file has a line.

        Raises:
            UnfitFileError: a header has names of the schema at other positions.
        """
        schema = self._files.source.schema
        if not self._headers.has_header:
            return self._loader.load(self._files.addresses, self._columns_by_position() if schema is None else schema)
        return self._with_headers() if schema is None else self._with_schema(schema)

    def columns_of(self, addresses: Iterable[str]) -> list[StructType]:
        """Return the columns of some files, one schema for each header.

        Call `frame` first. The source must have headers and no schema.
        """
        wanted_addresses = set(addresses)
        headers = (
            header for header, files in self._addresses_by_header.items() if not wanted_addresses.isdisjoint(files)
        )
        return [columns_by_header(header, self._table, {}) for header in headers]

    def _columns_by_position(self) -> StructType:
        if self._table is None:
            return checked_columns(self._files, self._inference.columns(self._files.addresses))
        return stored_columns(self._files, self._table)

    def _with_headers(self) -> DataFrame | None:
        groups = self._group_by_header(self._files.addresses)
        inferred: Mapping[str, StructField] = {}
        if self._table is None or self._merge_schema:
            headers_with_new_columns = [header for header in groups if self._has_new_column(header)]
            inferred = wider_columns(self._inference.columns(groups[header]) for header in headers_with_new_columns)
        if self._table is None and all(field.type == STRING for field in inferred.values()) and self._has_no_record():
            raise no_record_error(self._files)
        self._addresses_by_header = groups
        frames = [
            self._loader.load(addresses, columns_by_header(header, self._table, inferred))
            for header, addresses in groups.items()
        ]
        return self._with_columns(self._loader.united(frames)) if frames else None

    def _with_columns(self, frame: DataFrame) -> DataFrame:
        """Return the rows. A frame without columns gets the columns of the table, because a write needs a column."""
        if frame.columns or self._table is None:
            return frame
        columns = {field.name: F.lit(None).cast(spark_type(field.type)) for field in columns_to_fill(self._table)}
        return frame.withColumns(columns)

    def _with_schema(self, ddl: str) -> DataFrame | None:
        schema = self._schema_of_reader(ddl)
        with_readable_header = [address for address in self._files.addresses if self._headers.can_read(address)]
        by_position = [address for address in self._files.addresses if not self._headers.can_read(address)]
        frames: list[DataFrame] = []
        for header, addresses in self._group_by_header(with_readable_header).items():
            for folders, group in group_by_partition_folders(self._files.folder, addresses).items():
                names = [name for name in schema.names if name.lower() not in folders.lower_names]
                if are_matched_by_name(header, names):
                    frames.append(self._by_name(group, header, schema, names))
                elif (misplaced := misplaced_column(header, names)) is not None:
                    raise misplaced_column_error(group[0], misplaced)
                else:
                    by_position += group
        if by_position:
            frames.insert(0, self._loader.load(by_position, ddl))
        return self._loader.united(frames) if frames else None

    def _by_name(
        self, addresses: Sequence[str], header: Sequence[str], schema: spark_types.StructType, names: Sequence[str]
    ) -> DataFrame:
        """Return the rows of files with the same header. They have the columns of the schema.

        `names` are the columns whose values are in the files. They come first, in the order of the schema. As in Spark,
        the columns with values in the names of folders come after them.
        """
        fields = {field.name.lower(): field for field in schema}
        header_fields = [
            fields.get(name.lower(), spark_types.StructField(name, spark_types.StringType())) for name in header
        ]
        in_folders = [field for field in schema if field.name not in names]
        frame = self._loader.load(addresses, spark_types.StructType(header_fields + in_folders), _PARSE_ALL_COLUMNS)
        lower_names = {name.lower() for name in names}
        missing_names = lower_names - {name.lower() for name in header}
        nulls = {fields[name].name: F.lit(None).cast(fields[name].dataType) for name in sorted(missing_names)}
        ignored_names = {field.name for field in header_fields if field.name.lower() not in fields}
        last_names = [name for name in frame.columns if name.lower() not in lower_names and name not in ignored_names]
        return frame.withColumns(nulls).select(*map(column_named, [*names, *last_names]))

    def _schema_of_reader(self, ddl: str) -> spark_types.StructType:
        """Return the columns of the schema as Spark's reader parses it."""
        return self._loader.configured({}).schema(ddl).load(load_paths(self._files.addresses[:1])).schema

    def _has_no_record(self) -> bool:
        """Whether no file has a record below its header. Spark infers STRING for each column of such files."""
        reader = self._loader.configured({}).option("mode", "PERMISSIVE").schema("value STRING")
        return reader.load(load_paths(self._files.addresses)).isEmpty()

    def _group_by_header(self, addresses: Sequence[str]) -> dict[tuple[str, ...], list[str]]:
        """Return the files by their headers, without empty files."""
        store = source_store(self._loader.spark, self._files.folder)
        prefix_length = len(self._files.folder.rstrip("/")) + 1
        groups: dict[tuple[str, ...], list[str]] = {}
        with ThreadPoolExecutor(max_workers=_HEADER_THREADS, thread_name_prefix="headers") as pool:
            headers = pool.map(lambda address: self._headers.read(store, address[prefix_length:]), addresses)
            for address, header in zip(addresses, headers, strict=True):
                if header is not None:
                    groups.setdefault(header, []).append(address)
                else:
                    self._loader.skip_empty(address)  # the file has no line
        return groups

    def _has_new_column(self, header: Sequence[str]) -> bool:
        return self._table is None or any(self._table.find(name) is None for name in header)
