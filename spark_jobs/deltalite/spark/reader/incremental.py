"""The rows of an incremental source: the snapshot, appended rows, changed rows, or none."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.change_feed import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, ChangePlan
from deltalite.log.commit_times import Timeline, in_commit_settings
from deltalite.snapshot import Snapshot
from deltalite.spark.reader.changes import scan_appends, scan_changes
from deltalite.spark.scan.frame import scan


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLoad:
    """The rows to load from a source.

    - `snapshot`: the source at the last version of this load. The rows have its schema.
    - `plan`: the files with appended or changed rows. None loads the complete snapshot, or nothing.
    - `is_empty`: whether there is no row to load.
    - `has_change_columns`: whether the rows have the columns of the change data feed. Rows of a snapshot are inserts.
    """

    snapshot: Snapshot
    plan: ChangePlan | None = None
    is_empty: bool = False
    has_change_columns: bool = False


def load_rows(spark: SparkSession, load: SourceLoad) -> DataFrame:
    """Return the rows of a load.

    Raises:
        CorruptDataFileError, CorruptLogError, StorageError, UnsupportedStorageError: see `scan` and `scan_changes`.
    """
    if load.plan is not None:
        return scan_changes(spark, load.plan) if load.has_change_columns else scan_appends(spark, load.plan)
    files: pa.Table | None = load.snapshot.files.slice(0, 0) if load.is_empty else None
    rows = scan(spark, load.snapshot, files)
    if not load.has_change_columns:
        return rows
    time_ms = None if load.is_empty else _commit_time_ms(load.snapshot)
    return rows.withColumns(
        {
            CHANGE_TYPE: F.lit("insert"),
            COMMIT_VERSION: F.lit(load.snapshot.version).cast("long"),
            COMMIT_TIMESTAMP: F.timestamp_millis(F.lit(time_ms).cast("long")),
        }
    )


def _commit_time_ms(snapshot: Snapshot) -> int | None:
    """Return the time of the commit (milliseconds since 1970), None if the log no longer holds the commit."""
    in_commit = in_commit_settings(snapshot.protocol, snapshot.metadata)
    timeline = Timeline(snapshot.store, in_commit, rebuildable_only=False)
    return timeline.time_of(snapshot.version) if snapshot.version in timeline.versions else None
