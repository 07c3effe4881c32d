"""Comparison of a data file's footer with its statistics in the log, as pure functions.

A bound in the log is wrong if data skipping would lose a row because of it. That is the case if the footer has a value
below the minimum or above the maximum, as a reader interprets them (`file_facts.py`). Footers may truncate long strings
too, so a string contradicts a bound only if its truncated form does. The counts of records must be equal. The counts of
nulls must be equal unless a deletion vector has made the bounds wide. Protocol: Per-file Statistics.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from deltalite.columnar.file_facts import FileStats, bound_value, count_of, facts_from_stats, value_at
from deltalite.columnar.footer_leaves import FooterLeaves, NoLeaf
from deltalite.columnar.outcomes import ColumnFacts
from deltalite.columnar.row_groups import LeafColumn, facts_of_leaf
from deltalite.protocol.column_mapping import TableSchema
from deltalite.protocol.schema import DataType, leaves

if TYPE_CHECKING:
    import pyarrow.parquet as pq

# No known writer truncates shorter strings in footers.
_NEVER_CUT = 16


def contradictions(stats: FileStats, table: TableSchema, found: FooterLeaves) -> Iterator[str]:
    """Yield the problems of a file's statistics, as sentences.

    Raises:
        CorruptDataFileError: two columns of the file match one of the table, or it lacks the ids that the table uses.
    """
    rows = found.footer.num_rows
    if stats.num_records is not None and stats.num_records != rows:
        yield f"the statistics count {stats.num_records} records, the file has {rows}"
    both = zip(leaves(table.logical), leaves(table.physical), strict=True)
    for (path, field), (own, _) in both:
        if own[0] in table.partition_keys:
            continue
        counted = count_of(value_at(stats.null_counts, own))
        bounds = value_at(stats.min_values, own), value_at(stats.max_values, own)
        if counted is None and bounds == (None, None):
            continue
        leaf = found.find(path, table.logical, table.physical)
        name = ".".join(path)
        if _are_crossed(*bounds, field.type):
            yield f"the minimum of column '{name}' is above its maximum"
        match leaf:
            case NoLeaf.UNTOLD:
                continue
            case NoLeaf.ABSENT:
                nulls: int | None = rows
            case _:
                nulls = _nulls(found.footer, leaf)
                yield from _bounds(name, facts_from_stats(stats, own, field.type), found.footer, leaf)
        if counted is None or nulls is None or counted == nulls:
            continue
        # With wide bounds, only a count of zero or of all rows is certain.
        if stats.tight_bounds is not False or (counted == 0 and nulls):
            yield f"the statistics count {counted} nulls in column '{name}', the file has {nulls}"


def _are_crossed(smallest: Any, largest: Any, data_type: DataType) -> bool:
    try:
        low, high = bound_value(smallest, data_type), bound_value(largest, data_type)
    except (ValueError, ArithmeticError):
        return False
    return low is not None and high is not None and bool(low > high)


def _bounds(name: str, told: ColumnFacts, footer: pq.FileMetaData, leaf: LeafColumn) -> Iterator[str]:
    for group in range(footer.num_row_groups):
        known = facts_of_leaf(footer, group, leaf)
        if known.low is not None and told.low is not None and _is_above(told.low, known.low):
            yield f"the minimum of column '{name}' is {told.low!r:.80}, the file has {known.low!r:.80}"
            return
        if known.high is not None and told.high is not None and _is_below(told, known.high):
            yield f"the maximum of column '{name}' is {told.high!r:.80}, the file has {known.high!r:.80}"
            return


def _is_above(low: Any, known: Any) -> bool:
    """Whether a minimum is certainly above the smallest value."""
    if isinstance(low, str) and len(known) >= _NEVER_CUT and low.startswith(known):
        return False
    return bool(low > known)


def _is_below(told: ColumnFacts, known: Any) -> bool:
    """Whether a maximum is certainly below the largest value."""
    if isinstance(known, str):
        # A writer may have incremented the last character of a long string that it truncated.
        known = known[:-1] if len(known) >= _NEVER_CUT else known
        known = known[: len(told.high)] if told.high_may_be_cut else known
    return bool(told.high < known)


def _nulls(footer: pq.FileMetaData, leaf: LeafColumn) -> int | None:
    """Return the number of nulls of a column in all row groups; None if a row group does not count them."""
    nulls = 0
    for group in range(footer.num_row_groups):
        chunk = footer.row_group(group).column(leaf.position)
        if chunk.num_values == 0:
            continue
        found = chunk.statistics
        if found is None or not found.has_null_count:
            return None
        nulls += found.null_count
    return nulls
