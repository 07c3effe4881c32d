"""Written data files as the log describes them: size, partition and statistics.

Statistics come from the Parquet footers, which the driver reads in parallel, not from a second pass over the rows. A
file without rows is not worth an entry and is left behind in the staging folder. Protocol: Per-file Statistics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.columnar.file_facts import parse_stats
from deltalite.columnar.parquet_files import read_footers
from deltalite.columnar.statistics import indexed_columns, statistics_json
from deltalite.commands.write_target import WriteTarget
from deltalite.errors import ConstraintViolationError, CorruptLogError, UnsupportedFeatureError
from deltalite.protocol import properties as props
from deltalite.protocol.actions import AddCDCFile, AddFile
from deltalite.protocol.column_mapping import MappingMode
from deltalite.protocol.partition_values import parse_partition_value
from deltalite.protocol.paths import decode_path, encode_path
from deltalite.protocol.schema import DataType, PrimitiveType
from deltalite.spark.staging import DataFile, StagedWrite, WriteLayout
from deltalite.storage.log_store import LogStore

_NO_CHARACTER = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFiles:
    """Files that wait for the commit. `staged` are those behind `adds`, as they were before they were published."""

    adds: tuple[AddFile, ...]
    staged: tuple[DataFile, ...]
    rows: int
    size_bytes: int

    @classmethod
    def none(cls) -> WrittenFiles:
        """No file."""
        return cls(adds=(), staged=(), rows=0, size_bytes=0)

    @staticmethod
    def rows_of(files: pa.Table) -> int | None:
        """The rows in a table of files, without deleted ones; None where a file has no statistics."""
        rows = live_rows_of(files)
        return None if None in rows else sum(count or 0 for count in rows)


def live_rows_of(files: pa.Table) -> list[int | None]:
    """The rows of each file without deleted ones, by its statistics; None where it has none."""
    deleted = pc.struct_field(files["deletionVector"], "cardinality").to_pylist()
    records = (
        None if (stats := parse_stats(text)) is None else stats.num_records for text in files["stats"].to_pylist()
    )
    return [None if count is None else count - (gone or 0) for count, gone in zip(records, deleted, strict=True)]


def live_rows_by_footers(store: LogStore, files: pa.Table) -> list[int]:
    """The same by the footers, whatever the log says. Raises `CorruptDataFileError`, `StorageError`."""
    deleted = pc.struct_field(files["deletionVector"], "cardinality").to_pylist()
    footers = read_footers(store, [decode_path(p) for p in files["path"].to_pylist()])
    return [footer.num_rows - (gone or 0) for footer, gone in zip(footers, deleted, strict=True)]


def rows_counted(store: LogStore, files: pa.Table) -> int:
    """The rows in a table of files: by their statistics, or by their footers where one of them has none."""
    known = WrittenFiles.rows_of(files)
    return sum(live_rows_by_footers(store, files)) if known is None else known


def write_layout(target: WriteTarget, *, optimize: bool, max_records_per_file: int | None = None) -> WriteLayout:
    """How the rows of a table become files."""
    return WriteLayout(
        partition_columns=tuple(target.table.partition_keys),
        max_records_per_file=max_records_per_file,
        optimize=optimize,
        random_prefixes=target.table.mode is not MappingMode.NONE  # directories of physical names say nothing
        or props.RANDOM_FILE_PREFIXES.of(target.metadata.configuration),
    )


def described(
    store: LogStore, staging: StagedWrite, written: Sequence[DataFile], target: WriteTarget, *, data_change: bool
) -> WrittenFiles:
    """Publish the staged files that hold rows, and describe them.

    Raises:
        ConstraintViolationError: a partition value could not be read back.
    """
    indexed = indexed_columns(target.table, target.metadata.configuration, always=target.clustering)
    footers = read_footers(store, [file.name for file in written])
    kept = [(file, footer) for file, footer in zip(written, footers, strict=True) if footer.num_rows > 0]
    _check_partition_values([file for file, _ in kept], target)
    keys = target.table.partition_keys
    published = staging.publish([file for file, _ in kept])
    adds = tuple(
        AddFile(
            path=encode_path(file.name),
            partition_values={keys[name]: text for name, text in file.partition_values.items()},
            size_bytes=file.size_bytes,
            modification_time_ms=file.modified_ms,
            data_change=data_change,
            stats=statistics_json(footer, indexed),
        )
        for file, (_, footer) in zip(published, kept, strict=True)
    )
    return WrittenFiles(
        adds=adds,
        staged=tuple(file for file, _ in kept),
        rows=sum(footer.num_rows for _, footer in kept),
        size_bytes=sum(a.size_bytes for a in adds),
    )


def described_changes(
    store: LogStore, staging: StagedWrite, written: Sequence[DataFile], target: WriteTarget
) -> tuple[AddCDCFile, ...]:
    """Publish the staged files of changed rows that hold any, and describe them. Protocol: Change Data Files."""
    footers = read_footers(store, [file.name for file in written])
    kept = [file for file, footer in zip(written, footers, strict=True) if footer.num_rows > 0]
    keys = target.table.partition_keys
    return tuple(
        AddCDCFile(
            path=encode_path(file.name),
            partition_values={keys[name]: text for name, text in file.partition_values.items()},
            size_bytes=file.size_bytes,
            data_change=False,
        )
        for file in staging.publish(kept)
    )


def _shown(physical: str, target: WriteTarget) -> str:
    """The name that users know a column by."""
    both = zip(target.table.physical, target.table.logical, strict=True)
    return next(logical.name for stored, logical in both if stored.name == physical)


def _check_partition_values(files: Sequence[DataFile], target: WriteTarget) -> None:
    """Refuse values that the log could not hold, or that nobody could read, such as a date in the year 20260."""
    for name in target.table.partition_keys:
        field = target.table.physical.find(name)
        for text in {file.partition_values[name] for file in files}:
            problem = None if field is None else _problem(text, field.type)
            if problem is not None:
                raise ConstraintViolationError(
                    f"Nothing was written: the partition column '{_shown(name, target)}' has the value {text!r}. "
                    f"{problem}",
                    remedy="Filter or correct such rows in `query`.",
                )


def _problem(text: str | None, data_type: DataType) -> str | None:
    """Why a partition value cannot stand in the log; None where it can.

    Bytes stand there as the text that they are in UTF-8, and Spark has another character in place of what is none.
    """
    if data_type == PrimitiveType("binary") and _NO_CHARACTER in (text or ""):
        return "Its bytes are no text in UTF-8, and the log has texts only."
    try:
        parse_partition_value(text, data_type)
    except (CorruptLogError, UnsupportedFeatureError) as error:
        return error.problem
    return None
