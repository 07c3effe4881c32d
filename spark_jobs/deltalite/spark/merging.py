"""What a merge makes of rows: those of the table, matched or not, and those of the source that match none.

Each clause sees only the rows that it may speak of: a name means a column of the table in WHEN NOT MATCHED BY SOURCE
also where the source has one of that name. Values are computed for rows to which their clause applies, and for no
others. delta-spark: MergeIntoCommand, MergeOutputGeneration.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.protocol.schema import StructType
from deltalite.spark.changed_rows import ChangedRows, NewRows, RowColumns, new_row
from deltalite.spark.columns import SOURCE, TARGET, named
from deltalite.spark.conforming import conformed_columns
from deltalite.spark.joining import Size, broadcast_if_small, gathered
from deltalite.spark.matching import Matches, SourceRows
from deltalite.spark.row_actions import RowAction, decided, of_target


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
    """The rows of files, which know their place and have the columns `have`, with what the clauses make of them.

    Where there are no clauses on rows without a match, only pairs with an action are looked at.
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
    # From here on there are no columns of the source, so names are those of the table.
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
    """For each file as Spark spells it: how often each action applies to a row that has no match."""
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
    """The new rows that the source's rows without a match become."""
    keys = broadcast_if_small(found.pairs.select(named(columns.key)), Size.of_places(found.count))
    alone = source.frame.join(keys, columns.key, "left_anti").alias(SOURCE)
    action = named(columns.action)
    made = alone.withColumn(columns.action, decided(not_matched)).where(action.isNotNull())
    rows = made.select(action, new_row(action, not_matched, schema).alias(columns.new))
    frame = rows.select(*[named(columns.new).getField(f.name).alias(f.name) for f in schema], action)
    return NewRows(frame=gathered(frame, source.size), action=columns.action, actions=not_matched)
