"""Which files of a table can hold a row that a predicate selects.

The answer comes from the log alone, and is always safe: a file is left out only when partition values and statistics
prove that the predicate is TRUE for none of its rows, in SQL's three-valued logic. That they count no rows is no proof,
since the writer may not have counted. The same test serves partition pruning, data skipping, conflict detection and the
columnar reader. Partition values are tested once for each combination of them, and statistics are parsed only for the
files that are left.
Protocol: Per-file Statistics; Partition Value Serialization.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.columnar.binding import bind, physical
from deltalite.columnar.file_facts import FileStats, facts_from_partition, facts_from_stats, parse_stats
from deltalite.columnar.outcomes import FALSE, NULL, TRUE, UNKNOWN_COLUMN, ColumnFacts, Outcomes, outcomes
from deltalite.columnar.predicate import Constant, Path, Predicate, columns_of
from deltalite.protocol.column_mapping import TableSchema
from deltalite.protocol.partition_values import partition_text
from deltalite.protocol.schema import leaves

PartitionValues = Mapping[str, str | None]


def prune(files: pa.Table, predicate: Predicate, table: TableSchema) -> pa.Table:
    """The rows of a snapshot's table of files whose file may hold a row that the predicate selects, in their order.

    The predicate names columns as the table's users do. `files` has at least the columns `partitionValues` (map of
    string to string) and `stats` (string, JSON or null).
    """
    if isinstance(predicate, Constant):
        return files if predicate.truth else files.slice(0, 0)
    test = FileTest(predicate, table)
    combinations, group_of_row = group_by_partition(files, test.partition_keys)
    possible = [test.possible(values, None) for values in combinations]
    may_match = pa.array([bool(own & TRUE) for own in possible], pa.bool_()).take(group_of_row)
    left = files.filter(may_match)
    if all(own in (TRUE, FALSE, NULL) for own in possible):
        return left
    groups = group_of_row.filter(may_match).to_pylist()
    stats = left.column("stats").to_pylist()
    return left.filter(
        pa.array(
            [
                possible[group] == TRUE or test.may_match(combinations[group], text)
                for group, text in zip(groups, stats, strict=True)
            ],
            pa.bool_(),
        )
    )


class FileTest:
    """A predicate made ready to be asked of many files of one table.

    Columns of the predicate that the table does not have may be anything.
    """

    __slots__ = ("_keys", "_predicate", "_types")

    def __init__(self, predicate: Predicate, table: TableSchema) -> None:
        self._predicate = physical(bind(predicate, table.logical), table)
        read = columns_of(self._predicate)
        self._types = {path: leaf.type for path, leaf in leaves(table.physical) if path in read}
        self._keys: dict[Path, str] = {
            (name,): key for name, key in table.partition_keys.items() if (name,) in self._types
        }

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """The partition columns that the predicate reads, as the log's partition values name them."""
        return tuple(sorted(self._keys.values()))

    def may_match(self, partition_values: PartitionValues, stats: str | None) -> bool:
        """Whether the file may hold a row for which the predicate is TRUE; False is certain.

        `partition_values` and `stats` (JSON) are given as they stand in the file's `add`.
        """
        return bool(self.possible(partition_values, stats) & TRUE)

    def possible(self, partition_values: PartitionValues, stats: str | None) -> Outcomes:
        """The truths that the predicate may have among the file's rows."""
        parsed = parse_stats(stats)
        return outcomes(self._predicate, lambda path: self._facts(path, partition_values, parsed))

    def _facts(self, path: Path, partition_values: PartitionValues, stats: FileStats | None) -> ColumnFacts:
        data_type = self._types.get(path)
        if data_type is None:
            return UNKNOWN_COLUMN
        key = self._keys.get(path)
        if key is not None:
            return facts_from_partition(partition_text(partition_values, key), data_type)
        return UNKNOWN_COLUMN if stats is None else facts_from_stats(stats, path, data_type)


def group_by_partition(files: pa.Table, keys: Sequence[str]) -> tuple[list[dict[str, str | None]], pa.Array]:
    """The distinct combinations of values of these partition columns, and for each file the number of its own."""
    combinations: list[dict[str, str | None]] = [{}]
    group_of_row = pa.repeat(pa.scalar(0, pa.int64()), files.num_rows)
    for column in keys:
        values = _texts_of(files.column("partitionValues"), column)
        encoded = values.dictionary_encode(null_encoding="encode")
        width = len(encoded.dictionary)
        pairs = pc.add(pc.multiply(group_of_row, width), encoded.indices.cast(pa.int64())).dictionary_encode()
        texts = encoded.dictionary.to_pylist()
        combinations = [
            combinations[pair // width] | {column: texts[pair % width]} for pair in pairs.dictionary.to_pylist()
        ]
        group_of_row = pairs.indices.cast(pa.int64())
    return combinations, group_of_row


def _texts_of(partition_values: pa.ChunkedArray, column: str) -> pa.StringArray:
    """`partition_text` of each map."""
    keys = pa.chunked_array([chunk.keys for chunk in partition_values.chunks], pa.string()).unique().to_pylist()
    spelled = sorted({key for key in keys if key.lower() == column.lower()} | {column}, key=lambda key: key != column)
    found = [pc.map_lookup(partition_values, pa.scalar(key), "first") for key in spelled]
    return pc.coalesce(*(pa.chunked_array(texts.chunks, pa.string()).combine_chunks() for texts in found))
