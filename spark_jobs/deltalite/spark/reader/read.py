"""`read`: a Delta table, or its change data feed, as a DataFrame.

The version, the files and the soft-deleted rows are fixed when the DataFrame is created. Later commits do not change
its rows. The options are those of Delta's reader; see `read_options`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from deltalite.change_feed import plan_changes
from deltalite.columnar.skipping.files import prune
from deltalite.errors import InvalidRequestError
from deltalite.requests.moments import parse_moment_ms
from deltalite.snapshot import Snapshot
from deltalite.spark.expressions.predicates import parse_predicate, reads_floating_point
from deltalite.spark.hadoop.opening import source_store
from deltalite.spark.large_tables.distributed_replay import replayed_files
from deltalite.spark.reader.changes import first_version_from, refuse_versioned_path, scan_changes
from deltalite.spark.reader.read_options import ReadOptions
from deltalite.spark.reader.row_ids import scan_with_named_row_ids
from deltalite.spark.scan.frame import scan
from deltalite.storage.versioned_path import VersionedPath, resolve_version


def read(
    spark: SparkSession,
    path: str,
    *,
    version_as_of: int | None = None,
    timestamp_as_of: str | datetime | None = None,
    where: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """Return the rows of a table as a DataFrame with the columns of the table, in their order.

    Do not use `_metadata.file_modification_time` of the result: it holds an internal number of the file.

    Args:
        spark: the session.
        path: the table's address, which may end with a version such as `@v3`.
        version_as_of: the version; by default the newest.
        timestamp_as_of: a time, which selects the last version that was committed at or before it. A time without a
            time zone is read as UTC.
        where: a SQL condition on the table's columns. The result has only matching rows. Spark skips a file if its
            partition values and statistics show that no row matches. -0.0 and NaN match as SQL defines, which Spark's
            own Parquet filters do not guarantee.
        options: options of Delta's reader by name, such as `versionAsOf`. `readChangeFeed` with `startingVersion`
            or `startingTimestamp` returns the columns of `changes`. `readRowIds` adds the columns `_row_id` and
            `_row_commit_version` (bigint) of a table with row tracking; `where` cannot name them.

    Raises:
        TableNotFoundError, VersionNotFoundError, TimestampOutOfRangeError, ChangeFeedUnavailableError,
        UnsupportedFeatureError, CorruptLogError, CorruptDataFileError, InvalidRequestError: see `deltalite.errors`.
    """
    read_options = ReadOptions.parse(options or {})
    if read_options.read_change_feed:
        if version_as_of is not None or timestamp_as_of is not None:
            raise InvalidRequestError(
                "version_as_of or timestamp_as_of is set together with the option readChangeFeed, which reads a range "
                "of versions.",
                remedy="Leave out readChangeFeed, or leave out version_as_of and timestamp_as_of.",
            )
        return _changes(spark, path, read_options, where)
    for name, argument, option in (
        ("version_as_of", version_as_of, read_options.version_as_of),
        ("timestamp_as_of", timestamp_as_of, read_options.timestamp_as_of),
    ):
        if argument is not None and option is not None:
            raise InvalidRequestError(
                f"{name} is set twice: as an argument and as an option.", remedy="Keep the argument or the option."
            )
    version = read_options.version_as_of if version_as_of is None else version_as_of
    timestamp = read_options.timestamp_as_of if timestamp_as_of is None else timestamp_as_of
    snapshot = snapshot_at(spark, resolve_version(path, version, timestamp))
    scan_files = scan_with_named_row_ids if read_options.read_row_ids else scan
    if where is None:
        return scan_files(spark, snapshot, snapshot.files)
    predicate = parse_predicate(spark, where, snapshot.schema, parameter="where")
    disables_float_pushdown = reads_floating_point(predicate, snapshot.schema)
    remaining_files = prune(snapshot.files, predicate, snapshot.table_schema)
    return scan_files(spark, snapshot, remaining_files, disables_float_pushdown=disables_float_pushdown).where(where)


def files(
    spark: SparkSession,
    path: str,
    *,
    version_as_of: int | None = None,
    timestamp_as_of: str | datetime | None = None,
) -> DataFrame:
    """Return the active files of the table at `path` as a DataFrame.

    Spark replays the log, so the list of files need not fit into the driver. The DataFrame has the columns of the
    protocol's `add` action: path (as in the log), partitionValues, size (bytes), modificationTime (milliseconds),
    stats (JSON), deletionVector, tags, baseRowId, defaultRowCommitVersion and clusteringProvider.

    Raises:
        TableNotFoundError, VersionNotFoundError, TimestampOutOfRangeError, UnsupportedFeatureError, CorruptLogError,
        InvalidRequestError: see `deltalite.errors`.
    """
    snapshot = snapshot_at(spark, resolve_version(path, version_as_of, timestamp_as_of))
    return replayed_files(spark, snapshot.store, snapshot.segment)


def snapshot_at(spark: SparkSession, address: VersionedPath) -> Snapshot:
    """Load the snapshot at the version or time of an address."""
    store = source_store(spark, address.path)
    if address.timestamp_ms is not None:
        return Snapshot.load_at(store, address.timestamp_ms)
    return Snapshot.load(store, address.version)


def _changes(spark: SparkSession, path: str, options: ReadOptions, where: str | None) -> DataFrame:
    refuse_versioned_path(path)
    store = source_store(spark, path)
    first, last = options.starting_version, options.ending_version
    if options.ending_timestamp is not None:
        last = Snapshot.load_at(store, parse_moment_ms(options.ending_timestamp)).version
    if first is None and options.starting_timestamp is not None:
        first = first_version_from(store, parse_moment_ms(options.starting_timestamp))
    plan = plan_changes(store, first or 0, last)
    if where is None:
        return scan_changes(spark, plan)
    predicate = parse_predicate(spark, where, plan.schema, parameter="where")
    return scan_changes(spark, plan, disables_float_pushdown=reads_floating_point(predicate, plan.schema)).where(where)
