"""Comparison of a data file's footer with its statistics in the log, as pure functions.

A bound in the log is wrong if data skipping would lose a row because of it. That is the case if the footer has a value
below the minimum or above the maximum, as a reader interprets them (`columnar/skipping/file_facts.py`). Footers may
truncate long strings too, so a string contradicts a bound only if its truncated form does. The counts of records must
be equal. The counts of nulls must be equal unless a deletion vector has made the bounds wide. Protocol: Per-file
Statistics.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from deltalite.columnar.predicates.outcomes import ColumnFacts
from deltalite.columnar.reader.footer_leaves import FooterLeaves, NoLeaf
from deltalite.columnar.reader.row_groups import LeafColumn, facts_of_leaf
from deltalite.columnar.skipping.file_facts import FileStats, bound_value, count_of, facts_from_stats, value_at
from deltalite.protocol.column_mapping import TableSchema
from deltalite.protocol.schema import DataType, leaves

if TYPE_CHECKING:
    import pyarrow.parquet as pq

# No known writer truncates shorter strings in footers.
_MIN_TRUNCATED = 16


def contradictions(stats: FileStats, table: TableSchema, footer_leaves: FooterLeaves) -> Iterator[str]:
    """Yield the problems of a file's statistics, as sentences.

    Raises:
        CorruptDataFileError: two columns of the file match one of the table, or it lacks the ids that the table uses.
    """
    rows = footer_leaves.footer.num_rows
    if stats.num_records is not None and stats.num_records != rows:
        yield f"the statistics count {stats.num_records} records, the file has {rows}"
    column_pairs = zip(leaves(table.logical), leaves(table.physical), strict=True)
    for (path, field), (physical_path, _) in column_pairs:
        if physical_path[0] in table.partition_keys:
            continue
        null_count = count_of(value_at(stats.null_counts, physical_path))
        bounds = value_at(stats.min_values, physical_path), value_at(stats.max_values, physical_path)
        if null_count is None and bounds == (None, None):
            continue
        leaf = footer_leaves.find(path, table.logical, table.physical)
        name = ".".join(path)
        if _are_crossed(*bounds, field.type):
            yield f"the minimum of column '{name}' is above its maximum"
        match leaf:
            case NoLeaf.UNKNOWN:
                continue
            case NoLeaf.ABSENT:
                stored_nulls: int | None = rows
            case _:
                stored_nulls = _null_count(footer_leaves.footer, leaf)
                yield from _bound_problems(
                    name, facts_from_stats(stats, physical_path, field.type), footer_leaves.footer, leaf
                )
        if null_count is None or stored_nulls is None or null_count == stored_nulls:
            continue
        # With wide bounds, only a count of zero or of all rows is certain.
        if stats.tight_bounds is not False or (null_count == 0 and stored_nulls):
            yield f"the statistics count {null_count} nulls in column '{name}', the file has {stored_nulls}"


def _are_crossed(smallest: Any, largest: Any, data_type: DataType) -> bool:
    try:
        low, high = bound_value(smallest, data_type), bound_value(largest, data_type)
    except (ValueError, ArithmeticError):
        return False
    return low is not None and high is not None and bool(low > high)


def _bound_problems(name: str, stated: ColumnFacts, footer: pq.FileMetaData, leaf: LeafColumn) -> Iterator[str]:
    for group in range(footer.num_row_groups):
        stored = facts_of_leaf(footer, group, leaf)
        if stored.low is not None and stated.low is not None and _is_above(stated.low, stored.low):
            yield f"the minimum of column '{name}' is {stated.low!r:.80}, the file has {stored.low!r:.80}"
            return
        if stored.high is not None and stated.high is not None and _is_below(stated, stored.high):
            yield f"the maximum of column '{name}' is {stated.high!r:.80}, the file has {stored.high!r:.80}"
            return


def _is_above(low: Any, stored: Any) -> bool:
    """Whether a minimum is certainly above the smallest value."""
    if isinstance(low, str) and len(stored) >= _MIN_TRUNCATED and low.startswith(stored):
        return False
    return bool(low > stored)


def _is_below(stated: ColumnFacts, stored: Any) -> bool:
    """Whether a maximum is certainly below the largest value."""
    if isinstance(stored, str):
        # A writer may have incremented the last character of a long string that it truncated.
        stored = stored[:-1] if len(stored) >= _MIN_TRUNCATED else stored
        stored = stored[: len(stated.high)] if stated.high_may_be_cut else stored
    return bool(stated.high < stored)


def _null_count(footer: pq.FileMetaData, leaf: LeafColumn) -> int | None:
    """Return the number of nulls of a column in all row groups; None if a row group does not count them."""
    nulls = 0
    for group in range(footer.num_row_groups):
        chunk = footer.row_group(group).column(leaf.position)
        if chunk.num_values == 0:
            continue
        statistics = chunk.statistics
        if statistics is None or not statistics.has_null_count:
            return None
        nulls += statistics.null_count
    return nulls
