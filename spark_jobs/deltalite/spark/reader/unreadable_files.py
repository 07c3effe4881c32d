"""The search for source files that cannot be loaded at all, after a read of several files has failed.

Spark cannot load a file if the file is unreadable, or if its columns do not fit the table. A file is unreadable if all
of these statements are true:

1. A read of this file alone fails, in a way that shows damage or another format (`damage_of_file`). Parquet, ORC and
   Avro files are read with their stored columns, so columns that differ from the table's columns are not damage.
2. The storage delivers all bytes of the file.
3. If the reason of the failure may be temporary, a second read fails too.

So a fault of the storage, of the network or of the installation is an error, and never a bad file.

Without a schema in the source, the columns of a Parquet or ORC file do not fit in these cases:

- The table lacks a column of the file, and does not get new columns.
- The type of a column in the table does not hold each value of the stored type.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from deltalite.errors import DeltaLiteError, SourceNotFoundError
from deltalite.loaded_files.bad_file_search import BadFiles, GroupFailure, find_bad_files
from deltalite.protocol.schema import StructType
from deltalite.protocol.source_schemas import schema_for_reading
from deltalite.protocol.unknown_columns import columns_problem, known_columns
from deltalite.requests.quarantine import FORMATS_WITH_BAD_RECORDS
from deltalite.sizes import counted
from deltalite.spark.columns.types import from_spark, to_spark
from deltalite.spark.hadoop.opening import source_store
from deltalite.spark.hadoop.uris import load_paths
from deltalite.spark.reader.bad_record_lines import address_of, addresses_by_path
from deltalite.spark.reader.bad_records import RecordSeparation
from deltalite.spark.reader.file_loading import SourceFiles
from deltalite.spark.reader.source_files import read_source_files
from deltalite.spark.reader.unreadable_file_error import UnfitFileError, UnreadableFileError
from deltalite.spark.runtime.errors import (
    SPARK_ERRORS,
    damage_of_file,
    is_permanent_damage,
    path_of_unread_file,
    type_mismatch,
)
from deltalite.spark.runtime.session import STRICT_READ
from deltalite.storage.local import storage_error

_log = logging.getLogger(__name__)
_FORMATS_WITH_COLUMNS = ("parquet", "orc", "avro")
_FILE_ERRORS = (UnreadableFileError, UnfitFileError)
_SCHEMA_WITHOUT_STORED_COLUMN = "_deltalite STRING"  # Spark then reads only the footer or the header of a file
_CHUNK_BYTES = 8 * 1024 * 1024
_READ_ERRORS = (DeltaLiteError, *SPARK_ERRORS)


def may_be_unreadable(error: Exception) -> bool:
    """Whether a read may have failed because a file is unreadable, or because its columns do not fit the table."""
    return isinstance(error, _FILE_ERRORS) or damage_of_file(error) is not None or type_mismatch(error) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChecker:
    """Checks whether `read_source_files` can read the files, with these arguments."""

    spark: SparkSession
    files: SourceFiles
    table: StructType | None
    merge_schema: bool

    def failure(self) -> Exception | None:
        """Read all rows of all files. Return the error if a file may be unreadable or unfit, else None."""
        error = self._failure_of(self.files.addresses)
        return error if error is not None and may_be_unreadable(error) else None

    def find_unreadable(self, *, max_count: int) -> BadFiles:
        """Return the files that are unreadable or do not fit. The search stops if there are more than `max_count`.

        Raises:
            SourceNotFoundError: a file no longer exists.
            StorageError: the storage does not deliver a file.
        """
        _log.info("Looking for unreadable files among %s.", counted(len(self.files.sizes), "file"))
        return find_bad_files(
            self.files.addresses,
            read_group=self._read_group,
            reason_of=self._reason_of,
            max_count=max_count,
        )

    def _read_group(self, addresses: Sequence[str]) -> GroupFailure | None:
        error = self._failure_of(addresses)
        if error is None:
            return None
        path = error.address if isinstance(error, UnfitFileError) else path_of_unread_file(error)
        return GroupFailure(address=None if path is None else address_of(path, addresses_by_path(addresses)))

    def _failure_of(self, addresses: Sequence[str]) -> Exception | None:
        """Read all rows of files as a load does, and return the error, None if all of them can be read."""
        files = replace(self.files, sizes={address: self.files.sizes[address] for address in addresses})
        separation = RecordSeparation() if self.files.source.format in FORMATS_WITH_BAD_RECORDS else None
        try:
            _read_all(
                read_source_files(self.spark, files, self.table, merge_schema=self.merge_schema, separation=separation)
            )
        except SourceNotFoundError:
            raise
        except _READ_ERRORS as error:
            return error
        return None

    def _reason_of(self, address: str) -> str | None:
        """Return why a file is unreadable, or does not fit the table, as a sentence.

        Returns None for a good file, for a changed file, and if the failure does not show damage.
        """
        error = self._failure_alone(address)
        if error is None and self.files.source.format in _FORMATS_WITH_COLUMNS:
            return self._problem_of_columns(address)
        if isinstance(error, UnfitFileError):
            return error.problem
        if error is None or not may_be_unreadable(error):
            return None
        if self._count_delivered_bytes(address) != self.files.sizes[address]:
            return None  # the file has changed
        if not isinstance(error, UnreadableFileError) and not is_permanent_damage(error):
            error = self._failure_alone(address)
            if error is None or not may_be_unreadable(error):
                return None
        if isinstance(error, UnreadableFileError):
            return error.problem
        return (
            "The file is damaged, incomplete or of another format, so Spark cannot read it as "
            f"{self.files.source.format}: {damage_of_file(error)}."
        )

    def _failure_alone(self, address: str) -> Exception | None:
        """Read all rows of one file. Return the error of the read, or None if it succeeds.

        Files with stored columns are read without the columns of the table. If their rows cannot be read, but the error
        shows no damage, the result is the error of reading only the footer or the header.
        """
        if self.files.source.format not in _FORMATS_WITH_COLUMNS:
            return self._failure_of([address])
        reader, path = self._columns_reader(address)
        try:
            _read_all(reader.load(path))
        except SPARK_ERRORS as error:
            if damage_of_file(error) is not None:
                return error
        else:
            return None
        try:  # If Spark cannot infer the columns, its error may name neither the file nor a reason.
            _read_all(reader.schema(_SCHEMA_WITHOUT_STORED_COLUMN).load(path))
        except SPARK_ERRORS as error:
            return error
        return None

    def _columns_reader(self, address: str) -> tuple[DataFrameReader, str]:
        """Return the reader of the stored columns of a file, and the path that it loads."""
        source = self.files.source
        (path,) = load_paths([address])
        return self.spark.read.format(source.format).options(**{**source.options, **STRICT_READ}), path

    def _problem_of_columns(self, address: str) -> str | None:
        """Return why the stored columns of a readable file do not fit the table or the schema of the source.

        Returns None if they fit.
        """
        reader, path = self._columns_reader(address)
        schema, table = self.files.source.schema, self.table
        columns = from_spark(reader.load(path).schema)
        if schema is not None:
            table = from_spark(reader.schema(schema).load(path).schema)
            columns = known_columns(columns, table)  # Spark ignores the other columns
        if table is None:
            return None
        problem = None
        if schema is None or self.files.source.format == "orc":
            problem = columns_problem(columns, table, merge_schema=self.merge_schema)
        if problem is not None:
            return f"The columns of the file do not fit. {problem}"
        reader = reader.schema(schema or to_spark(schema_for_reading(columns, table)))
        try:
            _read_all(reader.load(path))
        except SPARK_ERRORS as error:
            problem = type_mismatch(error)
            return None if problem is None else f"The columns of the file do not fit. {problem}"
        return None

    def _count_delivered_bytes(self, address: str) -> int:
        """Read a file without regard to its format, and return the number of its bytes."""
        store = source_store(self.spark, self.files.folder)
        name = address[len(self.files.folder.rstrip("/")) + 1 :]
        size_bytes = 0
        try:
            with store.open(name) as handle:
                while chunk := handle.read(_CHUNK_BYTES):
                    size_bytes += len(chunk)
        except FileNotFoundError as error:
            raise SourceNotFoundError(
                f"The file {address} no longer exists.", remedy="Run the task again if the file was replaced."
            ) from error
        except OSError as error:
            raise storage_error(error, f"read {address}") from error
        return size_bytes


def _read_all(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()
