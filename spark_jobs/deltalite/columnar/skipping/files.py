"""Data skipping: the files of a table that can contain a row that a predicate selects.

The test uses only the log. It skips a file if partition values and statistics prove, in SQL's three-valued logic, that
the predicate is TRUE for none of its rows. A count of zero rows proves nothing, because the writer may not have
counted. Partition pruning, conflict detection and the columnar reader use the same test.

Partition values are tested once per distinct combination. Statistics are parsed only for the remaining files, many at a
time (`stats_columns.py`); statistics in an unusual form are parsed file by file (`file_facts.py`).
Protocol: Per-file Statistics; Partition Value Serialization.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.columnar.predicates.binding import bind, with_physical_names
from deltalite.columnar.predicates.masks import Masks, has_bits
from deltalite.columnar.predicates.outcomes import (
    FALSE,
    NULL,
    TRUE,
    UNKNOWN_COLUMN,
    ColumnFacts,
    Mask,
    Outcomes,
    combine_outcomes,
    leaf_outcomes,
    outcomes,
)
from deltalite.columnar.predicates.predicate import Constant, Leaf, Path, Predicate, columns_of, leaves_of
from deltalite.columnar.skipping.fact_columns import can_compare
from deltalite.columnar.skipping.file_facts import FileStats, facts_from_partition, facts_from_stats, parse_stats
from deltalite.columnar.skipping.stats_columns import bound_type, facts_of_files
from deltalite.protocol.column_mapping import TableSchema
from deltalite.protocol.partition_values import partition_text
from deltalite.protocol.schema import ArrayType, DataType, MapType, leaves

PartitionValues = Mapping[str, str | None]

# The statistics of this many files are parsed together. If this fails, each half is parsed separately, and so on. At
# most `_FEW_FILES` files are tested one by one instead.
FILES_AT_A_TIME = 65_536
_FEW_FILES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitions:
    """The partition values of many files: the distinct combinations, and the index of each file's combination."""

    combinations: Sequence[PartitionValues]
    combination_of_file: pa.Int64Array

    def select(self, flags: pa.BooleanArray) -> Partitions:
        """Return the partition values of the files with a true flag; `flags` has one flag per file."""
        return replace(self, combination_of_file=self.combination_of_file.filter(flags))

    def slice(self, start: int, length: int) -> Partitions:
        """Return the partition values of a range of the files."""
        return replace(self, combination_of_file=self.combination_of_file.slice(start, length))


def prune(files: pa.Table, predicate: Predicate, table: TableSchema) -> pa.Table:
    """Return the files of a snapshot that may contain a row that the predicate selects, in the same order.

    The predicate has logical column names. `files` has at least the columns `partitionValues` (map of string to string)
    and `stats` (string, JSON or null).
    """
    if isinstance(predicate, Constant):
        return files if predicate.truth else files.slice(0, 0)
    test = FileTest(predicate, table)
    partitions = group_by_partition(files, test.partition_keys)
    masks = [test.possible_outcomes(values, None) for values in partitions.combinations]
    if not all(mask & TRUE for mask in masks):
        may_match = pa.array([bool(mask & TRUE) for mask in masks], pa.bool_()).take(partitions.combination_of_file)
        files, partitions = files.filter(may_match), partitions.select(may_match)
    if all(mask in (TRUE, FALSE, NULL) for mask in masks):
        return files
    return files.filter(test.may_match_each(files["stats"], partitions))


class FileTest:
    """A predicate that is bound to a table, for the test of many files.

    If the table lacks a column, the test assumes that the column may have any value.
    """

    __slots__ = ("_keys", "_predicate", "_types")

    def __init__(self, predicate: Predicate, table: TableSchema) -> None:
        self._predicate = with_physical_names(bind(predicate, table.logical), table)
        columns = columns_of(self._predicate)
        self._types = {path: leaf.type for path, leaf in leaves(table.physical) if path in columns}
        self._keys: dict[Path, str] = {
            (name,): key for name, key in table.partition_keys.items() if (name,) in self._types
        }

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """The partition columns that the predicate reads, by their names in the log's partition values."""
        return tuple(sorted(self._keys.values()))

    def may_match(self, partition_values: PartitionValues, stats: str | None) -> bool:
        """Whether the file may contain a row for which the predicate is TRUE; False is certain.

        `partition_values` and `stats` (JSON) are those of the file's `add` action.
        """
        return bool(self.possible_outcomes(partition_values, stats) & TRUE)

    def possible_outcomes(self, partition_values: PartitionValues, stats: str | None) -> Outcomes:
        """Return the truth values that the predicate may have for the file's rows."""
        file_stats = parse_stats(stats)
        return outcomes(self._predicate, lambda path: self._facts(path, partition_values, file_stats))

    def may_match_each(self, stats: pa.ChunkedArray, partitions: Partitions) -> pa.ChunkedArray:
        """Return `may_match` for each of many files; `partitions` are their partition values for `partition_keys`."""
        columns = self._columns()
        if columns is None:
            return pa.chunked_array([self._test_each(stats, partitions)])
        partition_outcomes = {
            leaf: pa.array(
                [leaf_outcomes(leaf, self._facts(leaf.column, values, None)) for values in partitions.combinations],
                pa.uint8(),
            )
            for leaf in leaves_of(self._predicate)
            if leaf.column in self._keys
        }
        flags = []
        for start in range(0, len(stats), FILES_AT_A_TIME):
            texts = pa.concat_arrays(stats.slice(start, FILES_AT_A_TIME).chunks)
            flags += self._test_together(texts, partitions.slice(start, FILES_AT_A_TIME), columns, partition_outcomes)
        return pa.chunked_array(flags, pa.bool_())

    def _columns(self) -> dict[Path, DataType] | None:
        """Return the columns with statistics that the predicate reads.

        The result is None if the predicate can only be tested file by file.
        """
        columns: dict[Path, DataType] = {}
        for leaf in leaves_of(self._predicate):
            data_type = self._types.get(leaf.column)
            # Lists and maps have no usable statistics.
            if data_type is None or leaf.column in self._keys or isinstance(data_type, ArrayType | MapType):
                continue
            arrow_type = bound_type(data_type)
            if arrow_type is None or not can_compare(leaf, arrow_type):
                return None
            columns[leaf.column] = data_type
        return columns

    def _test_together(
        self,
        stats: pa.StringArray,
        partitions: Partitions,
        columns: Mapping[Path, DataType],
        partition_outcomes: Mapping[Leaf, pa.UInt8Array],
    ) -> list[pa.BooleanArray]:
        """Return `may_match` for each file; files with statistics in an unusual form are tested one by one."""
        facts = facts_of_files(stats, columns) if columns else {}
        if facts is None and len(stats) <= _FEW_FILES:
            return [self._test_each(stats, partitions)]
        if facts is None:
            half = len(stats) // 2
            return [
                flags
                for start, length in ((0, half), (half, len(stats) - half))
                for flags in self._test_together(
                    stats.slice(start, length), partitions.slice(start, length), columns, partition_outcomes
                )
            ]

        def outcomes_of_leaf(leaf: Leaf) -> Mask:
            if leaf in partition_outcomes:
                return Masks(partition_outcomes[leaf].take(partitions.combination_of_file))
            return leaf_outcomes(leaf, facts.get(leaf.column, UNKNOWN_COLUMN))

        return [has_bits(combine_outcomes(self._predicate, outcomes_of_leaf) & TRUE, len(stats))]

    def _test_each(self, stats: Iterable[pa.StringScalar], partitions: Partitions) -> pa.BooleanArray:
        groups = partitions.combination_of_file.to_pylist()
        flags = (
            self.may_match(partitions.combinations[group], text.as_py())
            for group, text in zip(groups, stats, strict=True)
        )
        return pa.array(flags, pa.bool_())

    def _facts(self, path: Path, partition_values: PartitionValues, stats: FileStats | None) -> ColumnFacts:
        data_type = self._types.get(path)
        if data_type is None:
            return UNKNOWN_COLUMN
        key = self._keys.get(path)
        if key is not None:
            return facts_from_partition(partition_text(partition_values, key), data_type)
        return UNKNOWN_COLUMN if stats is None else facts_from_stats(stats, path, data_type)


def group_by_partition(files: pa.Table, keys: Sequence[str]) -> Partitions:
    """Group files by their values of some partition columns; `keys` are the names of these columns in the log."""
    combinations: list[dict[str, str | None]] = [{}]
    combination_of_file = pa.repeat(pa.scalar(0, pa.int64()), files.num_rows)
    for column in keys:
        values = _texts_of(files.column("partitionValues"), column)
        encoded_values = values.dictionary_encode(null_encoding="encode")
        width = len(encoded_values.dictionary)
        # A pair is a combination of the previous columns, and a value of this column.
        pair_numbers = pc.add(pc.multiply(combination_of_file, width), encoded_values.indices.cast(pa.int64()))
        pairs = pair_numbers.dictionary_encode()
        texts = encoded_values.dictionary.to_pylist()
        combinations = [
            combinations[pair // width] | {column: texts[pair % width]} for pair in pairs.dictionary.to_pylist()
        ]
        combination_of_file = pairs.indices.cast(pa.int64())
    return Partitions(combinations=combinations, combination_of_file=combination_of_file)


def _texts_of(partition_values: pa.ChunkedArray, column: str) -> pa.StringArray:
    """Return the value of a partition column in each map, as `partition_text` does for one file."""
    keys = pa.chunked_array([chunk.keys for chunk in partition_values.chunks], pa.string()).unique().to_pylist()
    names = sorted({key for key in keys if key.lower() == column.lower()} | {column}, key=lambda key: key != column)
    columns = [pc.map_lookup(partition_values, pa.scalar(key), "first") for key in names]
    return pc.coalesce(*(pa.chunked_array(texts.chunks, pa.string()).combine_chunks() for texts in columns))
