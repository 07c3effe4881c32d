"""Comparison of a data file's footer with its statistics in the log, as pure functions.

A minimum in the log is wrong if the footer has a smaller value. A maximum is wrong if the footer has a larger value.
Data skipping would then lose rows. `columnar/skipping/file_facts.py` defines how a reader interprets the bounds.
Footers may truncate long strings too, so the check compares the known beginnings. The counts of records must be equal,
and the certain counts of nulls too. Protocol: Per-file Statistics.
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
from deltalite.sizes import counted

if TYPE_CHECKING:
    import pyarrow.parquet as pq

# In characters. No known writer truncates shorter strings in footers.
_MIN_TRUNCATED_LENGTH = 16


def contradictions(stats: FileStats, schema: TableSchema, footer_leaves: FooterLeaves) -> Iterator[str]:
    """Yield the problems of a file's statistics, as clauses without a capital letter and without a full stop.

    Raises:
        CorruptDataFileError: two columns of the file match one column of the table, or the file lacks
            the column ids that the table uses.
    """
    rows = footer_leaves.footer.num_rows
    if stats.num_records is not None and stats.num_records != rows:
        yield f"the statistics count {counted(stats.num_records, 'record')}, but the file contains {rows}"
    column_pairs = zip(leaves(schema.logical), leaves(schema.physical), strict=True)
    for (path, field), (physical_path, _) in column_pairs:
        if physical_path[0] in schema.partition_keys:
            continue
        log_nulls = count_of(value_at(stats.null_counts, physical_path))
        bounds = value_at(stats.min_values, physical_path), value_at(stats.max_values, physical_path)
        if log_nulls is None and bounds == (None, None):
            continue
        leaf = footer_leaves.find(path, schema.logical, schema.physical)
        name = ".".join(path)
        if _are_crossed(*bounds, field.type):
            yield f"the minimum of column '{name}' is above its maximum"
        match leaf:
            case NoLeaf.UNKNOWN:
                continue
            case NoLeaf.ABSENT:
                file_nulls: int | None = rows
            case _:
                file_nulls = _nulls_in_footer(footer_leaves.footer, leaf)
                yield from _bound_problems(
                    name, facts_from_stats(stats, physical_path, field.type), footer_leaves.footer, leaf
                )
        if log_nulls is None or file_nulls is None or log_nulls == file_nulls:
            continue
        # With wide bounds, only a count of zero or of all rows is certain.
        if stats.tight_bounds is not False or log_nulls in (0, rows):
            nulls = counted(log_nulls, "null")
            yield f"the statistics count {nulls} in column '{name}', but the file contains {file_nulls}"


def _are_crossed(minimum: Any, maximum: Any, data_type: DataType) -> bool:
    """Whether a minimum in the log is above the maximum; False if either is missing or invalid."""
    try:
        low, high = bound_value(minimum, data_type), bound_value(maximum, data_type)
    except (ValueError, ArithmeticError):
        return False
    return low is not None and high is not None and bool(low > high)


def _bound_problems(name: str, log_facts: ColumnFacts, footer: pq.FileMetaData, leaf: LeafColumn) -> Iterator[str]:
    """Yield at most one problem of a column's bounds: the first row group with a value outside of them."""
    for group in range(footer.num_row_groups):
        group_facts = facts_of_leaf(footer, group, leaf)
        low, high = group_facts.low, group_facts.high
        if low is not None and log_facts.low is not None and _is_minimum_wrong(log_facts.low, low):
            yield f"the minimum of column '{name}' is {log_facts.low!r:.80}, but the file contains {low!r:.80}"
            return
        if high is not None and log_facts.high is not None and _is_maximum_wrong(log_facts, high):
            yield f"the maximum of column '{name}' is {log_facts.high!r:.80}, but the file contains {high!r:.80}"
            return


def _is_minimum_wrong(minimum: Any, footer_low: Any) -> bool:
    """Whether a minimum in the log is certainly above the smallest value, which the footer may have truncated."""
    if isinstance(minimum, str) and len(footer_low) >= _MIN_TRUNCATED_LENGTH and minimum.startswith(footer_low):
        return False
    return bool(minimum > footer_low)


def _is_maximum_wrong(log_facts: ColumnFacts, footer_high: Any) -> bool:
    """Whether the maximum in the log is certainly below the largest value, which the footer may have truncated."""
    if isinstance(footer_high, str):
        # A writer may have incremented the last character of a long string that it truncated.
        footer_high = footer_high[:-1] if len(footer_high) >= _MIN_TRUNCATED_LENGTH else footer_high
        footer_high = footer_high[: len(log_facts.high)] if log_facts.high_may_be_cut else footer_high
    return bool(log_facts.high < footer_high)


def _nulls_in_footer(footer: pq.FileMetaData, leaf: LeafColumn) -> int | None:
    """Return the number of nulls of a column in all row groups; None if a row group does not count them."""
    null_count = 0
    for group in range(footer.num_row_groups):
        chunk = footer.row_group(group).column(leaf.position)
        if chunk.num_values == 0:
            continue
        statistics = chunk.statistics
        if statistics is None or not statistics.has_null_count:
            return None
        null_count += statistics.null_count
    return null_count
