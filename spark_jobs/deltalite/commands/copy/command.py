"""The copy command: appends the rows of files that the table has not loaded, exactly once for each file.

The steps:

1. Load a snapshot, and look for an earlier commit of this run.
2. List the files of the source, once for all attempts while no file changes. Look them up in the record of loaded files
   (`plan.py`).
3. Read the new files, and write their rows like a write does. No version refers to the new data files yet. Check that
   the files still have the size, the time and the ETag of the listing.
4. Commit the bad records and the rejected rows to the quarantine table, if there is one. They replace those of the
   run's earlier attempts.
5. Write the record with the new files. No version names it yet.
6. Commit the data files, the run and the transaction that names the record, in one version.

A kill before step 6 leaves the table unchanged. If a winning commit loaded files meanwhile, the command replans from
step 1, and leaves these files out. If a file changed during the read, the command replans too, and lists the files
again. With `validate_only` the command stops in step 3, and writes nothing.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

from deltalite.commands.common.existing_table import existing_table
from deltalite.commands.common.kept_rows import UncommittedRows
from deltalite.commands.common.replanning import Rebase, replan_on_conflict
from deltalite.commands.common.written_files import PublishedFiles
from deltalite.commands.copy.plan import ListedSource, list_source, plan_load
from deltalite.commands.copy.quarantine import CopyQuarantine
from deltalite.commands.write.command import check_rows, write
from deltalite.commands.write.report import write_metrics, write_operation
from deltalite.requests import CopyRequest, WriteMode, WriteRequest
from deltalite.requests.quarantine import rejecting_audits
from deltalite.requests.source import fields_with_sources
from deltalite.results import OperationResult, result_without_commit
from deltalite.sizes import counted
from deltalite.spark.hadoop.opening import writable_store
from deltalite.storage.versioned_path import refuse_version
from deltalite.txn.proposal import Operation
from deltalite.txn.quarantine import QUARANTINED_ROWS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltalite.storage.log_store import LogStore

_log = logging.getLogger(__name__)


def copy(spark: SparkSession, request: CopyRequest) -> OperationResult:
    """Load the new files, or return the result of an earlier attempt of the same run (`skipped`).

    The result is `skipped` too, with `skip_reason`, if no file is new. With `validate_only`, check rows and commit
    nothing.

    Raises:
        SourceNotFoundError: the folder, or a file, does not exist.
        SourceError: a file cannot be read, or a record does not fit the schema.
        SourceChangedError: a file changed during each attempt to read it.
        DeltaLiteError: as `write`. The table is unchanged, except perhaps after a `CommitStateUnknownError`.
    """
    refuse_version(request.table)
    store = writable_store(spark, request.table, single_writer=request.single_writer)

    @cache  # one listing for all attempts, until a file changes
    def source() -> ListedSource:
        listed = list_source(spark, request)
        _log.info("Found %s in %s.", counted(listed.files.num_rows, "matching file"), listed.folder)
        return listed

    write_request = _write_request(request)
    quarantine = (
        None if request.quarantine is None else CopyQuarantine(spark, request, request.quarantine, store, write)
    )
    if request.validate_only is not None:
        row_count = request.validate_only
        return replan_on_conflict(
            lambda: _validate(spark, request, write_request, store, source(), row_count, quarantine),
            rebase=Rebase.REPLAN,
            retries=0,
            seconds=0,
        )
    return write(
        spark,
        write_request,
        describe=partial(_operation, request, write_request),
        plan=lambda base: plan_load(request, store, source(), base, quarantine, source.cache_clear),
        quarantine=quarantine,
    )


def _write_request(request: CopyRequest) -> WriteRequest:
    """Return the request that appends the rows of the files."""
    return WriteRequest(
        **fields_with_sources(request),
        mode=WriteMode.APPEND,
        partition_by=request.partition_by,
        merge_schema=request.merge_schema,
        max_records_per_file=request.max_records_per_file,
        optimize_write=request.optimize_write,
        properties=request.properties,
        audits=request.audits,
        quarantine=request.quarantine if rejecting_audits(request.audits) else None,
    )


def _operation(request: CopyRequest, write_request: WriteRequest, rows: UncommittedRows) -> Operation:
    metrics = write_metrics(write_request, rows.files, PublishedFiles.empty(), None, change_file_count=0)
    return replace(write_operation(write_request, rows.target.partition_columns, metrics, {}), name=request.operation)


def _validate(
    spark: SparkSession,
    request: CopyRequest,
    write_request: WriteRequest,
    store: LogStore,
    source: ListedSource,
    row_count: int,
    quarantine: CopyQuarantine | None,
) -> OperationResult:
    """Check up to `row_count` rows of the new files like a load does, and return their number. Write nothing."""
    base = existing_table(spark, store)
    load = plan_load(request, store, source, base, quarantine)
    result = load.result_if_nothing_new(write_request, base)
    if result is not None:
        return result
    counts = check_rows(spark, write_request, store, base, load, row_count, quarantine=quarantine)
    quarantined = {} if quarantine is None else {QUARANTINED_ROWS: quarantine.preview(row_count) + counts.rejected}
    row_text, file_text = counted(counts.total, "row"), counted(load.choice.files.num_rows, "file")
    _log.info("Checked %s of %s; nothing was written.", row_text, file_text)
    version = None if base is None else base.version
    metrics = {**load.metrics_without_load, "numValidRows": counts.valid, **quarantined}
    return result_without_commit(request.operation, store.root, version, run=request.identity, metrics=metrics)
