"""The checkpoint command: writes the checkpoint and the checksum of the newest version, and cleans the log.

The command commits nothing, so it records no run. It does not replace a readable checkpoint, so a second run on the
same version writes nothing. If the checkpoint fails, the task fails. The post-commit upkeep, in contrast, only logs
such an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltalite.commands.common.committing import now_ms
from deltalite.phases import PHASES, Phase
from deltalite.protocol import properties as props
from deltalite.protocol.features import check_writable
from deltalite.requests import CheckpointRequest
from deltalite.results import OperationResult, checkpoint_result
from deltalite.snapshot import Snapshot
from deltalite.spark.hadoop.opening import writable_store
from deltalite.spark.large_tables.large_checkpoint import write_any_checkpoint
from deltalite.storage.versioned_path import refuse_version
from deltalite.upkeep.checkpoint import MAX_FILES_IN_ONE_PROCESS, estimate_file_count
from deltalite.upkeep.checksum import write_checksum
from deltalite.upkeep.cleanup import CleanupResult, clean_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def checkpoint(spark: SparkSession, request: CheckpointRequest) -> OperationResult:
    """Write the checkpoint of the newest version, or report that it exists (`skipped`).

    Clean the log in both cases, if the request and the table ask for it.

    Raises:
        TableNotFoundError: there is no table.
        UnsupportedFeatureError: the table has features that this release does not write.
        DeltaLiteError: the log cannot be read, or storage failed. The rows of the table are unchanged.
    """
    refuse_version(request.table)
    store = writable_store(spark, request.table, single_writer=request.single_writer)
    snapshot = Snapshot.load(store)
    snapshot.check_log()
    check_writable(snapshot.protocol, snapshot.metadata)
    time_ms = now_ms()
    PHASES.begin(Phase.WRITE)
    new_checkpoint = write_any_checkpoint(spark, snapshot, time_ms)
    write_checksum(snapshot, count_all=estimate_file_count(snapshot) <= MAX_FILES_IN_ONE_PROCESS)
    cleans_log = request.log_cleanup and props.ENABLE_EXPIRED_LOG_CLEANUP.of(snapshot.configuration)
    cleaned = clean_log(snapshot, now_ms=time_ms) if cleans_log else CleanupResult()
    metrics = {"numDeletedLogFiles": cleaned.log_files, "numDeletedSidecars": cleaned.sidecars}
    if new_checkpoint is not None:
        metrics |= {
            "numActions": new_checkpoint.size,
            "numFiles": new_checkpoint.num_of_add_files or 0,
            "sizeInBytes": new_checkpoint.size_bytes or 0,
        }
    return checkpoint_result(store.root, snapshot.version, existed=new_checkpoint is None, metrics=metrics)
