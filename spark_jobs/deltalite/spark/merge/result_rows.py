"""The result rows of a merge: target rows, matched or not, and source rows without a match.

Each clause uses only the rows of its own kind. In WHEN NOT MATCHED BY SOURCE a name means a column of the table, even
if the source has a column of this name. Values are computed only for the rows to which their clause applies.
delta-spark: MergeIntoCommand, MergeOutputGeneration.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.protocol.schema import StructType
from deltalite.spark.columns.conforming import conformed_columns
from deltalite.spark.columns.names import SOURCE, TARGET, named
from deltalite.spark.merge.matching import Matches, SourceRows
from deltalite.spark.row_changes.joining import Size, broadcast_if_small, gathered
from deltalite.spark.row_changes.row_actions import RowAction, decided, of_target
from deltalite.spark.row_changes.touched_rows import ChangedRows, NewRows, RowColumns, new_row


def merged_rows(
    rows: DataFrame,
    found: Matches,
    source: SourceRows,
    columns: RowColumns,
    *,
    have: StructType,
    schema: StructType,
    matched: Mapping[int, RowAction],
    by_source: Mapping[int, RowAction],
) -> ChangedRows:
    """Apply the clauses to the addressed rows of files, which have the columns of `have`.

    Without clauses for unmatched target rows, only pairs with an action are joined.
    """
    acting = found.pairs if by_source else found.pairs.where(named(columns.pair_action).isNotNull())
    pairs = broadcast_if_small(acting, source.size.of(found.count)).alias(SOURCE)
    is_same = (named(columns.file) == named(columns.pair_file)) & (named(columns.row) == named(columns.pair_row))
    joined = rows.alias(TARGET).join(pairs, is_same, "left")
    action, pair_action = named(columns.action), named(columns.pair_action)
    with_pairs = joined.select(
        *[of_target(field.name) for field in have],
        *[named(own) for own in (columns.file, columns.row, columns.pair_file, columns.pair_action)],
        new_row(pair_action, matched, schema).alias(columns.pair_new),
    )
    # The frame has no source columns from here on, so every name means a column of the table.
    is_matched = named(columns.pair_file).isNotNull()
    decided_rows = with_pairs.withColumn(
        columns.action, F.when(is_matched, pair_action).otherwise(decided(by_source)).cast("int")
    )
    made = F.coalesce(named(columns.pair_new), new_row(action, by_source, schema))
    frame = decided_rows.select(
        *conformed_columns(have, schema, of_target),
        named(columns.file),
        named(columns.row),
        action,
        made.alias(columns.new),
    )
    return ChangedRows(frame=frame, schema=schema, columns=columns, actions={**matched, **by_source})


def counts_without_match(
    rows: DataFrame, found: Matches, columns: RowColumns, by_source: Mapping[int, RowAction]
) -> dict[str, dict[int, int]]:
    """Count, by file in Spark's spelling and by action, the target rows without a match."""
    pairs = found.pairs.select(named(columns.pair_file), named(columns.pair_row))
    is_same = (named(columns.file) == named(columns.pair_file)) & (named(columns.row) == named(columns.pair_row))
    alone = rows.alias(TARGET).join(broadcast_if_small(pairs, Size.of_places(found.count)), is_same, "left_anti")
    acting = alone.withColumn(columns.action, decided(by_source)).where(named(columns.action).isNotNull())
    counts: dict[str, dict[int, int]] = {}
    for file, action, count in acting.groupBy(named(columns.file), named(columns.action)).count().collect():
        counts.setdefault(file, {})[action] = count
    return counts


def inserted_rows(
    source: SourceRows,
    found: Matches,
    columns: RowColumns,
    *,
    schema: StructType,
    not_matched: Mapping[int, RowAction],
) -> NewRows:
    """Return the new rows from the source rows without a match."""
    keys = broadcast_if_small(found.pairs.select(named(columns.key)), Size.of_places(found.count))
    alone = source.frame.join(keys, columns.key, "left_anti").alias(SOURCE)
    action = named(columns.action)
    made = alone.withColumn(columns.action, decided(not_matched)).where(action.isNotNull())
    rows = made.select(action, new_row(action, not_matched, schema).alias(columns.new))
    frame = rows.select(*[named(columns.new).getField(f.name).alias(f.name) for f in schema], action)
    return NewRows(frame=gathered(frame, source.size), action=columns.action, actions=not_matched)
