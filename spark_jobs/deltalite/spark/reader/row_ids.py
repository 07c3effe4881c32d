"""The rows of a table with their row ids and row commit versions, under names that do not depend on the table."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from deltalite.columnar.reader.projection import MetadataColumn
from deltalite.errors import InvalidRequestError
from deltalite.snapshot import Snapshot
from deltalite.spark.scan.frame import scan_with_row_ids

_NAMES = (MetadataColumn.ROW_ID.value, MetadataColumn.ROW_COMMIT_VERSION.value)


def scan_with_named_row_ids(
    spark: SparkSession, snapshot: Snapshot, files: pa.Table, *, disables_float_pushdown: bool = False
) -> DataFrame:
    """Return the live rows of `files` with the additional columns `_row_id` and `_row_commit_version` (bigint).

    See `scan_rows` for `disables_float_pushdown`.

    Raises:
        InvalidRequestError: the table has no row ids, or has a column with one of these names.
    """
    if snapshot.row_ids is None:
        raise InvalidRequestError(
            f"{snapshot.store.root} has no row ids, because row tracking is not enabled.",
            remedy="Leave out the option readRowIds.",
        )
    taken_name = next((name for name in _NAMES if snapshot.schema.find(name) is not None), None)
    if taken_name is not None:
        raise InvalidRequestError(
            f"{snapshot.store.root} has a column '{taken_name}', and the option readRowIds adds a column of this name.",
            remedy="Leave out the option readRowIds.",
        )
    rows = scan_with_row_ids(spark, snapshot, files, disables_float_pushdown=disables_float_pushdown)
    return rows.withColumnsRenamed(dict(zip(snapshot.row_ids.names, _NAMES, strict=True)))
