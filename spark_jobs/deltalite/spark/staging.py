"""Writing rows into data files that no reader can see yet.

Spark writes into a fresh directory of its own below the table, whose name begins with `_`, so that no engine takes it
for data; only that directory is listed, never the table. `publish` then renames the files to the conventional layout,
where they wait for the commit. What is written and not committed is removed on leaving the block, if the process lives
to do it; the rest is what VACUUM is for. Partition values are made text by Spark before they become directory names,
so that the log gets exactly what Delta asks for. Protocol: Data Files, Partition Value Serialization.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
import string
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.errors import InvalidTableAddressError, StorageError, StoragePermissionError
from deltalite.protocol.column_mapping import MappingMode, TableSchema
from deltalite.protocol.paths import partition_values_of_dir
from deltalite.protocol.schema import DataType, PrimitiveType, StructType
from deltalite.spark.columns import named, quoted
from deltalite.spark.errors import SPARK_ERRORS, data_error
from deltalite.spark.guards import Guard, guarded, violation
from deltalite.spark.session import settings
from deltalite.spark.stored_columns import stored_columns

STAGING_DIR = "_deltalite_staging"
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
_RANDOM_PREFIX_LENGTH = 2
_MOST_RENAMES = 5

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A written file. `name` is its real path relative to the table's root; values are as the log wants them."""

    name: str
    size_bytes: int
    modified_ms: int
    partition_values: Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteLayout:
    """How rows become files. `partition_columns` are the names that files have for them."""

    partition_columns: Sequence[str]
    max_records_per_file: int | None = None
    optimize: bool = False
    random_prefixes: bool = False


class StagedWrite:
    """The files of one operation, from Spark's task to the commit.

    Use it as a context manager: leaving the block without `keep()` removes every file that it made.
    """

    def __init__(self, root: str, layout: WriteLayout) -> None:
        self._root = Path(root)
        self._layout = layout
        self._folder = f"{STAGING_DIR}/{uuid.uuid4()}"
        self._made = [folder for folder in (self._root, *self._root.parents) if not folder.exists()]
        self._published: list[str] = []
        self._keeps_files = False
        self._keeps_staging = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        if not self._keeps_staging:
            shutil.rmtree(self._root / self._folder, ignore_errors=True)
            _remove_if_empty(self._root / STAGING_DIR)
        if self._keeps_files:
            return
        for name in self._published:
            (self._root / name).unlink(missing_ok=True)
            for parent in Path(name).parents[:-1]:
                _remove_if_empty(self._root / parent)
        if self._made:
            _remove_if_empty(self._root / "_delta_log")
        for folder in self._made:
            _remove_if_empty(folder)

    def keep(self) -> None:
        """The files are committed: they stay."""
        self._keeps_files = True

    def leave(self) -> None:
        """Nobody knows whether the files are committed: they stay, as a process that is killed leaves them."""
        self._keeps_files = self._keeps_staging = True

    def write(self, frame: DataFrame, table: TableSchema, guards: Sequence[Guard]) -> list[DataFile]:
        """Write the rows, which have the table's columns as users see them, if all of them pass the guards.

        Files without rows are not among the result.

        Raises:
            ConstraintViolationError: a row breaks a guard.
            SourceError: a row cannot be computed.
            StoragePermissionError, StorageError: the table's folder cannot be written.
        """
        target = f"{self._folder}/{uuid.uuid4()}"
        self._check_writable()
        with settings(frame.sparkSession, _settings(table, self._layout)):
            rows = _laid_out(guarded(frame, guards).select(*stored_columns(table)), table.physical, self._layout)
            writer = rows.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
            if self._layout.max_records_per_file is not None:
                writer = writer.option("maxRecordsPerFile", self._layout.max_records_per_file)
            if self._layout.partition_columns:
                writer = writer.partitionBy(*self._layout.partition_columns)
            try:
                writer.parquet(f"file:{self._root}/{target}")
            except SPARK_ERRORS as error:
                raise violation(error, guards) or data_error(error) or error from error
        return self._listed(target)

    def publish(self, files: Sequence[DataFile], *, folder: str = "") -> list[DataFile]:
        """Move staged files to where they belong in the table, or in a `folder` of it (which ends with `/`)."""
        return [self._moved(file, folder) for file in files]

    def _moved(self, file: DataFile, folder: str) -> DataFile:
        inside = file.name.split("/", 3)[3]
        base = inside.rpartition("/")[2]
        name = folder + (f"{_random_prefix()}/{base}" if self._layout.random_prefixes else inside)
        target = self._root / name
        with _storage_errors(self._root):
            _rename_into_place(self._root / file.name, target)
        self._published.append(name)
        return DataFile(
            name=name, size_bytes=file.size_bytes, modified_ms=file.modified_ms, partition_values=file.partition_values
        )

    def _listed(self, target: str) -> list[DataFile]:
        found = []
        top = self._root / target
        for folder, folders, names in os.walk(top):
            folders[:] = [name for name in folders if name != _ATTEMPTS_DIR]
            directory = "" if Path(folder) == top else str(Path(folder).relative_to(top))
            values = partition_values_of_dir(directory)
            for base in sorted(n for n in names if n.endswith(".parquet") and not n.startswith((".", "_"))):
                status = os.stat(os.path.join(folder, base))
                found.append(
                    DataFile(
                        name="/".join(part for part in (target, directory, base) if part),
                        size_bytes=status.st_size,
                        modified_ms=status.st_mtime_ns // 1_000_000,
                        partition_values=values,
                    )
                )
        return found

    def _check_writable(self) -> None:
        """Say that a folder is read-only before Spark says it in three hundred lines."""
        with _storage_errors(self._root):
            (self._root / self._folder).mkdir(parents=True, exist_ok=True)


def _settings(table: TableSchema, layout: WriteLayout) -> Mapping[str, str]:
    # Rows that were read from a mapped table bring ids along, which mean nothing in another one.
    ids = {"spark.sql.parquet.fieldId.write.enabled": str(table.mode is not MappingMode.NONE).lower()}
    return _FORMAT_SETTINGS | ids | (_OPTIMIZE_SETTINGS if layout.optimize else {})


def _laid_out(frame: DataFrame, schema: StructType, layout: WriteLayout) -> DataFrame:
    """The rows as they go to files: partition columns as the log's text, rows brought together where that is asked."""
    by_name = {f.name: f for f in schema}
    columns = [
        partition_text(named(name), by_name[name].type).alias(name) if name in layout.partition_columns else named(name)
        for name in by_name
    ]
    rows = frame.select(*columns)
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
    text = column.cast("string")
    fraction = F.rpad(F.substring(text, 21, 6), 6, "0")
    return F.concat(F.substring(text, 1, 10), F.lit(between), F.substring(text, 12, 8), F.lit("."), fraction)


@contextlib.contextmanager
def _storage_errors(root: Path) -> Iterator[None]:
    try:
        yield
    except PermissionError as error:
        raise StoragePermissionError(
            f"No permission to write to {root}: {error}.",
            remedy="Give the user that runs the job access to the table's folder.",
        ) from error
    except (NotADirectoryError, FileExistsError) as error:
        raise InvalidTableAddressError(
            f"{root} cannot be a table: {error}.", remedy="Give the address of a folder, or of none yet."
        ) from error
    except OSError as error:
        raise StorageError(
            f"Cannot write to {root}: {error}.", remedy="Check the disk and the mount; the task may be retried."
        ) from error


def foreign_entry(root: str) -> str | None:
    """A file or folder below `root` that a table without commits cannot have; hidden ones do not count.

    A staging folder says that whatever lies beside it was left by a try of ours that was killed before its commit.
    """
    if os.path.isdir(os.path.join(root, STAGING_DIR)):
        return None
    try:
        names = sorted(os.listdir(root))
    except (FileNotFoundError, NotADirectoryError):
        return None
    return next((name for name in names if not name.startswith(("_", "."))), None)


def _rename_into_place(source: Path, target: Path) -> None:
    """Rename, making the folder: again where another writer, taking its own files back, removes it in between."""
    for _ in range(_MOST_RENAMES):
        target.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.rename(source, target)
            return
    os.rename(source, target)


def _random_prefix() -> str:
    return "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(_RANDOM_PREFIX_LENGTH))


def _remove_if_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()
