"""The change data feed as a DataFrame.

`change_feed.plan_changes` selects the files with changed rows, and the rows of each file. This module scans them and
adds the change type, the version and the commit time to each row. Change data files hold the change type of each row.
In any other file, all rows have one change type. Rows have no order. Protocol: Change Data Files.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.change_feed import (
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    ChangePlan,
    change_file_schema,
    plan_changes,
)
from deltalite.columnar.deletion_vectors.reading import positions_of_vectors
from deltalite.errors import InvalidRequestError, TimestampOutOfRangeError
from deltalite.log.changes import ChangedFile
from deltalite.log.commit_times import Timeline, in_commit_settings
from deltalite.log.file_table import ADD_TYPES
from deltalite.protocol.column_mapping import TableSchema
from deltalite.snapshot import Snapshot
from deltalite.spark.columns.names import column_named
from deltalite.spark.hadoop.opening import source_store
from deltalite.spark.scan.frame import scan_rows
from deltalite.spark.scan.row_selection import RowSelection
from deltalite.storage.log_store import LogStore
from deltalite.storage.versioned_path import parse_versioned_path

_TIMESTAMP_TYPE = pa.timestamp("us", "UTC")


def changes(spark: SparkSession, path: str, from_version: int, to_version: int | None = None) -> DataFrame:
    """Return the rows that the versions `from_version` to `to_version` changed, both inclusive.

    By default `to_version` is the newest version. The DataFrame has the columns of the table at the last version, then
    `_change_type` (insert, update_preimage, update_postimage or delete), `_commit_version` (long) and
    `_commit_timestamp`.

    Raises:
        TableNotFoundError, VersionNotFoundError, ChangeFeedUnavailableError, UnsupportedFeatureError, CorruptLogError,
        CorruptDataFileError, InvalidRequestError: see `deltalite.errors`.
    """
    refuse_versioned_path(path)
    return scan_changes(spark, plan_changes(source_store(spark, path), from_version, to_version))


def scan_changes(spark: SparkSession, plan: ChangePlan, *, disables_float_pushdown: bool = False) -> DataFrame:
    """Return the rows of a plan with the columns of `ChangePlan.schema`.

    See `scan.frame.scan_rows` for `disables_float_pushdown`.

    Raises:
        CorruptDataFileError, StorageError: a deletion vector cannot be read.
        CorruptLogError, UnsupportedStorageError: see `scan.frame.scan`.
    """
    change_files = [file for file in plan.files if file.change_type is None]
    data_files = [file for file in plan.files if file.change_type is not None]
    frames = []
    if data_files or not change_files:
        table = plan.snapshot.table_schema
        change_types = pa.array([file.change_type for file in data_files], pa.string())
        frames.append(
            _changed_rows(
                spark,
                plan,
                data_files,
                table,
                {CHANGE_TYPE: change_types},
                disables_float_pushdown=disables_float_pushdown,
            )
        )
    if change_files:
        schema = change_file_schema(plan.snapshot.table_schema)
        frame = _changed_rows(spark, plan, change_files, schema, {}, disables_float_pushdown=disables_float_pushdown)
        missing_type_error = F.raise_error(F.lit(f"A change data file has rows without {CHANGE_TYPE}.")).cast("string")
        change_type = F.coalesce(column_named(CHANGE_TYPE), missing_type_error).alias(CHANGE_TYPE)
        frames.append(
            frame.select(*[change_type if name == CHANGE_TYPE else column_named(name) for name in frame.columns])
        )
    return frames[0] if len(frames) == 1 else frames[0].unionAll(frames[1])


def scan_appends(spark: SparkSession, plan: ChangePlan) -> DataFrame:
    """Return the rows of a plan of appended rows, with the columns of the table.

    Raises:
        CorruptDataFileError, CorruptLogError, StorageError, UnsupportedStorageError: see `scan_changes`.
    """
    return _rows_of_files(spark, plan, plan.files, plan.snapshot.table_schema, {}, disables_float_pushdown=False)


def change_data_rows(inserted: DataFrame, deleted: DataFrame) -> DataFrame:
    """Return inserted and deleted rows in the form of change data files. Both frames have the same columns."""
    return inserted.withColumn(CHANGE_TYPE, F.lit("insert")).unionAll(deleted.withColumn(CHANGE_TYPE, F.lit("delete")))


def first_version_from(store: LogStore, timestamp_ms: int) -> int:
    """Return the first version committed at or after a time.

    Raises:
        TimestampOutOfRangeError: no version was committed at or after the time.
    """
    latest = Snapshot.load(store)
    timeline = Timeline(store, in_commit_settings(latest.protocol, latest.metadata), rebuildable_only=False)
    last_before = timeline.newest_at(timestamp_ms - 1)
    later_versions = [v for v in timeline.versions if last_before is None or v > last_before.version]
    if not later_versions:
        raise TimestampOutOfRangeError(
            f"{store.root} has no version at or after {timestamp_ms} (milliseconds since 1970). Its newest version is "
            f"{latest.version}.",
            remedy="Read the changes from an earlier time, or wait for a commit.",
        )
    return later_versions[0]


def refuse_versioned_path(path: str) -> None:
    """Raise `InvalidRequestError` if the address of a table names a version or time."""
    address = parse_versioned_path(path)
    if address.version is not None or address.timestamp_ms is not None:
        raise InvalidRequestError(
            f"The address {path!r} names one version, but changes are read over a range of versions.",
            remedy=f"Give the address {address.path!r}, and the range of versions separately.",
        )


def _changed_rows(
    spark: SparkSession,
    plan: ChangePlan,
    files: Sequence[ChangedFile],
    table: TableSchema,
    by_file: dict[str, pa.Array],
    *,
    disables_float_pushdown: bool,
) -> DataFrame:
    """Return the changed rows of the files: the columns of `table`, of `by_file`, the version and the time."""
    commit_times = pa.array([file.timestamp_ms * 1000 for file in files], pa.int64()).cast(_TIMESTAMP_TYPE)
    by_file = by_file | {
        COMMIT_VERSION: pa.array([file.version for file in files], pa.int64()),
        COMMIT_TIMESTAMP: commit_times,
    }
    return _rows_of_files(spark, plan, files, table, by_file, disables_float_pushdown=disables_float_pushdown)


def _rows_of_files(
    spark: SparkSession,
    plan: ChangePlan,
    files: Sequence[ChangedFile],
    table: TableSchema,
    by_file: dict[str, pa.Array],
    *,
    disables_float_pushdown: bool,
) -> DataFrame:
    """Return the rows of the files: the columns of `table`, and of `by_file`.

    `by_file` has a value for each file, by the name of the added column.
    """
    store = plan.snapshot.store
    file_table = pa.table(
        {
            "path": pa.array([file.path for file in files], ADD_TYPES["path"]),
            "partitionValues": pa.array(
                [list((file.partition_values or {}).items()) for file in files], ADD_TYPES["partitionValues"]
            ),
            "size": pa.array([file.size_bytes for file in files], ADD_TYPES["size"]),
            "modificationTime": pa.array([file.timestamp_ms for file in files], ADD_TYPES["modificationTime"]),
        }
    )
    return scan_rows(
        spark,
        store.root,
        table,
        file_table,
        rows=_selections(store, files),
        by_file=by_file,
        disables_float_pushdown=disables_float_pushdown,
    )


def _selections(store: LogStore, files: Sequence[ChangedFile]) -> dict[int, RowSelection]:
    """Return the changed rows of files, by the number of the file. All rows of the other files changed.

    A vector also has the rows that earlier versions deleted, so the vectors of many versions can need much memory. The
    loop reads the vectors of one file at a time.
    """
    selections: dict[int, RowSelection] = {}
    for number, file in enumerate(files):
        vectors = [vector for vector in (file.deletion_vector, file.only_rows_vector) if vector is not None]
        positions = iter(positions_of_vectors(store, vectors))
        deleted_rows = None if file.deletion_vector is None else next(positions)
        changed_rows = None if file.only_rows_vector is None else next(positions)
        selection = _selection(deleted_rows, changed_rows)
        if selection is not None:
            selections[number] = selection
    return selections


def _selection(deleted_rows: pa.Int64Array | None, changed_rows: pa.Int64Array | None) -> RowSelection | None:
    """Return the changed rows of a file, or None for all rows. `changed_rows` may contain deleted rows."""
    if changed_rows is None:
        return None if deleted_rows is None or not len(deleted_rows) else RowSelection(positions=deleted_rows)
    if deleted_rows is not None:
        changed_rows = changed_rows.filter(pc.invert(pc.is_in(changed_rows, value_set=deleted_rows)))
    return RowSelection(positions=changed_rows, only_these=True)
