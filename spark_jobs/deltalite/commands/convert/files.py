"""The files of a folder as a table's log describes them: partition values, sizes, and statistics from their footers.

Footers are read once, in parallel, in batches, and the resulting `add` actions are kept in columnar form. Each file
extends the merged schema. The table's configuration selects a file's columns with statistics from the schema merged so
far, so the selection may differ between files. A missing bound is always safe. Two kinds of bounds are left out,
because their meaning is uncertain: dates and timestamps of the Julian calendar, and bounds of floating-point columns
that may contain NaN.
Protocol: Per-file Statistics.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deltalite.columnar.parquet.files import read_sized_footers
from deltalite.columnar.parquet.legacy_calendar import calendar_of
from deltalite.columnar.parquet.schema import int96_leaves, schema_of_file
from deltalite.columnar.statistics.footer import IndexedColumns, indexed_columns, parse_column_list, statistics_json
from deltalite.commands.convert.listing import FolderValues
from deltalite.errors import CorruptDataFileError, SchemaMismatchError, SourceError
from deltalite.log.file_table import ADD_TYPES, table_of
from deltalite.protocol.actions import AddFile
from deltalite.protocol.column_mapping import TableSchema
from deltalite.protocol.file_schemas import FileSchemas, with_partition_columns
from deltalite.protocol.paths import encode_path
from deltalite.protocol.properties import STATS_COLUMNS
from deltalite.protocol.schema import PrimitiveType, StructType, member_at
from deltalite.sizes import counted

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from deltalite.storage.log_store import LogStore

_FILES_PER_BATCH = 512
_ADD_SCHEMA = pa.schema(list(ADD_TYPES.items()))
_CALENDAR_TYPES = (PrimitiveType("date"), PrimitiveType("timestamp"), PrimitiveType("timestamp_ntz"))
_FLOAT_TYPES = (PrimitiveType("float"), PrimitiveType("double"))
# parquet-mr 1.10 and later omit the bounds of a column with NaN. Older versions and other writers may ignore the NaN.
_PARQUET_MR_PATTERN = re.compile(r"parquet-mr version (\d+)\.(\d+)")
_FIRST_NAN_SAFE_VERSION = (1, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedFiles:
    """The files that hold rows, with all columns of `ADD_TYPES`, and their merged schema with partition columns."""

    adds: pa.Table
    schema: StructType
    row_count: int


def converted_files(
    store: LogStore, listed_files: pa.Table, partition_schema: StructType, configuration: Mapping[str, str]
) -> ConvertedFiles:
    """Read the footers of the listed files, and return the files as the log describes them.

    `listed_files` has the columns of `LISTING_SCHEMA`.

    Raises:
        SourceError: a file is not a Parquet file, or has changed since it was listed.
        SchemaMismatchError: a file has a column that no table can have, or conflicts with another file.
        InvalidRequestError: a folder name does not match the partition columns.
        StorageError: storage does not answer.
    """
    folder_values = FolderValues(partition_schema)
    reader = _FooterReader(store, partition_schema, configuration)
    for name in listed_files["name"]:
        folder_values.of(name.as_py())  # raises for a wrong folder name before any file is opened
    tables, row_count = [_ADD_SCHEMA.empty_table()], 0
    for batch in listed_files.to_batches(max_chunksize=_FILES_PER_BATCH):
        files = batch.to_pylist()
        counts_and_stats = reader.read(files)
        row_count += sum(count for count, _ in counts_and_stats)
        add_bodies = [
            {
                "path": encode_path(file["name"]),
                "partitionValues": folder_values.of(file["name"]),
                "size": file["size"],
                "modificationTime": file["time_ms"],
                "stats": stats,
            }
            for file, (count, stats) in zip(files, counts_and_stats, strict=True)
            if count
        ]
        tables.append(table_of(add_bodies, ADD_TYPES, AddFile))
    return ConvertedFiles(adds=pa.concat_tables(tables), schema=reader.schema, row_count=row_count)


class _FooterReader:
    """Reads the footers of files, and merges the schemas in them."""

    def __init__(self, store: LogStore, partition_schema: StructType, configuration: Mapping[str, str]) -> None:
        self._store = store
        self._partition_schema = partition_schema
        self._configuration = configuration
        self._file_schemas = FileSchemas()
        self._merged_schema_keys: set[tuple[bytes, tuple[int, ...]]] = set()
        self._indexed = IndexedColumns(leaves=(), string_prefix_length=0)

    @property
    def schema(self) -> StructType:
        """The columns of all files, and of their folders."""
        return with_partition_columns(self._file_schemas.schema, self._partition_schema)

    def read(self, files: list[dict[str, Any]]) -> list[tuple[int, str]]:
        """Return the number of rows and the statistics of each file."""
        try:
            footers = read_sized_footers(self._store, [file["name"] for file in files])
        except CorruptDataFileError as error:
            raise SourceError(
                f"Cannot convert all files of {self._store.root}: {error.problem}",
                remedy="Move files that are not Parquet out of the folder, or give them names that begin with '_'.",
            ) from error
        counts_and_stats = []
        for file, (footer, size_bytes) in zip(files, footers, strict=True):
            if size_bytes != file["size"]:
                raise SourceError(
                    f"{file['name']} of {self._store.root} changed during the conversion, from {file['size']} to "
                    f"{counted(size_bytes, 'byte')}. Nothing was committed.",
                    remedy="Stop the writer of this folder, and run the task again.",
                )
            self._merge_schema(footer, file["name"])
            counts_and_stats.append((footer.num_rows, statistics_json(footer, self._reliable_columns(footer))))
        return counts_and_stats

    def _merge_schema(self, footer: pq.FileMetaData, name: str) -> None:
        """Merge the schema of a file, unless an equal schema was merged before."""
        schema_key = (footer.schema.to_arrow_schema().remove_metadata().serialize().to_pybytes(), int96_leaves(footer))
        if schema_key in self._merged_schema_keys:
            return
        try:
            self._file_schemas.add(schema_of_file(footer), name)
        except SchemaMismatchError as error:
            if name in error.problem:
                raise
            raise SchemaMismatchError(f"The file {name}: {error.problem}", remedy=error.remedy) from error
        self._merged_schema_keys.add(schema_key)
        schema = self.schema
        table = TableSchema(logical=schema, partition_columns=self._partition_schema.names)
        self._indexed = indexed_columns(table, _with_known_statistics_columns(self._configuration, schema))

    def _reliable_columns(self, footer: pq.FileMetaData) -> IndexedColumns:
        """Return the indexed columns, without columns of types that have uncertain bounds in this file."""
        unreliable_types = _CALENDAR_TYPES if calendar_of(footer.metadata).julian_datetime else ()
        writer = _PARQUET_MR_PATTERN.match(footer.created_by or "")
        if writer is None or (int(writer[1]), int(writer[2])) < _FIRST_NAN_SAFE_VERSION:
            unreliable_types = (*unreliable_types, *_FLOAT_TYPES)
        leaves = tuple(
            (path, leaf_type) for path, leaf_type in self._indexed.leaves if leaf_type not in unreliable_types
        )
        return replace(self._indexed, leaves=leaves)


def _with_known_statistics_columns(configuration: Mapping[str, str], schema: StructType) -> Mapping[str, str]:
    """Return the configuration without statistics columns that `schema` lacks, because a later file may have them."""
    column_list = STATS_COLUMNS.of(configuration)
    if column_list is None:
        return configuration
    known_columns = [column for column in parse_column_list(column_list) if member_at(schema, column) is not None]
    quoted = (".".join("`" + name.replace("`", "``") + "`" for name in column) for column in known_columns)
    return {**configuration, STATS_COLUMNS.key: ", ".join(quoted)}
