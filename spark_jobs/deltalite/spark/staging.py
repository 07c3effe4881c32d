"""Writing rows into data files that no reader can see yet.

Spark writes into a fresh directory of its own below the table; only that directory is listed, never the table. Where a
rename is cheap its name begins with `_`, so that no engine takes it for data, and `publish` renames the files to the
conventional layout. On an object store it is a short random prefix, and the files stay. There they wait for the commit.
What is written and not committed is removed on leaving the block, if the process lives to do it; the rest is what
VACUUM is for. Partition values are made text by Spark before they become directory names, so that the log gets exactly
what Delta asks for; what no name can hold is the matter of `long_values`. Protocol: Data Files, Partition Value
Serialization.
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
from deltalite.spark.columns import named, quoted
from deltalite.spark.direct_write import MANIFEST, MANIFEST_DIR, DirectWriteError, manifest_uris, write_directly
from deltalite.spark.errors import SPARK_ERRORS, data_error
from deltalite.spark.folders import TableFolder
from deltalite.spark.guards import Guard, guarded, violation
from deltalite.spark.long_values import folder_text, long_values
from deltalite.spark.session import settings
from deltalite.spark.stored_columns import stored_columns

# Where Hadoop's committer keeps the files of task attempts; one that outlived its job may still write there.
_ATTEMPTS_DIR = "_temporary"
_FORMAT_SETTINGS = {
    # INT96, Spark's default, has no statistics and is deprecated; the protocol asks for 64-bit microseconds.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": "false",
}
_OPTIMIZE_SETTINGS = {
    # Rebalancing is the work of adaptive execution, which a session may have switched off.
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.enabled": "true",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": str(128 * 1024 * 1024),
}
# Without a limit Spark sorts the rows of each task by their partition, though they may all belong to one.
_OPEN_FILES_SETTING = "spark.sql.maxConcurrentOutputFileWriters"
# Spark's committers begin the name of a file with the number of the task that wrote it.
_OF_TASK = re.compile(r"part-(\d+)-")
_RANDOM_PREFIX_LENGTH = 2
# Long enough that no two writes meet in one folder.
_OWN_PREFIX_LENGTH = 8

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A written file. `name` is its real path relative to the table's root; values are as the log wants them.

    `folder` is where in the table it belongs: empty, or a name that ends with `/`.
    """

    name: str
    size_bytes: int
    modified_ms: int
    partition_values: Mapping[str, str | None]
    folder: str = ""

    @property
    def task(self) -> int | None:
        """The number of the partition of the written rows that the file, not moved yet, holds rows of."""
        found = _OF_TASK.match(self.name.rpartition("/")[2])
        return None if found is None else int(found[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteLayout:
    """How rows become files. `partition_columns` are the names that files have for them.

    `open_files` says that no task has rows for more files at once, so that they need no sorting. `row_group_bytes` is
    about the size of a row group, Spark's own where None.
    """

    partition_columns: Sequence[str]
    max_records_per_file: int | None = None
    optimize: bool = False
    random_prefixes: bool = False
    open_files: int | None = None
    row_group_bytes: int | None = None


class StagedWrite:
    """The files of one operation, from Spark's task to the commit.

    Use it as a context manager: leaving the block without `keep()` removes every file that it made.
    """

    def __init__(self, folder: TableFolder, layout: WriteLayout) -> None:
        self._folder = folder
        self._layout = layout
        self._staging = f"{STAGING_DIR}/{uuid.uuid4()}"
        self._made = folder.missing()
        self._prefixes: list[str] = []  # the folders of files that stay where they were written
        self._staged: set[str] = set()
        self._published: list[str] = []
        self._keeps_files = False
        self._keeps_staging = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        folder = self._folder
        if not self._keeps_staging:
            folder.remove_tree(self._staging)
            folder.remove_if_empty(STAGING_DIR)
        if self._keeps_files:
            for name in self._staged.difference(self._published):
                folder.remove(name)
            return
        for prefix in self._prefixes:
            folder.remove_tree(prefix)
        if not folder.renames:
            return
        for name in self._published:
            folder.remove(name)
            for parent in PurePosixPath(name).parents[:-1]:
                folder.remove_if_empty(str(parent))
        if self._made:
            folder.remove_if_empty("_delta_log")
        for made in self._made:
            folder.remove_if_empty(made)

    def keep(self) -> None:
        """The files are committed: they stay."""
        self._keeps_files = True

    def leave(self) -> None:
        """Nobody knows whether the files are committed: they stay, as a process that is killed leaves them."""
        self._keeps_files = self._keeps_staging = True
        self._staged.clear()

    def write(
        self,
        frame: DataFrame,
        table: TableSchema,
        guards: Sequence[Guard],
        *,
        folder: str = "",
        known_values: Iterable[str] = (),
    ) -> list[DataFile]:
        """Write the rows, which have the table's columns as users see them, if all of them pass the guards.

        What other columns they have is for the guards alone. The files belong into `folder`, which ends with `/`. Files
        without rows are not among the result. `known_values` are values of partitions, so that the rows need not be
        asked for those that are too long for the name of a folder.

        Raises:
            ConstraintViolationError: a row breaks a guard.
            SourceError: a row cannot be computed, or rows that are computed again are others.
            StoragePermissionError, StorageError: the table's folder cannot be written.
        """
        # The staging folder says that the table's folder can be written, before Spark says it in three hundred lines,
        # and afterwards that a write which was killed has been here (`foreign_entry`).
        self._folder.make(self._staging)
        if self._folder.renames:
            target = f"{self._staging}/{uuid.uuid4()}"
        else:
            target = f"{folder}{_random_name(_OWN_PREFIX_LENGTH)}"
            self._prefixes.append(target)
        with settings(frame.sparkSession, _settings(table, self._layout)):
            passed = guarded(frame, guards, table.logical.names).select(*stored_columns(table))
            texts = _partition_texts(table.physical, self._layout)
            rows = _laid_out(passed, table.physical, texts, self._layout)
            try:
                written = self._write(rows, target)
                called = {value for file in written for value in file.partition_values.values()}
                values = long_values(called, passed, texts, known_values)
            except SPARK_ERRORS as error:
                if (typed := violation(error, guards) or data_error(error)) is None:
                    raise
                raise typed from error
        if not self._folder.renames:
            self._staged.update(file.name for file in written)
        return [
            replace(
                file,
                folder=folder,
                partition_values={name: values.get(v or "", v) for name, v in file.partition_values.items()},
            )
            for file in written
        ]

    def withdraw(self, names: Collection[str]) -> None:
        """Remove published files that will not be committed, though others will."""
        for name in names:
            self._folder.remove(name)
        self._published = [name for name in self._published if name not in names]

    def publish(self, files: Sequence[DataFile]) -> list[DataFile]:
        """Move staged files to where they belong in the table."""
        if self._folder.renames:
            return [self._moved(file) for file in files]
        self._published += [file.name for file in files]
        return list(files)

    def _write(self, rows: DataFrame, target: str) -> list[DataFile]:
        uri = f"{self._folder.uri}/{target}"
        options = {}
        if self._layout.max_records_per_file is not None:
            options["maxRecordsPerFile"] = str(self._layout.max_records_per_file)
        if self._layout.row_group_bytes is not None:
            options["parquet.block.size"] = str(self._layout.row_group_bytes)
        if not self._folder.renames:
            try:
                write_directly(rows, uri, partition_columns=self._layout.partition_columns, options=options)
                return self._in_manifest(target)
            except DirectWriteError as error:
                _log.warning("Writing through Spark's public API, which copies each file: %s.", error)
                self._folder.remove_tree(target)
        writer = rows.write.options(**options).option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        if self._layout.partition_columns:
            writer = writer.partitionBy(*self._layout.partition_columns)
        writer.parquet(uri)
        return self._listed(target)

    def _in_manifest(self, target: str) -> list[DataFile]:
        """The files of tasks that succeeded; what others left is not among them."""
        manifest = self._folder.read(f"{target}/{MANIFEST}")
        if manifest is None:
            raise DirectWriteError("Spark's sink left no manifest")
        self._folder.remove_tree(f"{target}/{MANIFEST_DIR}")
        names = {unquote(uri).removeprefix(f"{self._folder.uri}/") for uri in manifest_uris(manifest)}
        found = {file.name: file for file in self._listed(target)}
        for stray in found.keys() - names:
            self._folder.remove(stray)
        missing = names - found.keys()
        if missing:
            raise DirectWriteError(f"Spark's sink names files that are not there, such as {min(missing)}")
        return [found[name] for name in sorted(names)]

    def _moved(self, file: DataFile) -> DataFile:
        inside = file.name.split("/", 3)[3]
        base = inside.rpartition("/")[2]
        placed = f"{_random_name(_RANDOM_PREFIX_LENGTH)}/{_own_name(base)}" if self._layout.random_prefixes else inside
        name = file.folder + placed
        self._folder.rename(file.name, name)
        self._published.append(name)
        return replace(file, name=name)

    def _listed(self, target: str) -> list[DataFile]:
        found = []
        for stored in self._folder.files_below(target, but_not_in=_ATTEMPTS_DIR):
            directory, _, base = stored.name.removeprefix(f"{target}/").rpartition("/")
            if base.endswith(".parquet") and not base.startswith((".", "_")):
                found.append(
                    DataFile(
                        name=stored.name,
                        size_bytes=stored.size_bytes,
                        modified_ms=stored.modified_ms,
                        partition_values=partition_values_of_dir(directory),
                    )
                )
        return found


def _own_name(base: str) -> str:
    """A name that no other file has: a task of Spark's calls its files alike in each of the directories it writes."""
    return f"part-{uuid.uuid4()}.{base.partition('.')[2]}"


def _settings(table: TableSchema, layout: WriteLayout) -> Mapping[str, str]:
    # Rows that were read from a mapped table bring ids along, which mean nothing in another one.
    ids = {"spark.sql.parquet.fieldId.write.enabled": str(table.mode is not MappingMode.NONE).lower()}
    open_files = {} if layout.open_files is None else {_OPEN_FILES_SETTING: str(layout.open_files)}
    return _FORMAT_SETTINGS | ids | open_files | (_OPTIMIZE_SETTINGS if layout.optimize else {})


def _partition_texts(schema: StructType, layout: WriteLayout) -> dict[str, Column]:
    """The partition columns as the log's text."""
    return {f.name: partition_text(named(f.name), f.type) for f in schema if f.name in layout.partition_columns}


def _laid_out(frame: DataFrame, schema: StructType, texts: Mapping[str, Column], layout: WriteLayout) -> DataFrame:
    """The rows as they go to files: partition columns as folders are called, rows brought together if that is asked."""
    folders = {name: folder_text(text, name).alias(name) for name, text in texts.items()}
    rows = frame.select(*[folders.get(f.name, named(f.name)) for f in schema])
    if not layout.optimize:
        return rows
    if not layout.partition_columns:
        return rows.hint("rebalance")
    return rows.hint("rebalance", *[F.col(quoted(c)) for c in layout.partition_columns])


def partition_text(column: Column, data_type: DataType) -> Column:
    """A partition value as the log's text. Protocol: Partition Value Serialization."""
    match data_type:
        case PrimitiveType("timestamp"):
            moment = F.expr("TIMESTAMP_NTZ '1970-01-01 00:00:00'")
            utc = F.timestamp_add("MICROSECOND", F.unix_micros(column), moment)
            return F.concat(_zoneless_text(utc, between="T"), F.lit("Z"))
        case PrimitiveType("timestamp_ntz"):
            return _zoneless_text(column, between=" ")
        case _:
            return column.cast("string")


def _zoneless_text(column: Column, *, between: str) -> Column:
    """`2026-01-01 00:00:00.000000`: formatting goes through the session's zone, which has hours twice and never."""
    text = column.cast("string")  # years beyond 9999, and before 1, are longer
    day, clock = F.substring_index(text, " ", 1), F.substring_index(text, " ", -1)
    fraction = F.rpad(F.substring(clock, 10, 6), 6, "0")
    return F.concat(day, F.lit(between), F.substring(clock, 1, 8), F.lit("."), fraction)


def foreign_entry(folder: TableFolder) -> str | None:
    """A file or folder below the root that a table without commits cannot have; hidden ones do not count.

    A staging folder says that whatever lies beside it was left by a try of ours that was killed before its commit.
    """
    names = folder.names()
    if STAGING_DIR in names:
        return None
    return next((name for name in names if not name.startswith(("_", "."))), None)


def _random_name(length: int) -> str:
    return "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(length))
