"""`read`: a Delta table as a DataFrame, at a version or time."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import DataFrame, SparkSession

from deltalite.snapshot import Snapshot
from deltalite.spark.scan import scan
from deltalite.storage.opening import open_store
from deltalite.storage.versioned_path import resolve_version


def read(
    spark: SparkSession,
    path: str,
    *,
    version_as_of: int | None = None,
    timestamp_as_of: str | datetime | None = None,
) -> DataFrame:
    """The rows of the table at `path` (which may end with `@v3`), in the table's columns and order.

    The version is chosen now: the DataFrame keeps reading it whatever is committed later.

    Raises: TableNotFoundError, VersionNotFoundError, TimestampOutOfRangeError, UnsupportedFeatureError,
        InvalidRequestError.
    """
    wanted = resolve_version(path, version_as_of, timestamp_as_of)
    store = open_store(wanted.path)
    if wanted.timestamp_ms is not None:
        snapshot = Snapshot.load_at(store, wanted.timestamp_ms)
    else:
        snapshot = Snapshot.load(store, wanted.version)
    return scan(spark, snapshot)
