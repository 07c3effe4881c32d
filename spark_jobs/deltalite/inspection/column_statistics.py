"""The NULLs and the smallest and largest value of each column, from the statistics of a version's files in the log.

No data file is read, so a number is known only if each file has statistics of the column. A partition column takes its
values from the partition values of the files. The null count of a file with a deletion vector is certain if it counts
no row or all rows. Otherwise each live row of the file may be NULL, so the number is an upper limit.

The files are read in blocks, because a table may have a million. Protocol: Per-file Statistics (`tightBounds`);
Partition Value Serialization.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.columnar.predicates.predicate import Path
from deltalite.columnar.skipping.files import group_by_partition
from deltalite.columnar.skipping.stats_columns import values_where
from deltalite.errors import CorruptLogError, UnsupportedFeatureError
from deltalite.inspection.column_bounds import Bound, Extreme, Side, extreme_of, text_of, without_saturated
from deltalite.inspection.columns import column_fields
from deltalite.log.file_table import deleted_rows_by_file
from deltalite.log.state import BlocksInvalidated
from deltalite.protocol.column_mapping import TableSchema
from deltalite.protocol.partition_values import partition_scalar
from deltalite.protocol.schema import ArrayType, DataType, MapType, StructType
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore
from deltalite.upkeep.stats_struct import StatsStruct

MAX_COLUMNS = 200
"""The largest number of columns and fields of structs whose statistics are read."""
_COLUMNS = ("partitionValues", "stats", "deletionVector")
_BLOCK_FILES = 20_000
_NESTED = (StructType, ArrayType, MapType)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStatistics:
    """The statistics of a column.

    - `nulls`: the number of NULLs; None if it is unknown.
    - `are_nulls_exact`: False if there are at most `nulls` NULLs.
    - `low`, `high`: the smallest and the largest value; None if they are unknown, or if no row has a value.
    """

    nulls: int | None
    are_nulls_exact: bool = True
    low: Bound | None = None
    high: Bound | None = None


def read_column_statistics(store: LogStore, version: int) -> tuple[ColumnStatistics | None, ...]:
    """Return the statistics of the first `MAX_COLUMNS` columns and fields, in the order of `column_rows`.

    A nested type has None, because it has no usable statistics.

    Raises:
        DeltaLiteError: the table cannot be read; see `Snapshot.load`.
    """
    snapshot = Snapshot.load(store, version)
    while True:
        try:
            return statistics_of(snapshot.table_schema, snapshot.file_blocks(_COLUMNS, max_rows=_BLOCK_FILES))
        except BlocksInvalidated:  # the snapshot now reads other log files, and their number is finite
            continue


def statistics_of(table: TableSchema, file_blocks: Iterable[pa.Table]) -> tuple[ColumnStatistics | None, ...]:
    """Return the statistics of files; see `read_column_statistics`.

    Args:
        table: the schema of the table.
        file_blocks: the files in blocks, with the columns `partitionValues`, `stats` and `deletionVector`.
    """
    sums: list[_Sums | None] = []
    leaves: list[tuple[Path, DataType]] = []
    for path, column in islice(column_fields(table.physical), MAX_COLUMNS):
        if isinstance(column.type, _NESTED):
            sums.append(None)
        elif path[0] in table.partition_keys:
            sums.append(_PartitionSums(table.partition_keys[path[0]], column.type))
        else:
            sums.append(_LeafSums(path))
            leaves.append((path, column.type))
    parser = StatsStruct(leaves, with_tight_bounds=True)
    for files in file_blocks:
        block = _Block.of(files, parser) if files.num_rows else None
        for column_sums in sums:
            if block is not None and column_sums is not None:
                column_sums.add(block)
    return tuple(None if column_sums is None else column_sums.statistics() for column_sums in sums)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """Some files with their parsed statistics.

    - `records`: the number of rows, including soft-deleted rows; null if unknown.
    - `live_rows`: the number of rows that are not soft-deleted; null if unknown, or if the log contradicts it.
    - `is_wide`: whether the statistics may be those of soft-deleted rows.
    - `is_empty`: whether all rows of the file are soft-deleted.
    """

    files: pa.Table
    stats: pa.StructArray
    records: pa.Int64Array
    live_rows: pa.Int64Array
    is_wide: pa.BooleanArray
    is_empty: pa.BooleanArray

    @classmethod
    def of(cls, files: pa.Table, parser: StatsStruct) -> _Block:
        files = files.combine_chunks()
        stats = parser.parse(files["stats"]).combine_chunks()
        vectors = files["deletionVector"].combine_chunks()
        deleted_rows = deleted_rows_by_file(files).combine_chunks()
        records = _member(stats, ("numRecords",))
        live_rows = pc.subtract(records, deleted_rows)
        live_rows = values_where(pc.greater_equal(live_rows, 0), live_rows)  # null if the log contradicts the number
        is_loose = pc.equal(_member(stats, ("tightBounds",)), False)
        is_empty = pc.and_kleene(pc.equal(live_rows, 0), pc.greater(deleted_rows, 0))
        return cls(
            files=files,
            stats=stats,
            records=records,
            live_rows=live_rows,
            is_wide=pc.or_(pc.is_valid(vectors), pc.fill_null(is_loose, False)),
            is_empty=pc.fill_null(is_empty, False),
        )


class _Sums(Protocol):
    """The statistics of a column, added up block by block."""

    def add(self, block: _Block) -> None:
        """Add the files of a block."""

    def statistics(self) -> ColumnStatistics:
        """Return the statistics of all blocks."""


class _LeafSums:
    """The sums of a column with statistics; `path` has physical names."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._exact_nulls = self._possible_nulls = 0
        self._are_nulls_known = True
        self._low, self._high = Extreme(Side.LOW), Extreme(Side.HIGH)

    def add(self, block: _Block) -> None:
        """Add the files of a block."""
        count = _member(block.stats, ("nullCount", *self._path))
        count = values_where(pc.fill_null(pc.less_equal(count, block.records), True), count)
        is_all_null = pc.fill_null(pc.and_kleene(pc.equal(count, block.records), pc.greater(count, 0)), False)
        is_certain = pc.or_(pc.invert(block.is_wide), pc.or_(is_all_null, pc.fill_null(pc.equal(count, 0), False)))
        exact_counts = values_where(is_certain, pc.if_else(is_all_null, block.live_rows, count))
        is_possible = pc.and_(pc.is_valid(count), pc.invert(is_certain))
        possible_counts = pc.if_else(block.is_empty, 0, values_where(is_possible, block.live_rows))
        self._exact_nulls += pc.sum(exact_counts).as_py() or 0
        self._possible_nulls += pc.sum(possible_counts).as_py() or 0
        is_unknown = pc.and_(pc.is_null(exact_counts), pc.is_null(possible_counts))
        self._are_nulls_known = self._are_nulls_known and not pc.any(is_unknown).as_py()
        self._add_bounds(block, is_all_null)

    def _add_bounds(self, block: _Block, is_all_null: pa.BooleanArray) -> None:
        low, high = (_member(block.stats, (name, *self._path)) for name in ("minValues", "maxValues"))
        if low is None or high is None:  # the type has no bounds
            self._low.is_known = self._high.is_known = False
            return
        low, high = without_saturated(low), without_saturated(high)
        has_no_bound = pc.and_(pc.is_null(low), pc.is_null(high))
        has_no_value = pc.or_(block.is_empty, pc.and_(is_all_null, has_no_bound))
        is_usable = pc.and_(pc.fill_null(pc.less_equal(low, high), True), pc.invert(block.is_empty))
        self._low.add(values_where(is_usable, low), block.is_wide, has_no_value)
        self._high.add(values_where(is_usable, high), block.is_wide, has_no_value)

    def statistics(self) -> ColumnStatistics:
        """Return the statistics of all blocks."""
        return ColumnStatistics(
            nulls=self._exact_nulls + self._possible_nulls if self._are_nulls_known else None,
            are_nulls_exact=self._possible_nulls == 0,
            low=self._low.bound(),
            high=self._high.bound(),
        )


class _PartitionSums:
    """The sums of a partition column; `key` is its name in the log's partition values."""

    def __init__(self, key: str, data_type: DataType) -> None:
        self._key, self._data_type = key, data_type
        self._nulls: int | None = 0
        self._texts: set[str] = set()

    def add(self, block: _Block) -> None:
        """Add the files of a block."""
        groups = group_by_partition(block.files, [self._key])
        texts = [values[self._key] for values in groups.combinations]
        is_null = pa.array([not text for text in texts], pa.bool_()).take(groups.combination_of_file)
        null_rows = block.live_rows.filter(is_null)
        if null_rows.null_count or self._nulls is None:
            self._nulls = None
        else:
            self._nulls += pc.sum(null_rows).as_py() or 0
        used_groups = pc.unique(groups.combination_of_file.filter(pc.invert(block.is_empty))).to_pylist()
        self._texts.update(text for text in (texts[number] for number in used_groups) if text)

    def statistics(self) -> ColumnStatistics:
        """Return the statistics of all blocks."""
        try:
            values = [partition_scalar(text, self._data_type) for text in self._texts]
        except (CorruptLogError, UnsupportedFeatureError):
            return ColumnStatistics(nulls=self._nulls)
        low, high = extreme_of(values, Side.LOW), extreme_of(values, Side.HIGH)
        return ColumnStatistics(
            nulls=self._nulls,
            low=None if low is None else Bound(text=text_of(low), is_exact=True),
            high=None if high is None else Bound(text=text_of(high), is_exact=True),
        )


def _member(stats: pa.StructArray, names: tuple[str, ...]) -> pa.Array | None:
    """Return a field of nested structs, null if one of them is null; None if the type lacks the field."""
    for name in names:
        index = stats.type.get_field_index(name)
        if index < 0:
            return None
        stats = pc.struct_field(stats, [index])
    return stats
