"""The history of each key (type 2), computed from its events.

A history row begins with an event that does not delete the key, and whose tracked values differ from those of the event
before. It ends where the next history row begins, or at a delete. Its untracked values are those of its last event. If
only deletes of a key are known, the key has a row with an empty range. An older row that arrives later ends at the
delete.

The events of a key in order, with tracked values A and B, and the rows:

    1: A   2: A   3: delete   4: delete   5: B      ->   A [1, 3)   B [5, open)

The column `events` of the first row holds 1, 2 and 4. The event 3 follows from `valid_to`, because no row begins there.
So the table holds all events, and a late event gives the same rows as an event that arrives in time. The visible
columns take precedence over `events`: if somebody deletes a history row, its events are gone, and its predecessor ends
with a delete.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.requests import OnSameSequence
from deltalite.spark.columns.comparing import comparable
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
    comparable_values,
    distinct_events,
    members,
    null_struct,
    struct_of_nulls,
)
from deltalite.spark.scd.layout import EVENT_DELETED, EVENT_SEQUENCE, EVENT_VALUES, Layout

_BEGIN, _END, _EVENTS, _EVENT = "begin", "end", "events", "event"


def history_events(rows: DataFrame, layout: Layout) -> DataFrame:
    """Return the events of history rows. `rows` has the columns `key` and `row`, as from `rows_of_keys`."""
    row, begin, end = F.col(ROW), F.col(_BEGIN), F.col(_END)
    is_row = ~begin.eqNullSafe(end)  # An empty range stands for a delete.
    with_begin = rows.select(KEY, ROW, row[layout.valid_from].alias(_BEGIN), row[layout.valid_to].alias(_END))
    next_begin = F.lead(begin).over(_by_key().orderBy(begin))
    history = with_begin.select(
        KEY,
        _BEGIN,
        _END,
        (end.isNotNull() & is_row & ~end.eqNullSafe(next_begin)).alias(DELETED),
        row[layout.events].alias(_EVENTS),
        F.struct(
            row[layout.valid_to].alias(_END),
            row[layout.current].alias("current"),
            row[layout.events].alias(_EVENTS),
            F.when(is_row, members(row, layout.tracked)).alias(TRACKED),
            F.when(is_row, members(row, layout.untracked)).alias(UNTRACKED),
        ).alias(STORED),
    )
    stored, event = F.col(STORED), F.col(_EVENT)
    no_events = F.array().cast(spark_type(layout.events_type))
    first_event = _event(layout, begin, ~is_row, stored[UNTRACKED])
    delete = _event(layout, end, F.lit(True), null_struct(layout, layout.untracked))
    has_first = F.coalesce(F.exists(_EVENTS, lambda item: item[EVENT_SEQUENCE] == begin), F.lit(False))
    all_events = F.concat(
        F.when(has_first, no_events).otherwise(F.array(first_event)),
        F.coalesce(F.col(_EVENTS), no_events),
        F.when(F.col(DELETED), F.array(delete)).otherwise(no_events),
    )
    untracked = stored[UNTRACKED]
    if layout.untracked:  # an event from the time before the first untracked column has no values
        untracked = F.coalesce(event[EVENT_VALUES], struct_of_nulls(layout, layout.untracked))
    return history.select(KEY, _BEGIN, STORED, F.explode(all_events).alias(_EVENT)).select(
        KEY,
        event[EVENT_SEQUENCE].alias(SEQUENCE),
        event[EVENT_DELETED].alias(DELETED),
        F.when(~event[EVENT_DELETED], stored[TRACKED]).alias(TRACKED),
        F.when(~event[EVENT_DELETED], untracked).alias(UNTRACKED),
        F.lit(False).alias(IS_NEW),
        F.when(event[EVENT_SEQUENCE] == begin, stored).alias(STORED),
    )


def history_changes(events: DataFrame, layout: Layout, on_same_sequence: OnSameSequence) -> DataFrame:
    """Return the changes that bring the history of the events' keys up to date, as a frame for `compute_changes`."""
    distinct = distinct_events(events, layout, on_same_sequence)
    return _changes(_with_ends(_rows_without_ends(_with_row_numbers(distinct, layout), layout)), layout)


def _with_row_numbers(events: DataFrame, layout: Layout) -> DataFrame:
    """Number the history rows of each key, and return the events with these columns, and some helper columns.

    - `group`: the number of the history row to which the event belongs, from 1.
    - `begins`: whether the row begins with this event.
    - `is_leading`: whether the event is a delete before the first row. It belongs to the first row.
    """
    in_order = _by_key().orderBy(SEQUENCE)
    tracked, previous_deleted = comparable_tracked(layout), F.lag(DELETED).over(in_order)
    is_other = previous_deleted.isNull() | previous_deleted | ~tracked.eqNullSafe(F.lag(tracked).over(in_order))
    with_begins = events.select(
        "*",
        F.max(~F.col(DELETED)).over(_by_key()).alias("has_live_event"),
        (~F.col(DELETED) & is_other).alias("begins_live_row"),
        F.row_number().over(in_order).alias("number"),
    ).withColumn("begins", F.col("begins_live_row") | (~F.col("has_live_event") & (F.col("number") == 1)))
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    row_count = F.sum(F.col("begins").cast("int")).over(so_far)
    return with_begins.withColumn("row_count", row_count).select(
        "*", (F.col("row_count") == 0).alias("is_leading"), F.greatest(F.col("row_count"), F.lit(1)).alias("group")
    )


def _rows_without_ends(events: DataFrame, layout: Layout) -> DataFrame:
    """Return one row for each history row, without its end."""
    begins, deleted, sequence, stored = F.col("begins"), F.col(DELETED), F.col(SEQUENCE), F.col(STORED)
    event = _event(layout, sequence, deleted, F.col(UNTRACKED))
    return events.groupBy(KEY, "group").agg(
        F.min(F.when(begins, sequence)).alias(_BEGIN),
        F.max(~deleted).alias("is_row"),
        F.min(F.when(deleted & ~begins & ~F.col("is_leading"), sequence)).alias("deleted_at"),
        F.first(F.when(begins, F.col(TRACKED)), ignorenulls=True).alias(TRACKED),
        F.max_by(F.col(UNTRACKED), F.when(~deleted, sequence)).alias(UNTRACKED),
        F.count_if(~deleted).alias("live_count"),
        F.count_if(deleted).alias("delete_count"),
        F.array_sort(F.collect_list(event), _in_sequence).alias(_EVENTS),
        F.first(F.when(begins, stored), ignorenulls=True).alias(STORED),
        F.collect_list(F.when(~begins & stored.isNotNull(), sequence)).alias(REMOVED),
        F.count_if(CONFLICTS).alias(CONFLICTS),
        F.min(F.when(F.col(CONFLICTS), sequence)).alias(CONFLICTING_SEQUENCE),
        F.sum(DUPLICATES).alias(DUPLICATES),
        F.count_if(LATE).alias(LATE),
    )


def _with_ends(rows: DataFrame) -> DataFrame:
    """Return the rows with their end, and with only the events that the column `events` needs."""
    is_row = F.col("is_row")
    deleted_at = F.when(is_row, F.col("deleted_at"))  # A row with an empty range ends where it begins.
    next_begin = F.lead(_BEGIN).over(_by_key().orderBy("group"))
    # The begin and the end of a row stand for an event each, if no other row begins at the end.
    implied_deletes = F.when(is_row, deleted_at.isNotNull().cast("int")).otherwise(1)
    needs_events = (F.col("live_count") > 1) | (F.col("delete_count") > implied_deletes)
    other_events = F.filter(
        _EVENTS, lambda event: ~F.coalesce(event[EVENT_DELETED] & (event[EVENT_SEQUENCE] == deleted_at), F.lit(False))
    )
    return rows.withColumns(
        {
            _END: F.when(is_row, F.coalesce(deleted_at, next_begin)).otherwise(F.col(_BEGIN)),
            _EVENTS: F.when(needs_events, other_events),
        }
    ).withColumn("current", is_row & F.col(_END).isNull())


def _changes(rows: DataFrame, layout: Layout) -> DataFrame:
    """Compare the history rows with the rows of the table, and return the frame of changes."""
    stored, current = F.col(STORED), F.col("current")
    events_type = layout.events_type
    is_same = (
        comparable_values(stored[TRACKED], stored[UNTRACKED], layout).eqNullSafe(
            comparable_values(F.col(TRACKED), F.col(UNTRACKED), layout)
        )
        & stored[_END].eqNullSafe(F.col(_END))
        & stored["current"].eqNullSafe(current)
        & comparable(stored[_EVENTS], events_type).eqNullSafe(comparable(F.col(_EVENTS), events_type))
    )
    added_values = {
        layout.valid_from: F.col(_BEGIN),
        layout.valid_to: F.col(_END),
        layout.current: current,
        layout.events: F.col(_EVENTS),
    }
    return rows.select(
        KEY,
        F.when(stored.isNull() | ~is_same, layout.new_row(added_values)).alias(NEW_ROW),
        REMOVED,
        (F.col("group") == 1).alias("is_first"),
        (stored.isNull() & F.col("is_row")).alias(OPENED),
        (F.coalesce(stored["current"], F.lit(False)) & ~current).alias(CLOSED),
        CONFLICTS,
        CONFLICTING_SEQUENCE,
        DUPLICATES,
        LATE,
    )


def _by_key() -> WindowSpec:
    return Window.partitionBy(KEY)


def _event(layout: Layout, sequence: Column, deleted: Column, untracked: Column) -> Column:
    """Return an event of the column `events`."""
    parts = [sequence.alias(EVENT_SEQUENCE), deleted.alias(EVENT_DELETED)]
    return F.struct(*parts, *([untracked.alias(EVENT_VALUES)] if layout.untracked else []))


def _in_sequence(first: Column, second: Column) -> Column:
    """Compare two events of one key by their sequence. No two events of a key have the same sequence."""
    return F.when(first[EVENT_SEQUENCE] < second[EVENT_SEQUENCE], -1).otherwise(1)
