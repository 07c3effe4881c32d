"""The distribution of a version's bytes and rows over files: classes of file sizes, and the largest partitions.

The values come from the log alone, without Spark. They are bounded, so that a process can hold the values of many
tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.columnar.skipping.files import group_by_partition
from deltalite.columnar.skipping.record_counts import num_records
from deltalite.inspection.shown_texts import shown_text
from deltalite.log.file_table import bytes_of, deleted_rows_by_file
from deltalite.snapshot import Snapshot

MAX_PARTITIONS = 100
_KIB = 1024
# Each limit is four times the previous limit, up to the default target of an optimize (256 MiB).
_LIMITS = tuple(16 * _KIB * 4**exponent for exponent in range(8))
LAYOUT_COLUMNS = ["partitionValues", "size", "stats", "deletionVector"]
_LONGEST_VALUE = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeClass:
    """The files with at least `min_bytes`, and less than `max_bytes` if it is not None."""

    min_bytes: int
    max_bytes: int | None
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSize:
    """A partition.

    - `values`: the values of the partition columns as texts; None stands for NULL.
    - `rows`: the rows that are not soft-deleted; None if the statistics of a file lack the number.
    """

    values: tuple[str | None, ...]
    files: int
    size_bytes: int
    rows: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLayout:
    """The files of a version.

    - `size_classes`: the classes from the one with the smallest file to the one with the largest file.
    - `partitions`: at most `MAX_PARTITIONS`, those with most bytes first; `partition_count` counts all. Empty for a
      table without partition columns.
    """

    size_classes: tuple[SizeClass, ...]
    partition_columns: tuple[str, ...]
    partitions: tuple[PartitionSize, ...]
    partition_count: int


def layout_of(snapshot: Snapshot, files: pa.Table) -> FileLayout:
    """Return the layout of a snapshot's files, which have the columns `LAYOUT_COLUMNS`."""
    files = files.select(LAYOUT_COLUMNS).combine_chunks()
    partitions = list(_partitions(files, list(snapshot.table_schema.partition_keys.values())))
    partitions.sort(key=lambda partition: (-partition.size_bytes, *(value or "" for value in partition.values)))
    return FileLayout(
        size_classes=tuple(_size_classes(files)),
        partition_columns=tuple(map(shown_text, snapshot.partition_columns)),
        partitions=tuple(partitions[:MAX_PARTITIONS]),
        partition_count=len(partitions),
    )


def _size_classes(files: pa.Table) -> list[SizeClass]:
    """Return the classes of file sizes, without empty classes at both ends."""
    classes = []
    for lower, upper in zip((0, *_LIMITS), (*_LIMITS, None), strict=True):
        is_in_class = pc.greater_equal(files["size"], lower)
        if upper is not None:
            is_in_class = pc.and_(is_in_class, pc.less(files["size"], upper))
        members = files.filter(is_in_class)
        classes.append(
            SizeClass(min_bytes=lower, max_bytes=upper, files=members.num_rows, size_bytes=bytes_of(members))
        )
    nonempty_indexes = [index for index, size_class in enumerate(classes) if size_class.files]
    return classes[nonempty_indexes[0] : nonempty_indexes[-1] + 1] if nonempty_indexes else []


def _partitions(files: pa.Table, keys: list[str]) -> Iterator[PartitionSize]:
    if not keys:
        return
    groups = group_by_partition(files, keys)
    # The protocol writes NULL as an empty text, too.
    all_values = [tuple(texts[key] or None for key in keys) for texts in groups.combinations]
    partition_numbers: dict[tuple[str | None, ...], int] = {}
    numbers = pa.array(
        [partition_numbers.setdefault(values, number) for number, values in enumerate(all_values)], pa.int64()
    )
    sums = (
        pa.table(
            {
                "partition": numbers.take(groups.combination_of_file),
                "size": files["size"],
                "rows": pc.subtract(num_records(files["stats"]), deleted_rows_by_file(files)),
            }
        )
        .group_by("partition")
        .aggregate(
            [
                ("size", "sum"),
                ("size", "count"),
                # A NULL among the rows makes the sum NULL: the number of rows is unknown.
                ("rows", "sum", pc.ScalarAggregateOptions(skip_nulls=False)),
            ]
        )
    )
    for row in sums.to_pylist():
        values = all_values[row["partition"]]
        yield PartitionSize(
            values=tuple(value and shown_text(value, max_length=_LONGEST_VALUE) for value in values),
            files=row["size_count"],
            size_bytes=row["size_sum"],
            rows=row["rows_sum"],
        )
