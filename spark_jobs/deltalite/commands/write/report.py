"""The history entry of a write: delta-spark's operation name, parameters and metrics. Pure functions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from deltalite.commands.common.run_identity import user_metadata
from deltalite.commands.common.written_files import PublishedFiles, live_row_count_by_statistics
from deltalite.log.file_table import bytes_of
from deltalite.requests import WriteMode, WriteRequest
from deltalite.spark.row_changes.replacing import Replacement
from deltalite.txn.proposal import SOURCE_VERSIONS, Operation

OPERATION = "WRITE"
_SPARK_MODES = {
    WriteMode.APPEND: "Append",
    WriteMode.OVERWRITE: "Overwrite",
    WriteMode.ERROR: "ErrorIfExists",
    WriteMode.IGNORE: "Ignore",
}


def write_operation(
    request: WriteRequest,
    partition_columns: Sequence[str],
    metrics: dict[str, int],
    source_versions: Mapping[str, int],
) -> Operation:
    """Return the operation of a write. Lists among its parameters are JSON texts, as in Spark."""
    parameters: dict[str, Any] = {
        "mode": _SPARK_MODES[request.mode],
        "partitionBy": json.dumps(list(partition_columns)),
    }
    if request.replace_where is not None:
        parameters["predicate"] = json.dumps([request.replace_where])
    if source_versions:
        parameters[SOURCE_VERSIONS] = json.dumps(source_versions)
    return Operation(
        name=OPERATION,
        parameters=parameters,
        metrics=metrics,
        user_metadata=user_metadata(request.identity, request.user_metadata),
    )


def write_metrics(
    request: WriteRequest,
    new: PublishedFiles,
    copied: PublishedFiles,
    replaced: Replacement | None,
    *,
    change_file_count: int,
) -> dict[str, int]:
    """Return the metrics of a write, under delta-spark's names.

    `numDeletedRows` is the number of rows that matched `replace_where`. A predicate on partition columns alone reads no
    row, so the number comes from the statistics of the removed files. Without statistics, the metric is left out.
    delta-spark: WriteIntoDelta, DeleteCommand.
    """
    metrics = {
        "numFiles": len(new.adds) + len(copied.adds),
        "numOutputBytes": new.size_bytes + copied.size_bytes,
        "numOutputRows": new.row_count + copied.row_count,
    }
    if replaced is None:
        return metrics
    metrics["numRemovedFiles"] = replaced.files.num_rows
    metrics["numRemovedBytes"] = bytes_of(replaced.files)
    if request.replace_where is not None:
        metrics["numAddedChangeFiles"] = change_file_count
        metrics["numCopiedRows"] = copied.row_count
        deleted_rows = replaced.matched_row_count
        if deleted_rows is None:
            deleted_rows = live_row_count_by_statistics(replaced.removed_files)
        if deleted_rows is not None:
            metrics["numDeletedRows"] = deleted_rows
    return metrics
