"""Loads source files, and checks that no file is lost.

The loader reads files with different partition folders separately, and unites the rows by the names of the columns. A
file without the folder of a partition column has NULL in this column. If some files lie in partition folders, Spark may
drop the other files. So the loader checks that Spark scans every file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows
from pyspark.sql import types as spark_types

from deltalite.errors import SchemaMismatchError, SourceError
from deltalite.protocol.partition_folders import PartitionFolders, group_by_partition_folders
from deltalite.protocol.schema import DataType, DecimalType, StructType
from deltalite.protocol.source_schemas import DATE, STRING, with_types_as_text
from deltalite.protocol.unknown_columns import known_columns, with_unknown_as_text
from deltalite.requests import Source
from deltalite.sizes import counted
from deltalite.spark.columns.assigning import assign_value
from deltalite.spark.columns.names import column_named
from deltalite.spark.columns.types import from_spark, spark_type, to_spark
from deltalite.spark.columns.valid_texts import with_valid_texts
from deltalite.spark.hadoop.uris import load_paths, spark_uri
from deltalite.spark.reader.bad_record_lines import (
    TEXT,
    TEXT_SETTINGS,
    LineFormat,
    has_content,
    line_reader,
    line_text,
)
from deltalite.spark.reader.bad_record_reasons import PERMISSIVE, corrupt_field
from deltalite.spark.reader.bad_records import PATH, RecordSeparation
from deltalite.spark.reader.json_records import json_rows
from deltalite.spark.reader.record_schema import RecordSchema
from deltalite.spark.reader.scanned_files import count_scanned_files
from deltalite.spark.runtime.session import STRICT_READ, settings

_FILE_PATH = "_metadata.file_path"
_MAX_PARTITION_GROUPS = 100  # Spark plans a scan for each group
_FAIL_FAST = {"mode": "FAILFAST"}
_PARTITION_VALUES_ARE_TEXT = {"spark.sql.sources.partitionColumnTypeInference.enabled": "false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFiles:
    """The files to read.

    - `folder`: the canonical address of the folder of the source, with which all addresses begin.
    - `sizes`: the canonical addresses of the files, and their sizes in bytes.
    - `file_column`: the name of the column for the address of each row's file, None without one.
    """

    source: Source
    folder: str
    sizes: Mapping[str, int]
    file_column: str | None = None

    @property
    def addresses(self) -> Sequence[str]:
        """The canonical addresses of the files."""
        return list(self.sizes)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineReading:
    """How to read JSON files as lines (`json_records.py`). Spark's reader would accept some of their bad records.

    `names` are the columns of all records, None if the names in the records are not checked.
    """

    names: StructType | None = None


class FileLoader:
    """Loads the files of one read, in several calls if their columns differ.

    Args:
        spark: the session.
        files: all files of the read.
        table: the columns of the table, None if they are unknown. Partition values get the types of the table.
        separation: separates the bad records of CSV and JSON files, None if a bad record fails the query.
        merge_schema: whether the table may get new columns. If not, a value in such a column makes a record bad.

    Raises:
        SourceError: the files have partition folders of too many kinds.
    """

    def __init__(
        self,
        spark: SparkSession,
        files: SourceFiles,
        table: StructType | None,
        separation: RecordSeparation | None,
        *,
        merge_schema: bool,
    ) -> None:
        self.spark = spark
        self._files = files
        self._table = table
        self._separation = separation
        separates_new_columns = separation is not None and files.source.schema is None and not merge_schema
        self._columns_of_good_records = table if separates_new_columns else None
        groups = group_by_partition_folders(files.folder, files.addresses)
        if len(groups) > _MAX_PARTITION_GROUPS:
            bases = [f"'{group.base}'" for group in groups][:3]
            raise SourceError(
                f"The files in {files.folder} have partition folders of {len(groups)} kinds, for example below "
                f"{', '.join(bases)}. Spark reads at most {_MAX_PARTITION_GROUPS} kinds together.",
                remedy="Set `pattern` or `max_files`, so that a run loads fewer folders.",
            )
        self.partition_names = {name for group in groups for name in group.lower_names}
        self._scanned_addresses: set[str] = set()

    def skip_empty(self, address: str) -> None:
        """Leave out a file without a record."""
        self._scanned_addresses.add(address)

    def check_complete(self) -> None:
        """Check that each file was loaded or left out.

        Raises:
            SourceError: a file was neither loaded nor left out.
        """
        missing_addresses = set(self._files.addresses) - self._scanned_addresses
        if missing_addresses:
            raise self._incomplete_scan_error(len(self._scanned_addresses), len(self._files.sizes), missing_addresses)

    def load(
        self,
        addresses: Sequence[str],
        schema: StructType | spark_types.StructType | str | None,
        options: Mapping[str, str] | None = None,
        *,
        as_lines: LineReading | None = None,
    ) -> DataFrame:
        """Return the rows of files with the same columns. Their partition folders may differ.

        Args:
            addresses: the files.
            schema: the columns, or their DDL; None if Spark infers them. If it is a `StructType` of the protocol, the
                loader reads some types as texts and converts them.
            options: options of Spark's reader. The options of the source take precedence.
            as_lines: how to read JSON files as lines, None for Spark's reader.

        Raises:
            SourceError: Spark leaves out a file.
            SchemaMismatchError: the files have the column `file_column` already, or a column that is read as text has
                a type to which texts do not convert.
        """
        groups = group_by_partition_folders(self._files.folder, addresses)
        if schema is None and len(groups) > 1:
            read_schema = self.configured(options or {}).load(load_paths(addresses)).schema
            frames = [
                self._load_group(group, files, _without(read_schema, group), {}, options)
                for group, files in groups.items()
            ]
        elif isinstance(schema, StructType):
            typed_columns = schema
            if self._columns_of_good_records is not None:
                typed_columns = known_columns(schema, self._columns_of_good_records)
                schema = with_unknown_as_text(schema, self._columns_of_good_records)
            types = {field.name.lower(): field.type for field in typed_columns}
            text_schema = to_spark(with_types_as_text(schema, self._types_read_as_text()))
            frames = [
                self._load_group(group, files, _without(text_schema, group), types, options, as_lines)
                for group, files in groups.items()
            ]
        else:
            frames = [self._load_group(group, files, schema, {}, options, as_lines) for group, files in groups.items()]
        return self.united(frames)

    def _load_group(
        self,
        group: PartitionFolders,
        addresses: Sequence[str],
        schema: spark_types.StructType | str | None,
        types: Mapping[str, DataType],
        options: Mapping[str, str] | None,
        as_lines: LineReading | None = None,
    ) -> DataFrame:
        """Return the rows of files with the same partition columns.

        If the schema lacks the partition columns, Spark reads their values as texts. `types` are the types to which
        texts are converted, by lower-case name.
        """
        types = {name: to_type for name, to_type in types.items() if name not in group.lower_names}

        def read(addresses: Sequence[str], read_schema: spark_types.StructType | str | None) -> DataFrame:
            reader = self.configured(options or {}, group)
            if read_schema is not None:
                reader = reader.schema(read_schema)
            with settings(self.spark, _PARTITION_VALUES_ARE_TEXT):
                frame = self._with_file_column(reader.load(load_paths(addresses)))
            return with_valid_texts(frame) if self._files.source.format == "text" else frame

        if self._separation is None or schema is None:
            frame = read(addresses, schema)
        else:
            frame = self._good_rows(self._separation, group, addresses, schema, types, read, as_lines)
        self._check_scan(frame, addresses)
        return self._converted(frame, types, group)

    def _check_scan(self, frame: DataFrame, addresses: Sequence[str]) -> None:
        """Check that the frame scans all of these files that are not empty."""
        file_count = sum(self._files.sizes[address] > 0 for address in addresses)
        scanned_count = count_scanned_files(self.spark, frame)
        if scanned_count < file_count:
            raise self._incomplete_scan_error(scanned_count, file_count, addresses)
        self._scanned_addresses.update(addresses)

    def _incomplete_scan_error(self, scanned_count: int, file_count: int, addresses: Collection[str]) -> SourceError:
        """Return the error for a load that misses some files. Without it, the table would list them as loaded."""
        return SourceError(
            f"Nothing was written: Spark reads only {scanned_count} of {counted(file_count, 'file')} in "
            f"{self._files.folder}. The missing files are among {min(addresses)} and {len(addresses) - 1} more.",
            remedy="Run the task again if a file was replaced. Otherwise load the folders in separate runs, with "
            "`pattern`.",
        )

    def united(self, frames: Sequence[DataFrame]) -> DataFrame:
        """Return the rows of all frames, by the names of the columns."""
        if len(frames) > 1:
            frames = _with_partition_texts(frames, self.partition_names)
        return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)

    def _good_rows(
        self,
        separation: RecordSeparation,
        group: PartitionFolders,
        addresses: Sequence[str],
        spark_schema: spark_types.StructType | str,
        types: Mapping[str, DataType],
        read: Callable[[Sequence[str], spark_types.StructType], DataFrame],
        as_lines: LineReading | None,
    ) -> DataFrame:
        """Return the rows of the good records, before texts are converted to `types`."""
        if isinstance(spark_schema, str):
            # Spark's reader parses the DDL, so that each spelling that it accepts is accepted here.
            with settings(self.spark, _PARTITION_VALUES_ARE_TEXT):
                spark_schema = self.configured({}, group).schema(spark_schema).load(load_paths(addresses)).schema
        with_corrupt = spark_types.StructType([*spark_schema.fields, corrupt_field()])
        schema = RecordSchema(
            source=self._files.source,
            addresses=addresses,
            columns=_without(spark_schema, group),
            types=types,
            table=self._columns_of_good_records,
            names=None if as_lines is None else as_lines.names,
        )

        line_format = None if as_lines is None else schema.line_format

        def rows(addresses: Sequence[str]) -> DataFrame:
            if line_format is not None:
                return self._rows_of_lines(schema, line_format, group, addresses)
            return read(addresses, with_corrupt).withColumn(PATH, F.col(_FILE_PATH))

        return separation.good_rows(schema, rows)

    def _rows_of_lines(
        self, schema: RecordSchema, line_format: LineFormat, group: PartitionFolders, addresses: Sequence[str]
    ) -> DataFrame:
        """Return the rows of JSON files, which are read as lines."""
        self._check_file_column(schema.columns.names)
        with settings(self.spark, {**_PARTITION_VALUES_ARE_TEXT, **TEXT_SETTINGS}):
            reader = self._with_base_path(line_reader(self.spark, line_format), group)
            lines = self._with_file_column(reader.load(load_paths(addresses))).withColumns(
                {PATH: F.col(_FILE_PATH), TEXT: line_text(line_format)}
            )
            return json_rows(schema, lines.where(has_content(line_format)).drop("value"))

    def _types_read_as_text(self) -> Callable[[DataType], bool]:
        """Return a function that says whether a type is read as STRING.

        Spark's reader would round or cut values of such a type. An option that changes the format of the values needs
        Spark's reader.
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
            if name in group.lower_names and field.type != STRING:  # the schema of the source sets the type
                continue
            to_type = types.get(name)
            if to_type is not None and spark_type(to_type) != spark_type(field.type):
                converted[field.name] = assign_value(column_named(field.name), field.type, to_type, field.name)
        return frame.withColumns(converted) if converted else frame

    def _with_file_column(self, frame: DataFrame) -> DataFrame:
        name = self._files.file_column
        if name is None:
            return frame
        self._check_file_column(frame.columns)
        return frame.withColumn(name, F.col(_FILE_PATH))

    def _check_file_column(self, columns: Sequence[str]) -> None:
        name = self._files.file_column
        if name is not None and name.lower() in (column.lower() for column in columns):
            raise SchemaMismatchError(
                f"The files have a column '{name}', so file_column cannot have this name.",
                remedy="Choose another name for file_column.",
            )

    def configured(self, options: Mapping[str, str], group: PartitionFolders | None = None) -> DataFrameReader:
        """Return the reader with all options. Without `group`, its rows have no partition columns."""
        source = self._files.source
        reader = self.spark.read.format(source.format).options(**{**options, **source.options, **STRICT_READ})
        if source.format in ("csv", "json"):
            reader = reader.options(**(_FAIL_FAST if self._separation is None else PERMISSIVE))
        return reader if group is None else self._with_base_path(reader, group)

    def _with_base_path(self, reader: DataFrameReader, group: PartitionFolders) -> DataFrameReader:
        if not group.names:
            return reader
        base = f"{self._files.folder.rstrip('/')}/{group.base}" if group.base else self._files.folder
        return reader.option("basePath", spark_uri(base))


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
