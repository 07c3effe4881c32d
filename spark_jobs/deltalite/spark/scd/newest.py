"""The newest row of each key (type 1), computed from its events.

A deleted key keeps a row without values, in which `current` is false. So an older row that arrives late does not bring
the key back.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.requests import OnSameSequence
from deltalite.spark.columns.types import spark_type
from deltalite.spark.scd.changes import CLOSED, CONFLICTING_SEQUENCE, NEW_ROW, OPENED, REMOVED
from deltalite.spark.scd.events import (
    CONFLICTS,
    DELETED,
    DUPLICATES,
    IS_NEW,
    KEY,
    LATE,
    ROW,
    SEQUENCE,
    STORED,
    TRACKED,
    UNTRACKED,
    comparable_tracked,
    distinct_events,
    members,
)
from deltalite.spark.scd.layout import Layout


def newest_events(rows: DataFrame, layout: Layout) -> DataFrame:
    """Return the event of each row of the table. `rows` has the columns `key` and `row`, as from `rows_of_keys`."""
    row = F.col(ROW)
    is_current = F.coalesce(row[layout.current], F.lit(False))
    tracked = F.when(is_current, members(row, layout.tracked))
    return rows.select(
        KEY,
        row[layout.valid_from].alias(SEQUENCE),
        (~is_current).alias(DELETED),
        tracked.alias(TRACKED),
        F.when(is_current, members(row, layout.untracked)).alias(UNTRACKED),
        F.lit(False).alias(IS_NEW),
        F.struct(row[layout.valid_from].alias(SEQUENCE), is_current.alias("current"), tracked.alias(TRACKED)).alias(
            STORED
        ),
    )


def newest_changes(events: DataFrame, layout: Layout, on_same_sequence: OnSameSequence) -> DataFrame:
    """Return the changes that bring the rows of the events' keys up to date, as a frame for `compute_changes`."""
    sequence, stored, current = F.col(SEQUENCE), F.col(STORED), ~F.col(DELETED)
    newest = (
        distinct_events(events, layout, on_same_sequence)
        .groupBy(KEY)
        .agg(
            F.max(sequence).alias(SEQUENCE),
            *[F.max_by(name, sequence).alias(name) for name in (DELETED, TRACKED, UNTRACKED)],
            # `max_by` ignores a row of the table without a sequence.
            F.max(sequence.isNull()).alias("has_no_sequence"),
            F.max_by(F.col(CONFLICTS).cast("int"), sequence).alias(CONFLICTS),
            F.first(STORED, ignorenulls=True).alias(STORED),
            F.sum(DUPLICATES).alias(DUPLICATES),
            F.count_if(LATE).alias(LATE),
        )
    )
    stored_tracked = stored[TRACKED]
    is_same = stored[SEQUENCE].eqNullSafe(sequence) & stored["current"].eqNullSafe(current)
    is_same = is_same & comparable_tracked(layout, stored_tracked).eqNullSafe(comparable_tracked(layout))
    was_current = F.coalesce(stored["current"], F.lit(False))
    has_no_sequence = F.col("has_no_sequence")
    added_values = {layout.valid_from: sequence, layout.current: current}
    return newest.select(
        KEY,
        F.when(stored.isNull() | ~is_same, layout.new_row(added_values)).alias(NEW_ROW),
        F.array().cast(f"array<{spark_type(layout.stored_sequence_type).simpleString()}>").alias(REMOVED),
        F.lit(True).alias("is_first"),
        (~was_current & current).alias(OPENED),
        (was_current & ~current).alias(CLOSED),
        F.when(has_no_sequence, 1).otherwise(F.col(CONFLICTS)).alias(CONFLICTS),
        F.when(~has_no_sequence, sequence).alias(CONFLICTING_SEQUENCE),
        DUPLICATES,
        LATE,
    )
