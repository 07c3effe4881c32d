"""The changes of an SCD table from the rows of the source and the rows of the table."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from deltalite.requests import ScdRequest
from deltalite.requests.scd import NEWEST_ROWS
from deltalite.spark.expressions.sql import no_rows
from deltalite.spark.row_changes.joining import Size, broadcast_if_small
from deltalite.spark.scd.changes import ScdChanges, compute_changes
from deltalite.spark.scd.events import KEY, new_events, rows_of_keys
from deltalite.spark.scd.history import history_changes, history_events
from deltalite.spark.scd.layout import Layout
from deltalite.spark.scd.newest import newest_changes, newest_events


def compute_scd(
    request: ScdRequest, layout: Layout, *, source: DataFrame, source_size: Size, table: DataFrame
) -> ScdChanges:
    """Compute the rows of the source's keys anew, and return how they differ from the table.

    Args:
        request: the request.
        layout: the columns of the table, and their roles.
        source: rows of the source, without nulls in keys and sequence.
        source_size: the size of the source.
        table: rows of the table with the columns of the layout, among them all rows of the source's keys.

    Raises:
        AmbiguousRowsError: rows of one key and sequence differ.
        ConstraintViolationError: a row of the table has no sequence.
        CorruptDataFileError, UnsupportedFeatureError: see `reading_table`.
        SourceError, StorageError, InvalidRequestError: see `computing_rows`.
    """
    source_events = new_events(source, layout)
    keys = broadcast_if_small(source_events.select(KEY).distinct(), source_size)
    table_rows = rows_of_keys(table, layout, keys)
    if request.scd_type == NEWEST_ROWS:
        events_of, changes_of = newest_events, newest_changes
    else:
        events_of, changes_of = history_events, history_changes
    events = events_of(table_rows, layout).unionByName(source_events, allowMissingColumns=True)
    return compute_changes(changes_of(events, layout, request.on_same_sequence), layout, root=request.table)


def empty_table(spark: SparkSession, layout: Layout) -> DataFrame:
    """Return a frame without rows, which stands for a table that does not exist yet."""
    return no_rows(spark, layout.schema)
