"""The data files of a write as the log describes them: size, partition values and statistics.

The statistics come from the Parquet footers, not from a second pass over the rows. The driver reads the footers in
parallel. A file without rows is not published. Protocol: Per-file Statistics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from deltalite.columnar.deletion_vectors.reading import check_positions, positions_of_vectors
from deltalite.columnar.parquet.files import read_footers
from deltalite.columnar.skipping.file_facts import parse_stats
from deltalite.columnar.statistics.footer import indexed_columns, statistics_json
from deltalite.commands.common.write_target import WriteTarget
from deltalite.errors import ConstraintViolationError, CorruptLogError, UnsupportedFeatureError
from deltalite.log.file_table import deleted_rows_by_file
from deltalite.protocol import properties as props
from deltalite.protocol.actions import AddCDCFile, AddFile
from deltalite.protocol.column_mapping import MappingMode
from deltalite.protocol.iceberg_compat import check_writes_data_files, file_tags
from deltalite.protocol.partition_columns_in_files import materializes_partition_columns
from deltalite.protocol.partition_values import parse_partition_value
from deltalite.protocol.paths import decode_path, encode_path
from deltalite.protocol.schema import DataType, PrimitiveType
from deltalite.protocol.variants import may_shred
from deltalite.spark.write.staging import DataFile, StagedWrite, WriteLayout
from deltalite.storage.log_store import LogStore

_REPLACEMENT_CHARACTER = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFiles:
    """Published files that are not committed yet.

    `staged_files` has the same files as `adds`, with the names that they had before the publication.
    """

    adds: tuple[AddFile, ...]
    staged_files: tuple[DataFile, ...]
    row_count: int
    size_bytes: int

    @classmethod
    def empty(cls) -> PublishedFiles:
        """Return a value without files."""
        return cls(adds=(), staged_files=(), row_count=0, size_bytes=0)


def live_rows_per_file_by_statistics(files: pa.Table) -> list[int | None]:
    """Return the number of live rows of each file by its statistics, or None if these lack the row count."""
    row_counts = (
        None if (stats := parse_stats(text)) is None else stats.num_records for text in files["stats"].to_pylist()
    )
    counts = zip(row_counts, deleted_rows_by_file(files).to_pylist(), strict=True)
    return [None if row_count is None else row_count - deleted_count for row_count, deleted_count in counts]


def live_rows_per_file_by_footers(store: LogStore, files: pa.Table) -> list[int]:
    """Return the number of live rows of each file by its footer.

    Raises:
        CorruptDataFileError: a footer or a deletion vector cannot be read, or a vector deletes rows that its file does
            not have.
        StorageError: storage does not answer.
    """
    names = [decode_path(p) for p in files["path"].to_pylist()]
    row_counts = [footer.num_rows for footer in read_footers(store, names)]
    vectors = {n: vector for n, vector in enumerate(files["deletionVector"].to_pylist()) if vector is not None}
    for n, positions in zip(vectors, positions_of_vectors(store, list(vectors.values())), strict=True):
        check_positions(positions, row_counts[n], names[n])
    deleted_counts = deleted_rows_by_file(files).to_pylist()
    return [row_count - deleted_count for row_count, deleted_count in zip(row_counts, deleted_counts, strict=True)]


def live_row_count_by_statistics(files: pa.Table) -> int | None:
    """Return the number of live rows in a table of files, or None if the statistics of a file lack its row count."""
    counts = live_rows_per_file_by_statistics(files)
    return None if None in counts else sum(count or 0 for count in counts)


def live_row_count(store: LogStore, files: pa.Table) -> int:
    """Return the number of live rows in a table of files: by statistics, or by footers if these lack a row count."""
    count = live_row_count_by_statistics(files)
    return sum(live_rows_per_file_by_footers(store, files)) if count is None else count


def write_layout(target: WriteTarget, *, optimize: bool, max_records_per_file: int | None = None) -> WriteLayout:
    """Return the layout of the table's data files.

    Raises:
        UnsupportedFeatureError: this release cannot write data files of the table.
    """
    check_writes_data_files(target.protocol, target.metadata)
    return WriteLayout(
        partition_columns=tuple(target.table.partition_keys),
        max_records_per_file=max_records_per_file,
        optimize=optimize,
        # With column mapping, partition folders would have physical names, which users cannot read.
        random_prefixes=target.table.mode is not MappingMode.NONE
        or props.RANDOM_FILE_PREFIXES.of(target.metadata.configuration),
        shreds_variants=may_shred(target.protocol, target.metadata),
        materializes_partition_columns=materializes_partition_columns(target.protocol, target.metadata),
    )


def publish_files(
    store: LogStore, staging: StagedWrite, staged_files: Sequence[DataFile], target: WriteTarget, *, data_change: bool
) -> PublishedFiles:
    """Publish the staged files that hold rows, and return them as the log describes them.

    Raises:
        ConstraintViolationError: the log cannot store a partition value.
    """
    indexed = indexed_columns(target.table, target.metadata.configuration, always=target.clustering)
    all_footers = read_footers(store, [file.name for file in staged_files])
    pairs = [(file, footer) for file, footer in zip(staged_files, all_footers, strict=True) if footer.num_rows > 0]
    files_to_publish, footers = [file for file, _ in pairs], [footer for _, footer in pairs]
    _check_partition_values(files_to_publish, target)
    keys, tags = target.table.partition_keys, file_tags(target.protocol, target.metadata)
    published = staging.publish(files_to_publish)
    statistics = (statistics_json(footer, indexed) for footer in footers)
    adds = tuple(
        replace(add_of_data_file(file, keys, data_change=data_change), stats=stats, tags=tags)
        for file, stats in zip(published, statistics, strict=True)
    )
    return PublishedFiles(
        adds=adds,
        staged_files=tuple(files_to_publish),
        row_count=sum(footer.num_rows for footer in footers),
        size_bytes=sum(add.size_bytes for add in adds),
    )


def add_of_data_file(file: DataFile, partition_keys: Mapping[str, str], *, data_change: bool) -> AddFile:
    """Return the `add` action of a data file, without statistics and tags. `partition_keys` are those of the table."""
    return AddFile(
        path=encode_path(file.name),
        partition_values={partition_keys[name]: text for name, text in file.partition_values.items()},
        size_bytes=file.size_bytes,
        modification_time_ms=file.modified_ms,
        data_change=data_change,
    )


def publish_change_files(
    store: LogStore, staging: StagedWrite, staged_files: Sequence[DataFile], target: WriteTarget
) -> tuple[AddCDCFile, ...]:
    """Publish the staged change data files that hold rows, and return them as actions. Protocol: Change Data Files."""
    footers = read_footers(store, [file.name for file in staged_files])
    files_with_rows = [file for file, footer in zip(staged_files, footers, strict=True) if footer.num_rows > 0]
    keys = target.table.partition_keys
    return tuple(
        AddCDCFile(
            path=encode_path(file.name),
            partition_values={keys[name]: text for name, text in file.partition_values.items()},
            size_bytes=file.size_bytes,
            data_change=False,
        )
        for file in staging.publish(files_with_rows)
    )


def _logical_name(physical: str, target: WriteTarget) -> str:
    """Return the logical name of the column with this physical name."""
    columns = zip(target.table.physical, target.table.logical, strict=True)
    return next(logical.name for stored, logical in columns if stored.name == physical)


def _check_partition_values(files: Sequence[DataFile], target: WriteTarget) -> None:
    """Refuse values that the log cannot store or that readers cannot parse, such as a date in the year 20260."""
    for name in target.table.partition_keys:
        field = target.table.physical.find(name)
        for text in {file.partition_values[name] for file in files}:
            problem = None if field is None else _partition_value_problem(text, field.type)
            if problem is not None:
                raise ConstraintViolationError(
                    f"The rows have the value {text!r} in the partition column '{_logical_name(name, target)}'. "
                    f"{problem} Nothing was committed.",
                    remedy="Filter or correct such rows in `query`.",
                )


def _partition_value_problem(text: str | None, data_type: DataType) -> str | None:
    """Return why the log cannot store a partition value, or None if it can.

    The log stores bytes as UTF-8 text. Spark has already put the replacement character in place of invalid bytes.
    """
    if data_type == PrimitiveType("binary") and _REPLACEMENT_CHARACTER in (text or ""):
        return "Its bytes are not UTF-8, and the log stores text only."
    try:
        parse_partition_value(text, data_type)
    except (CorruptLogError, UnsupportedFeatureError) as error:
        return error.problem
    return None
