"""The changes of an SCD table: new and removed rows, computed once, with their counts.

`history` (type 2) and `newest` (type 1) compute a frame of changes. Its columns:

- `key`: the key of the row.
- `new_row`: a row of the table that is new or changed; null without a change.
- `removed`: the values of `valid_from` of the key's rows that the table loses.
- `is_first`: whether this is the first row of its key in the frame.
- `opened`: in type 2, whether the row is new and its range is not empty. In type 1, whether a new or deleted key gets
  values.
- `closed`: whether the row was the current one, and no longer is.
- `conflicts`: the number of sequences at which events differ. Type 1 compares only events of the newest sequence. A row
  of the table without a sequence counts too.
- `conflicting_sequence`: one of these sequences; null for a row of the table without a sequence.
- `duplicates`, `late`: counts of the source's rows; see `distinct_events`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.errors import AmbiguousRowsError, ConstraintViolationError
from deltalite.spark.columns.names import column_named
from deltalite.spark.columns.types import spark_type
from deltalite.spark.runtime.computed_once import compute_once
from deltalite.spark.scd.events import CONFLICTS, DUPLICATES, KEY, LATE
from deltalite.spark.scd.layout import Layout

NEW_ROW, REMOVED, OPENED, CLOSED, CONFLICTING_SEQUENCE = (
    "new_row",
    "removed",
    "opened",
    "closed",
    "conflicting_sequence",
)
_MAX_SHOWN_KEYS = 3
_MAX_SHOWN_CHARACTERS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ScdChanges:
    """The rows for the merge into the table, and the counts of the changes by the name of the metric.

    `rows` has the columns of the layout. The rows that the table loses have a null in the column `current`.
    """

    rows: DataFrame
    counts: Mapping[str, int]


def compute_changes(changes: DataFrame, layout: Layout, *, root: str) -> ScdChanges:
    """Compute a frame of changes of the table at `root` once, and return the changes.

    Raises:
        AmbiguousRowsError: rows of one key and sequence differ.
        ConstraintViolationError: a row of the table has no sequence.
        CorruptDataFileError, UnsupportedFeatureError: see `reading_table`.
        SourceError, StorageError, InvalidRequestError: see `computing_rows`.
    """
    has_effect = F.col(NEW_ROW).isNotNull() | (F.size(REMOVED) > 0) | F.col("is_first")
    has_count = (F.col(CONFLICTS) > 0) | (F.col(DUPLICATES) > 0) | (F.col(LATE) > 0)
    computed = compute_once(changes.where(has_effect | has_count), reads_table=root)
    counts = computed.agg(
        F.count_if("is_first").alias("numKeys"),
        F.count_if(OPENED).alias("numRowsOpened"),
        F.count_if(CLOSED).alias("numRowsClosed"),
        F.coalesce(F.sum(LATE), F.lit(0)).alias("numLateRows"),
        F.coalesce(F.sum(DUPLICATES), F.lit(0)).alias("numDuplicateRows"),
        F.coalesce(F.sum(CONFLICTS), F.lit(0)).alias(CONFLICTS),
    ).collect()[0]
    metrics = counts.asDict()
    if metrics.pop(CONFLICTS):
        raise _missing_sequence_error(computed, layout, root) or _ambiguous_rows_error(computed, layout)
    new_rows = computed.where(F.col(NEW_ROW).isNotNull()).select(f"{NEW_ROW}.*")
    removed = computed.select(KEY, F.explode(REMOVED).alias(REMOVED))
    columns = {name: F.col(KEY)[name] for name in layout.keys} | {layout.valid_from: F.col(REMOVED)}
    removed_rows = removed.select(
        *[
            columns.get(field.name, F.lit(None)).cast(spark_type(field.type)).alias(field.name)
            for field in layout.schema
        ]
    )
    rows = new_rows.unionByName(removed_rows).select(*map(column_named, layout.schema.names))
    return ScdChanges(rows=rows, counts=metrics)


def _missing_sequence_error(changes: DataFrame, layout: Layout, root: str) -> ConstraintViolationError | None:
    """Return the error for rows of the table without a sequence, None if there are none. The source has no such row."""
    keys = _shown_rows(changes.where(F.col(CONFLICTING_SEQUENCE).isNull()), F.col(KEY))
    if not keys:
        return None
    return ConstraintViolationError(
        f"Nothing was written: rows of {root} have no value in the column {layout.valid_from}. Keys of some of them: "
        f"{keys}.",
        remedy=f"Delete these rows, or set {layout.valid_from} to the sequence at which each of them begins.",
    )


def _ambiguous_rows_error(changes: DataFrame, layout: Layout) -> AmbiguousRowsError:
    rows = _shown_rows(changes, F.struct(F.col(f"{KEY}.*"), F.col(CONFLICTING_SEQUENCE).alias(layout.valid_from)))
    return AmbiguousRowsError(
        "Nothing was written: rows of one key and one sequence differ, in the source or between source and table. "
        f"Some of them: {rows}.",
        remedy="Let sequence_by decide between them. If a corrected row replaces one that the table has, set "
        "on_same_sequence='replace'.",
    )


def _shown_rows(changes: DataFrame, values: Column) -> str:
    """Return the values of a few rows with conflicts as JSON; an empty text without such rows."""
    text = F.substring(F.to_json(values, {"ignoreNullFields": "false"}), 1, _MAX_SHOWN_CHARACTERS)
    rows = changes.where(F.col(CONFLICTS) > 0).select(text).limit(_MAX_SHOWN_KEYS).collect()
    return ", ".join(row[0] for row in rows)
