"""The result rows of a merge: target rows, matched or not, and source rows without a match.

Each clause uses only the rows of its kind. In WHEN NOT MATCHED BY SOURCE a name means a column of the table, even if
the source has a column of this name. The values of a clause are computed only for the rows to which it applies.
delta-spark: MergeIntoCommand, MergeOutputGeneration.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.protocol.row_tracking import row_id_names
from deltalite.spark.columns.conforming import conform_columns
from deltalite.spark.columns.names import SOURCE, TARGET, column_named
from deltalite.spark.merge.matching import Matches, ResolvedMerge
from deltalite.spark.row_changes.joining import Size, broadcast_if_small, one_partition_if_small
from deltalite.spark.row_changes.row_actions import action_number, target_column
from deltalite.spark.row_changes.touched_rows import ChangedRows, NewRows, RowColumns, columns_of_new_row, new_row


def merged_rows(rows: DataFrame, matches: Matches, merge: ResolvedMerge) -> ChangedRows:
    """Apply the clauses to the addressed rows of files, and return the rows with their actions.

    `rows` have the columns of `merge.base_schema` and `merge.row_ids`. Without clauses for unmatched target rows, only
    pairs with an action are joined.
    """
    base_schema, schema, columns = merge.base_schema, merge.schema, merge.columns
    matched, not_matched_by_source = merge.actions.matched, merge.actions.not_matched_by_source
    needed_pairs = matches.pairs if not_matched_by_source else matches.changing_pairs(columns)
    pairs = broadcast_if_small(needed_pairs, merge.source.size.with_addresses(matches.count)).alias(SOURCE)
    joined = rows.alias(TARGET).join(pairs, _is_same_row(columns), "left")
    action, pair_action = column_named(columns.action), column_named(columns.pair_action)
    with_pairs = joined.select(
        *[target_column(name) for name in (*base_schema.names, *row_id_names(merge.row_ids))],
        *map(column_named, (columns.file, columns.row, columns.pair_file, columns.pair_action)),
        new_row(pair_action, matched, schema).alias(columns.pair_new),
    )
    # The frame has no source columns from here on, so every name means a column of the table.
    is_matched = column_named(columns.pair_file).isNotNull()
    with_actions = with_pairs.withColumn(
        columns.action, F.when(is_matched, pair_action).otherwise(action_number(not_matched_by_source)).cast("int")
    )
    new_values = F.coalesce(column_named(columns.pair_new), new_row(action, not_matched_by_source, schema))
    frame = with_actions.select(
        *conform_columns(base_schema, schema, target_column),
        *map(column_named, row_id_names(merge.row_ids)),
        column_named(columns.file),
        column_named(columns.row),
        action,
        new_values.alias(columns.new),
    )
    return ChangedRows(
        frame=frame,
        schema=schema,
        columns=columns,
        actions={**matched, **not_matched_by_source},
        row_ids=merge.row_ids,
    )


def rows_updated_by_source(matches: Matches, merge: ResolvedMerge) -> DataFrame:
    """Return the new rows of updates in the form of `ChangedRows.updated`, without a read of the table.

    The caller checks that `updates_read_target` is false and that the table has no row ids.
    """
    action = column_named(merge.columns.pair_action)
    pairs = matches.changing_pairs(merge.columns).alias(SOURCE)
    new = new_row(action, merge.actions.matched, merge.schema)
    rows = pairs.select(new.alias(merge.columns.new), action.alias(merge.columns.action))
    return rows.where(column_named(merge.columns.new).isNotNull()).select(
        *columns_of_new_row(column_named(merge.columns.new), merge.schema), column_named(merge.columns.action)
    )


def counts_without_match(rows: DataFrame, matches: Matches, merge: ResolvedMerge) -> dict[int, dict[int, int]]:
    """Count the unmatched target rows to which an action applies, by file number and by action number."""
    columns = merge.columns
    pairs = matches.pairs.select(column_named(columns.pair_file), column_named(columns.pair_row))
    small_pairs = broadcast_if_small(pairs, Size.of_addresses(matches.count))
    unmatched = rows.alias(TARGET).join(small_pairs, _is_same_row(columns), "left_anti")
    actions = action_number(merge.actions.not_matched_by_source)
    with_actions = unmatched.withColumn(columns.action, actions).where(column_named(columns.action).isNotNull())
    counts: dict[int, dict[int, int]] = {}
    for file, action, count in (
        with_actions.groupBy(column_named(columns.file), column_named(columns.action)).count().collect()
    ):
        counts.setdefault(file, {})[action] = count
    return counts


def inserted_rows(matches: Matches, merge: ResolvedMerge) -> NewRows:
    """Return the new rows that the insert clauses make from source rows without a match."""
    source, columns, not_matched = merge.source, merge.columns, merge.actions.not_matched
    keys = broadcast_if_small(matches.pairs.select(column_named(columns.key)), Size.of_addresses(matches.count))
    unmatched = source.frame.join(keys, columns.key, "left_anti").alias(SOURCE)
    action = column_named(columns.action)
    with_actions = unmatched.withColumn(columns.action, action_number(not_matched)).where(action.isNotNull())
    rows = with_actions.select(action, new_row(action, not_matched, merge.schema).alias(columns.new))
    frame = rows.select(*columns_of_new_row(column_named(columns.new), merge.schema), action)
    return NewRows(frame=one_partition_if_small(frame, source.size), action=columns.action, actions=not_matched)


def _is_same_row(columns: RowColumns) -> Column:
    """Return the condition that a target row and a pair have the same address."""
    return (column_named(columns.file) == column_named(columns.pair_file)) & (
        column_named(columns.row) == column_named(columns.pair_row)
    )
