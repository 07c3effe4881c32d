"""Events: the known state of each key at each sequence, from the table and from the source.

An event says: from its sequence on, the key has certain values, or the key is deleted. The rows of the table and the
new rows of the source become events of one form, and each key and sequence keeps one event. The rows of the table are
computed from the events only, so the order and the batches in which the events arrive do not matter.

Columns of a frame of events:

- `key`, `sequence`, `deleted`
- `tracked`, `untracked`: structs with the values; null if the event deletes the key.
- `is_new`: whether the event comes from the source.
- `stored`: the row of the table that begins with this event, null for other events.

The names of the frame cannot collide with those of the table, because the values of the table are inside structs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.protocol.schema import StructType
from deltalite.requests import OnSameSequence
from deltalite.spark.columns.assigning import assign_value
from deltalite.spark.columns.comparing import comparable
from deltalite.spark.columns.conforming import conform_columns
from deltalite.spark.columns.names import SOURCE, column_named, quoted
from deltalite.spark.columns.text_lengths import fit_text
from deltalite.spark.columns.types import spark_type
from deltalite.spark.runtime.errors import computing_rows
from deltalite.spark.scd.layout import Layout

KEY, ROW, SEQUENCE, DELETED = "key", "row", "sequence", "deleted"
TRACKED, UNTRACKED, IS_NEW, STORED = "tracked", "untracked", "is_new", "stored"
CONFLICTS, DUPLICATES, LATE = "conflicts", "duplicates", "late"
NO_COLUMN = "none"
"""The member of a struct that stands for no columns, because Spark does not support an empty struct everywhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NullCounts:
    """The number of source rows with a null in a key, and the number of source rows without a sequence."""

    keys: int
    sequences: int


def count_nulls(rows: DataFrame, layout: Layout) -> NullCounts:
    """Count the source rows with a null in a key, or without a sequence.

    Raises the errors of `computing_rows`.
    """
    keys = [column_named(name).isNull() for name in layout.keys]
    has_null_key = keys[0]
    for is_null in keys[1:]:
        has_null_key = has_null_key | is_null
    with computing_rows():
        counts = rows.alias(SOURCE).agg(F.count_if(has_null_key), F.count_if(layout.sequence.isNull())).collect()[0]
    return NullCounts(keys=counts[0], sequences=counts[1])


def new_events(rows: DataFrame, layout: Layout) -> DataFrame:
    """Return the events of the source's rows."""
    sequence = assign_value(layout.sequence, layout.sequence_type, layout.stored_sequence_type, layout.valid_from)
    frame = rows.alias(SOURCE).select(
        sequence.alias(SEQUENCE),
        layout.is_delete.alias(DELETED),
        F.struct(*_stored_columns(layout, layout.values)).alias(ROW),
    )
    row = F.col(ROW)
    return frame.select(
        members(row, layout.keys).alias(KEY),
        F.col(SEQUENCE),
        F.col(DELETED),
        F.when(~F.col(DELETED), members(row, layout.tracked)).alias(TRACKED),
        F.when(~F.col(DELETED), members(row, layout.untracked)).alias(UNTRACKED),
        F.lit(True).alias(IS_NEW),
    )


def source_keys(rows: DataFrame, layout: Layout) -> DataFrame:
    """Return the keys of the source's rows, as the table stores them."""
    keys = StructType(tuple(field for field in layout.values if field.name in layout.keys))
    return rows.alias(SOURCE).select(*_stored_columns(layout, keys))


def rows_of_keys(rows: DataFrame, layout: Layout, keys: DataFrame) -> DataFrame:
    """Return the rows of the table that have one of the `keys`, as structs in the columns `key` and `row`.

    `rows` has the columns of `layout.schema`.
    """
    key = F.struct(*[column_named(name).alias(name) for name in layout.keys]).alias(KEY)
    keyed_rows = rows.select(key, F.struct(*map(column_named, layout.schema.names)).alias(ROW))
    return keyed_rows.join(keys, KEY, "left_semi")


def distinct_events(events: DataFrame, layout: Layout, on_same_sequence: OnSameSequence) -> DataFrame:
    """Return one event for each key and sequence, with the columns `conflicts`, `duplicates` and `late`.

    - `conflicts`: whether events of this key and sequence differ, so that nothing says which one applies. With
      `REPLACE`, an event of the source replaces one of the table, and only events of the source can differ. A row of
      the table without a sequence is a conflict too.
    - `duplicates`: the number of the source's rows that add nothing.
    - `late`: whether the event comes from the source, adds something, and is older than an event of the table.
    """
    replaces = on_same_sequence is OnSameSequence.REPLACE
    is_new, payload = F.col(IS_NEW), _payload(layout)
    by_key = Window.partitionBy(KEY)
    peers = by_key.orderBy(SEQUENCE).rangeBetween(Window.currentRow, Window.currentRow)
    # The event of the table comes first. With REPLACE, the event of the source comes first.
    by_preference = by_key.orderBy(SEQUENCE, is_new.desc() if replaces else is_new.asc())
    compared = F.when(is_new, payload) if replaces else payload
    are_different = F.min(compared).over(peers) != F.max(compared).over(peers)
    stored_payload = F.first(F.when(~is_new, payload), ignorenulls=True).over(peers)
    with_peers = events.select(
        *map(F.col, (KEY, SEQUENCE, DELETED, TRACKED, UNTRACKED, IS_NEW)),
        F.first(STORED, ignorenulls=True).over(peers).alias(STORED),
        (F.coalesce(are_different, F.lit(False)) | F.col(SEQUENCE).isNull()).alias(CONFLICTS),
        F.count_if(is_new).over(peers).alias("new_count"),
        F.when(stored_payload.isNull(), True).otherwise(stored_payload != payload).alias("is_not_stored"),
        F.max(F.when(~is_new, F.col(SEQUENCE))).over(by_key).alias("newest_stored"),
        F.lag(SEQUENCE).over(by_preference).alias("previous"),
    )
    is_first = F.col("previous").isNull() | (F.col("previous") != F.col(SEQUENCE))
    adds = F.col(IS_NEW) & F.col("is_not_stored")
    return with_peers.where(is_first).select(
        *map(F.col, (KEY, SEQUENCE, DELETED, TRACKED, UNTRACKED, STORED, CONFLICTS)),
        (F.col("new_count") - adds.cast("long")).alias(DUPLICATES),
        (adds & F.coalesce(F.col(SEQUENCE) < F.col("newest_stored"), F.lit(False))).alias(LATE),
    )


def comparable_tracked(layout: Layout, tracked: Column | None = None) -> Column:
    """Return the tracked values, by default those of the column `tracked`, in a form that Spark can compare."""
    return _comparable(F.col(TRACKED) if tracked is None else tracked, layout, layout.tracked)


def comparable_values(tracked: Column, untracked: Column, layout: Layout) -> Column:
    """Return tracked and untracked values in a form that Spark can compare."""
    return F.struct(
        _comparable(tracked, layout, layout.tracked).alias(TRACKED),
        _comparable(untracked, layout, layout.untracked).alias(UNTRACKED),
    )


def members(row: Column, columns: Sequence[str]) -> Column:
    """Return some members of a struct as a struct, or a constant struct if `columns` is empty."""
    if not columns:
        return F.struct(F.lit(True).alias(NO_COLUMN))
    return F.struct(*[row[name].alias(name) for name in columns])


def null_struct(layout: Layout, columns: Sequence[str]) -> Column:
    """Return a null of the type of `members`."""
    if not columns:
        return F.lit(None).cast(f"struct<{NO_COLUMN}:boolean>")
    return F.lit(None).cast(spark_type(layout.struct_of(columns)))


def struct_of_nulls(layout: Layout, columns: Sequence[str]) -> Column:
    """Return a struct of the type of `members` in which every member is null. `columns` is not empty."""
    member_fields = layout.struct_of(columns)
    return F.struct(*[F.lit(None).cast(spark_type(field.type)).alias(field.name) for field in member_fields])


def _stored_columns(layout: Layout, columns: StructType) -> list[Column]:
    """Return columns of the source with the types of the table, and with texts fitted to the lengths of the types."""
    values = conform_columns(layout.source, columns, _source_column)
    return [fit_text(value, field).alias(field.name) for value, field in zip(values, columns, strict=True)]


def _payload(layout: Layout) -> Column:
    """Return the deletion and the values of an event, in a form that Spark can compare."""
    values = comparable_values(F.col(TRACKED), F.col(UNTRACKED), layout)
    return F.struct(F.col(DELETED), values.alias("values"))


def _comparable(values: Column, layout: Layout, names: Sequence[str]) -> Column:
    return comparable(values, layout.struct_of(names)) if names else values


def _source_column(name: str) -> Column:
    return F.col(f"{SOURCE}.{quoted(name)}")
