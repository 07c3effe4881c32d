"""Writes rows into data files that no version of the table refers to yet.

- Spark writes into a new directory below the table. A write lists only this directory, never the table.
- If a rename is cheap, the name of the directory begins with `_`, so that no engine reads it as data. `publish` renames
  the files to the usual layout. On an object store the name is a short random prefix, and the files stay there.
- `StagedWrite` removes uncommitted files on exit. If the process is killed, the files remain until a vacuum.
- Spark converts partition values to text before they become directory names, so that the log gets exactly the text that
  Delta requires. `long_values` handles values that cannot be directory names.

Protocol: Data Files, Partition Value Serialization.
"""

from __future__ import annotations

import logging
import re
import secrets
import string
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Self
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.protocol.column_mapping import MappingMode, TableSchema
from deltalite.protocol.file_names import STAGING_DIR
from deltalite.protocol.paths import partition_values_of_dir
from deltalite.protocol.schema import DataType, PrimitiveType, StructType
from deltalite.spark.columns.guards import Guard, violation, with_guards
from deltalite.spark.columns.names import column_named, quoted
from deltalite.spark.columns.stored_columns import as_in_log, stored_columns
from deltalite.spark.hadoop.folders import TableFolder
from deltalite.spark.runtime.errors import SPARK_ERRORS, data_error
from deltalite.spark.runtime.session import settings
from deltalite.spark.write.direct_write import DirectWriteError, write_directly
from deltalite.spark.write.long_values import folder_text, values_of_stand_ins
from deltalite.spark.write.row_marks import GOOD, OPEN_FILES, for_good_rows, mark_folder

# The folder of task attempts of Hadoop's committer. A task attempt may still write there after the end of its job.
_ATTEMPTS_DIR = "_temporary"
_COMMITTER_OPTIONS = {
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # With version 2, which a cluster may set, a lost task leaves its files beside those of the task that replaces it.
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
}
_FORMAT_SETTINGS = {
    # INT96, Spark's default, is deprecated and has no statistics. The protocol requires 64-bit microseconds.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": "false",
}
_OPTIMIZE_SETTINGS = {
    # Adaptive execution rebalances the rows. The session may have switched it off.
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.enabled": "true",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": str(128 * 1024 * 1024),
}
# Spark 4.3 shreds variants by default, but Delta forbids this in most tables. The last setting forces
# shredding in tests of Spark, unless it is empty.
_SHRED_VARIANTS = {"spark.sql.variant.writeShredding.enabled": "true", "spark.sql.variant.inferShreddingSchema": "true"}
_DO_NOT_SHRED_VARIANTS = {
    "spark.sql.variant.inferShreddingSchema": "false",
    "spark.sql.variant.forceShreddingSchemaForTest": "",
}
# By default (0) Spark sorts the rows of each task by partition, even if they all belong to one partition.
_OPEN_FILES_SETTING = "spark.sql.maxConcurrentOutputFileWriters"
# Spark's committers put the number of the task at the start of a file name.
_TASK_NUMBER_PATTERN = re.compile(r"part-(\d+)-")
_RANDOM_PREFIX_LENGTH = 2
_FOLDER_PREFIX = "folder"  # not hidden, so that a vacuum sees the folder
# The names are long enough that two writes practically never use the same folder.
_WRITE_PREFIX_LENGTH = 8

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A written file.

    - `name`: the decoded path of the file, relative to the table's root.
    - `partition_values`: the values as the log spells them.
    - `folder`: the target folder in the table: empty, or a name that ends with `/`.
    - `mark`: the mark of the rows (`row_marks`), None if the write has no marks.
    """

    name: str
    size_bytes: int
    modified_ms: int
    partition_values: Mapping[str, str | None]
    folder: str = ""
    mark: str | None = None

    @property
    def has_good_rows(self) -> bool:
        """Whether no condition rejects the rows of the file."""
        return self.mark in (None, GOOD)

    @property
    def task(self) -> int | None:
        """The number of the Spark task that wrote the staged file, or None if the name lacks it.

        The number means nothing for a published file, which may have a random name.
        """
        match = _TASK_NUMBER_PATTERN.match(self.name.rpartition("/")[2])
        return None if match is None else int(match[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteLayout:
    """The layout of data files.

    - `partition_columns`: the physical names.
    - `optimize`: whether Spark rebalances the rows, so that files are neither small nor very large.
    - `random_prefixes`: whether files lie in folders with random names, not in folders of partition values.
    - `open_files`: the number of files that a task may write at once without sorting its rows. None: Spark's default.
    - `row_group_bytes`: the approximate size of a row group, None for Spark's default.
    - `shreds_variants`: whether Spark may store the common paths of variants in typed columns. Spark 4.0 does not.
    - `materializes_partition_columns`: whether the data files have the partition columns too, after the other columns.
    """

    partition_columns: Sequence[str]
    max_records_per_file: int | None = None
    optimize: bool = False
    random_prefixes: bool = False
    open_files: int | None = None
    row_group_bytes: int | None = None
    shreds_variants: bool = False
    materializes_partition_columns: bool = False

    def folder_columns(self, schema: StructType) -> dict[str, str]:
        """Return the name that each partition column has in Spark's folders (`name=value`), by physical name.

        Spark leaves the columns of folders out of the files. If the files need the partition columns too, the folders
        get names that no column of `schema` has.
        """
        if not self.materializes_partition_columns:
            return {name: name for name in self.partition_columns}
        prefix = _FOLDER_PREFIX
        while any(name.lower().startswith(prefix) for name in schema.names):
            prefix += _FOLDER_PREFIX
        return {name: f"{prefix}{number}" for number, name in enumerate(self.partition_columns)}


class StagedWrite:
    """The files of one operation, from the Spark task to the commit.

    Use it as a context manager. On exit it removes the written files, except those that `keep_published` or `keep_all`
    keeps. `is_first_write` says that the table has no version yet. On an object store, only a first write has a staging
    folder. It shows that other files are from a killed write (`foreign_entry`), and costs about a dozen requests.
    """

    def __init__(self, folder: TableFolder, layout: WriteLayout, *, is_first_write: bool = False) -> None:
        self._folder = folder
        self._layout = layout
        self._has_staging = is_first_write or folder.has_cheap_rename
        self._staging = f"{STAGING_DIR}/{uuid.uuid4()}"
        self._created_folders = folder.missing_folders()
        self._unmoved_folders: list[str] = []
        self._staged_names: set[str] = set()
        self._published_names: list[str] = []
        self._keeps_files = False
        self._keeps_staging = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        folder = self._folder
        if self._has_staging and not self._keeps_staging:
            folder.remove_tree(self._staging)
            folder.remove_if_empty(STAGING_DIR)
        if self._keeps_files:
            for name in self._staged_names.difference(self._published_names):
                folder.remove(name)
            return
        for unmoved_folder in self._unmoved_folders:
            folder.remove_tree(unmoved_folder)
        if not folder.has_cheap_rename:
            return
        for name in self._published_names:
            folder.remove(name)
            for parent in PurePosixPath(name).parents[:-1]:
                folder.remove_if_empty(str(parent))
        if self._created_folders:
            folder.remove_if_empty("_delta_log")
        for created_folder in self._created_folders:
            folder.remove_if_empty(created_folder)

    def keep_published(self) -> None:
        """Keep the published files."""
        self._keeps_files = True

    def keep_all(self) -> None:
        """Keep all files, because it is unknown whether the log refers to them.

        A killed process leaves the same state.
        """
        self._keeps_files = self._keeps_staging = True
        self._staged_names.clear()

    def write(
        self,
        frame: DataFrame,
        table: TableSchema,
        guards: Sequence[Guard],
        *,
        folder: str = "",
        known_values: Iterable[str] = (),
        marks: str | None = None,
    ) -> list[DataFile]:
        """Write the rows, and return the staged files.

        Args:
            frame: the rows, with the table's logical columns. Only the guards use additional columns.
            table: the schema to write with.
            guards: the checks of each row.
            folder: the target folder in the table: empty, or a name that ends with `/`.
            known_values: partition values that may occur. If another value cannot be a folder name, the rows are read
                again (`long_values`).
            marks: the name of the column with the marks (`row_marks`), None without audits that reject rows. The
                rows of each mark go to separate files. The guards do not check rejected rows.

        Raises:
            ConstraintViolationError: a row breaks a guard.
            SourceError: a second read of the rows returns other partition values.
            SourceError, AmbiguousRowsError, StorageError, InvalidRequestError: see `data_error`.
            StoragePermissionError, StorageError, InvalidTableAddressError: the table's folder cannot be written.
        """
        # If the table's folder is not writable, this call raises a short error. Spark's error would be long.
        if self._has_staging:
            self._folder.make(self._staging)
        if self._folder.has_cheap_rename:
            target = f"{self._staging}/{uuid.uuid4()}"
        else:
            target = f"{folder}{_random_name(_WRITE_PREFIX_LENGTH)}"
            self._unmoved_folders.append(target)
        with settings(frame.sparkSession, _settings(table, self._layout, has_marks=marks is not None)):
            checks = guards if marks is None else for_good_rows(guards, marks)
            mark_columns = [] if marks is None else [column_named(marks)]
            checked_rows = with_guards(frame, checks, table.logical.names).select(*stored_columns(table), *mark_columns)
            texts = _partition_texts(table.physical, self._layout)
            folder_columns = self._layout.folder_columns(table.physical)
            mark_folders = {} if marks is None else {marks: mark_folder(table.physical, list(folder_columns.values()))}
            rows = _rows_to_write(checked_rows, table.physical, texts, folder_columns, self._layout, mark_folders)
            folder_columns = mark_folders | folder_columns
            try:
                staged_files = self._write(rows, target, folder_columns)
                staged_files = [_with_mark(file, marks) for file in staged_files]
                folder_values = {value for file in staged_files for value in file.partition_values.values()}
                values = values_of_stand_ins(folder_values, checked_rows, texts, known_values)
            except SPARK_ERRORS as error:
                typed_error = violation(error, guards) or data_error(error) or self._folder.denial(error)
                if typed_error is None:
                    raise
                raise typed_error from error
        if not self._folder.has_cheap_rename:
            self._staged_names.update(file.name for file in staged_files)
        return [
            replace(
                file,
                folder=folder,
                partition_values={name: values.get(v or "", v) for name, v in file.partition_values.items()},
            )
            for file in staged_files
        ]

    def withdraw(self, names: Collection[str]) -> None:
        """Remove some published files that will not be committed."""
        for name in names:
            self._folder.remove(name)
        self._published_names = [name for name in self._published_names if name not in names]

    def publish(self, files: Sequence[DataFile]) -> list[DataFile]:
        """Move staged files to their final places in the table, and return them with their new names.

        On an object store, the files stay in their folder and keep their names.
        """
        if self._folder.has_cheap_rename:
            return [self._move(file) for file in files]
        self._published_names += [file.name for file in files]
        return list(files)

    def _write(self, rows: DataFrame, target: str, folder_columns: Mapping[str, str]) -> list[DataFile]:
        """Write the rows below the folder `target`, and return the files."""
        uri = f"{self._folder.uri}/{target}"
        options = dict(self._folder.write_options)
        if self._layout.max_records_per_file is not None:
            options["maxRecordsPerFile"] = str(self._layout.max_records_per_file)
        if self._layout.row_group_bytes is not None:
            options["parquet.block.size"] = str(self._layout.row_group_bytes)
        if not self._folder.has_cheap_rename:
            try:
                uris = write_directly(rows, uri, partition_columns=list(folder_columns.values()), options=options)
                return self._files_in_place(target, uris, folder_columns)
            except DirectWriteError as error:
                _log.warning(
                    "Writing to %s through Spark's public API, which copies each file: %s.", self._folder.root, error
                )
                self._folder.remove_tree(target)
                # A task that is still running may write to the first folder later.
                target += _random_name(_RANDOM_PREFIX_LENGTH)
                self._unmoved_folders.append(target)
                uri = f"{self._folder.uri}/{target}"
        writer = rows.write.options(**options, **_COMMITTER_OPTIONS)
        if folder_columns:
            writer = writer.partitionBy(*folder_columns.values())
        writer.parquet(uri)
        return self._files_below(target, folder_columns)

    def _files_in_place(self, target: str, uris: Sequence[str], folder_columns: Mapping[str, str]) -> list[DataFile]:
        """Return the files with these URIs, or raise `DirectWriteError` if one is missing. Remove all other files."""
        names = {unquote(uri).removeprefix(f"{self._folder.uri}/") for uri in uris}
        files = {file.name: file for file in self._files_below(target, folder_columns)}
        for leftover_name in files.keys() - names:
            self._folder.remove(leftover_name)
        missing_names = names - files.keys()
        if missing_names:
            raise DirectWriteError(f"Spark's committer names files that do not exist, such as {min(missing_names)}")
        return [files[name] for name in sorted(names)]

    def _move(self, file: DataFile) -> DataFile:
        """Move a staged file to its place in the table, and return it with its new name."""
        staged_path = file.name.split("/", 3)[3]  # without STAGING_DIR, the folder of the operation and its subfolder
        if file.mark is not None:
            staged_path = staged_path.partition("/")[2]  # the first folder has the mark
        base = staged_path.rpartition("/")[2]
        random_path = f"{_random_name(_RANDOM_PREFIX_LENGTH)}/{_unique_name(base)}"
        # If the file has a partition column, a reader of a folder such as `day=2026-01-01` gets the column twice.
        is_random = self._layout.random_prefixes or self._layout.materializes_partition_columns
        name = file.folder + (random_path if is_random else staged_path)
        self._folder.rename(file.name, name)
        self._published_names.append(name)
        return replace(file, name=name)

    def _files_below(self, target: str, folder_columns: Mapping[str, str]) -> list[DataFile]:
        """Return the data files below the folder `target`."""
        partition_columns = {folder: name for name, folder in folder_columns.items()}
        files = []
        for stored in self._folder.files_below(target, but_not_in=_ATTEMPTS_DIR):
            directory, _, base = stored.name.removeprefix(f"{target}/").rpartition("/")
            if base.endswith(".parquet") and not base.startswith((".", "_")):
                files.append(
                    DataFile(
                        name=stored.name,
                        size_bytes=stored.size_bytes,
                        modified_ms=stored.modified_ms,
                        partition_values={
                            partition_columns[folder]: text
                            for folder, text in partition_values_of_dir(directory).items()
                        },
                    )
                )
        return files


def _unique_name(base: str) -> str:
    """Return a unique file name. A Spark task uses the same file name in each directory that it writes."""
    return f"part-{uuid.uuid4()}.{base.partition('.')[2]}"


def _with_mark(file: DataFile, marks: str | None) -> DataFile:
    """Return a file whose `mark` is the value of the column `marks`. Without this column, return it unchanged."""
    if marks is None:
        return file
    values = dict(file.partition_values)
    return replace(file, mark=values.pop(marks), partition_values=values)


def _settings(table: TableSchema, layout: WriteLayout, *, has_marks: bool) -> Mapping[str, str]:
    # Rows from a table with column mapping have field ids in their metadata, which are wrong in another table.
    ids = {"spark.sql.parquet.fieldId.write.enabled": str(table.mode is not MappingMode.NONE).lower()}
    open_count = OPEN_FILES if has_marks and not layout.partition_columns else layout.open_files
    open_files = {} if open_count is None else {_OPEN_FILES_SETTING: str(open_count)}
    variants = _SHRED_VARIANTS if layout.shreds_variants else _DO_NOT_SHRED_VARIANTS
    return _FORMAT_SETTINGS | ids | open_files | variants | (_OPTIMIZE_SETTINGS if layout.optimize else {})


def _partition_texts(schema: StructType, layout: WriteLayout) -> dict[str, Column]:
    """Return the text of each partition column in the log's spelling, by physical name."""
    return {f.name: partition_text(column_named(f.name), f.type) for f in schema if f.name in layout.partition_columns}


def _rows_to_write(
    frame: DataFrame,
    schema: StructType,
    texts: Mapping[str, Column],
    folder_columns: Mapping[str, str],
    layout: WriteLayout,
    mark_folders: Mapping[str, str],
) -> DataFrame:
    """Return the rows with the columns of the files and of the folders, with a rebalance hint if the layout optimizes.

    `mark_folders` maps the column with the marks, if there is one, to its folder column, which comes first.
    """
    file_columns = [column_named(f.name) for f in schema if f.name not in folder_columns]
    if layout.materializes_partition_columns:
        file_columns += [as_in_log(f) for f in schema if f.name in folder_columns]
    folders = [folder_text(text, folder_columns[name]).alias(folder_columns[name]) for name, text in texts.items()]
    marks = [column_named(name).alias(folder) for name, folder in mark_folders.items()]
    rows = frame.select(*file_columns, *marks, *folders)
    if not layout.optimize:
        return rows
    return rows.hint("rebalance", *[F.col(quoted(column)) for column in folder_columns.values()])


def partition_text(column: Column, data_type: DataType) -> Column:
    """Return a partition value as the text of the log. Protocol: Partition Value Serialization."""
    match data_type:
        case PrimitiveType("timestamp"):
            epoch = F.expr("TIMESTAMP_NTZ '1970-01-01 00:00:00'")
            utc = F.timestamp_add("MICROSECOND", F.unix_micros(column), epoch)
            return F.concat(_text_without_zone(utc, separator="T"), F.lit("Z"))
        case PrimitiveType("timestamp_ntz"):
            return _text_without_zone(column, separator=" ")
        case _:
            return column.cast("string")


def _text_without_zone(column: Column, *, separator: str) -> Column:
    """Return the text of a timestamp_ntz, such as `2026-01-01 00:00:00.000000`.

    `date_format` would use the session's time zone, in which some hours occur twice or never.
    """
    # The text of a year above 9999 or below 1 is longer, so the day is split off at the blank and not at a position.
    text = column.cast("string")
    day, clock = F.substring_index(text, " ", 1), F.substring_index(text, " ", -1)
    fraction = F.rpad(F.substring(clock, 10, 6), 6, "0")
    return F.concat(day, F.lit(separator), F.substring(clock, 1, 8), F.lit("."), fraction)


def foreign_entry(folder: TableFolder) -> str | None:
    """Return the name of a visible file or folder in the root of a table without commits, or None.

    If there is a staging folder, the function returns None: the other files are leftovers of a write that was killed
    before its commit.
    """
    names = folder.names()
    if STAGING_DIR in names:
        return None
    return next((name for name in names if not name.startswith(("_", "."))), None)


def _random_name(length: int) -> str:
    return "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(length))
