"""The vacuum command: deletes files from the table's folder that no version within the retention needs.

The steps:

1. Plan on a snapshot: the files to delete.
2. Commit VACUUM START. Read the commits since the snapshot, and keep the files that they need.
3. Delete the files, then the empty folders.
4. Commit VACUUM END with the run's `txn`, even if there was nothing to delete. After a failure in step 3, VACUUM END
   has the status FAILED and no `txn`, so a retry vacuums again.
5. Record the version after which the next lite vacuum begins (`upkeep.last_vacuum_info`).
6. Delete the parts of the record of loaded files that no readable version needs (`upkeep.loaded_files`).

If the process is killed, all versions within the retention stay complete. After a kill between step 2 and step 4, the
log has a VACUUM START without a VACUUM END.
delta-spark: VacuumCommand.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltalite.commands.common.committing import commit_proposal, find_earlier_result, now_ms, operation_result
from deltalite.commands.common.effort import EXECUTION_TIME
from deltalite.commands.common.replanning import Rebase, replan_on_conflict
from deltalite.commands.common.run_identity import transaction, user_metadata
from deltalite.errors import DeltaLiteError, StorageError
from deltalite.log.commit_times import commit_file
from deltalite.phases import PHASES, Phase
from deltalite.protocol.actions import SetTransaction
from deltalite.protocol.properties import HOUR_MS
from deltalite.requests import VacuumMode, VacuumRequest
from deltalite.results import OperationResult
from deltalite.sizes import counted
from deltalite.snapshot import Snapshot
from deltalite.spark.hadoop.opening import readable_store, writable_store
from deltalite.spark.hadoop.tree import tree_of
from deltalite.storage.versioned_path import refuse_version
from deltalite.txn.proposal import BaseState, Operation, Proposal
from deltalite.txn.winners import VACUUM_END, VACUUM_START
from deltalite.upkeep.last_vacuum_info import advance_last_vacuum
from deltalite.upkeep.loaded_files import delete_unneeded_records
from deltalite.upkeep.vacuum import SweepResult, exclude_later_commits, full_plan, lite_plan, sweep
from deltalite.upkeep.vacuum_plan import VacuumPlan
from deltalite.upkeep.vacuum_rules import Retention, retention_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltalite.storage.log_store import LogStore
    from deltalite.storage.trees import TableTree

_DRY_RUN = "VACUUM DRY RUN"
_MAX_LOGGED_FOLDERS = 10
_MAX_LOGGED_FILES = 100
_MIB = 1024 * 1024
_MAX_CLOCK_LEAD_MS = HOUR_MS

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _StartedVacuum:
    """A vacuum's plan, and the `version` of its VACUUM START."""

    plan: VacuumPlan
    version: int


def vacuum(spark: SparkSession, request: VacuumRequest, *, clock_ms: Callable[[], int] = now_ms) -> OperationResult:
    """Delete unneeded files, or return the result of an earlier attempt of the same run (`skipped`).

    With `dry_run`, delete and commit nothing. The result then counts the files and folders that a vacuum would delete.

    Raises:
        TableNotFoundError: there is no table.
        UnsupportedFeatureError: the table has a writer feature that this release does not know.
        InvalidRequestError: the retention is shorter than the table's, and was not confirmed.
        VersionNotFoundError: the log no longer has the commits that a lite vacuum needs.
        CorruptLogError, CorruptDataFileError: the log cannot be read completely; nothing was deleted.
        StorageError, StoragePermissionError: some files could not be deleted, and all other files were deleted. Or the
            clock of this machine is wrong, and nothing was deleted.
    """
    refuse_version(request.table)
    if request.dry_run:
        store = readable_store(spark, request.table)
        return _dry_run(request, store, tree_of(spark, store.root), clock_ms())
    store = writable_store(spark, request.table, single_writer=request.single_writer)
    tree = tree_of(spark, store.root)
    started = replan_on_conflict(
        lambda: _plan_and_commit_start(spark, request, store, tree, clock_ms()),
        rebase=Rebase.REPLAN,
        retries=request.conflict_retries,
        seconds=request.conflict_seconds,
    )
    if isinstance(started, OperationResult):
        return started
    sweep_start_s = time.monotonic()
    try:
        _check_clock(store, started.version)
        PHASES.begin(Phase.DELETE)
        outcome = sweep(tree, started.plan)
        _check_complete(outcome, store.root)
    except Exception:  # record any failure in the log before the error propagates
        _record_failure(spark, request, store)
        raise
    # `commit_proposal` would measure only the commit of VACUUM END, and not the deletion.
    time_metric = {EXECUTION_TIME: round((time.monotonic() - sweep_start_s) * 1000)}
    result = _commit_end(spark, request, store, "COMPLETED", _metrics(started.plan, outcome) | time_metric)
    advance_last_vacuum(store, started.plan.swept_version)
    _delete_unneeded_records(store, clock_ms())
    return result


def _plan_and_commit_start(
    spark: SparkSession, request: VacuumRequest, store: LogStore, tree: TableTree, time_ms: int
) -> _StartedVacuum | OperationResult:
    """Plan and commit VACUUM START, or return the result if this run has completed before."""
    base = Snapshot.load(store)
    earlier_result = find_earlier_result(request, base)
    if earlier_result is not None:
        return earlier_result
    retention = _retention(request, base, time_ms)
    plan = _plan(request, base, tree, retention)
    parameters = {"retentionCheckEnabled": not retention.is_short, "defaultRetentionMillis": retention.table_ms}
    if retention.specified_ms is not None:
        parameters["specifiedRetentionMillis"] = retention.specified_ms
    operation = Operation(
        name=VACUUM_START,
        parameters=parameters,
        metrics={"numFilesToDelete": plan.files.num_rows, "sizeOfDataToDelete": plan.size_bytes},
        user_metadata=user_metadata(request.identity, request.user_metadata),
    )
    result = commit_proposal(spark, request, store, _empty_proposal(base, operation))
    PHASES.begin(Phase.PLAN)
    version = result.version if result.version is not None else base.version
    return _StartedVacuum(plan=exclude_later_commits(plan, store, base=base.version, head=version - 1), version=version)


def _plan(request: VacuumRequest, base: Snapshot, tree: TableTree, retention: Retention) -> VacuumPlan:
    """Return the plan. Log the number and the size of its files, and the largest folders."""
    start_s = time.monotonic()
    match request.mode:
        case VacuumMode.FULL:
            plan = full_plan(base, tree, retention)
        case VacuumMode.LITE:
            plan = lite_plan(base, retention)
    _log.info(
        "Found %s (%.1f MiB) to delete in %s after %.1f s. The largest folders:",
        counted(plan.files.num_rows, "file"),
        plan.size_bytes / _MIB,
        base.store.root,
        time.monotonic() - start_s,
    )
    for folder in plan.largest_folders(_MAX_LOGGED_FOLDERS):
        file_text = counted(folder.files, "file")
        _log.info("  %10.1f MiB in %s of %s", folder.size_bytes / _MIB, file_text, folder.name or "the root")
    return plan


def _dry_run(request: VacuumRequest, store: LogStore, tree: TableTree, time_ms: int) -> OperationResult:
    """Return the counts of a vacuum, and log some of the files that it would delete. Ignore earlier runs."""
    base = Snapshot.load(store)
    base.check_log()
    plan = _plan(request, base, tree, _retention(request, base, time_ms))
    for name in plan.files["name"].slice(0, _MAX_LOGGED_FILES).to_pylist():
        _log.info("  would delete %s", name)
    if plan.files.num_rows > _MAX_LOGGED_FILES:
        _log.info("  and %s", counted(plan.files.num_rows - _MAX_LOGGED_FILES, "more file"))
    return operation_result(
        request,
        store,
        _DRY_RUN,
        version=base.version,
        read_version=base.version,
        committed=False,
        metrics={
            "numFilesToDelete": plan.files.num_rows,
            "sizeOfDataToDelete": plan.size_bytes,
            "numDirectoriesToDelete": len(plan.folders),
        },
    )


def _retention(request: VacuumRequest, base: Snapshot, time_ms: int) -> Retention:
    return retention_of(
        base.configuration,
        request.retention_hours,
        confirmed=request.confirms_short_retention,
        now_ms=time_ms,
        table=base.store.root,
    )


def _metrics(plan: VacuumPlan, outcome: SweepResult) -> dict[str, int]:
    """Return the metrics. `numVacuumedDirectories` counts the listed folders, as in delta-spark."""
    return {
        "numDeletedFiles": outcome.files.deleted,
        "numVacuumedDirectories": plan.listed_folders,
        "numDeletedDirectories": outcome.folders,
        "sizeOfDataToDelete": plan.size_bytes,
    }


def _commit_end(
    spark: SparkSession, request: VacuumRequest, store: LogStore, status: str, metrics: dict[str, int]
) -> OperationResult:
    """Commit VACUUM END on the newest snapshot, and return the result. Only a completed vacuum records its run."""
    operation = Operation(
        name=VACUUM_END,
        parameters={"status": status},
        metrics=metrics,
        user_metadata=user_metadata(request.identity, request.user_metadata),
    )
    identity = request.identity if status == "COMPLETED" else None

    def attempt() -> OperationResult:
        base = Snapshot.load(store)
        proposal = _empty_proposal(base, operation, txn=transaction(identity, base, now_ms=now_ms()))
        return commit_proposal(spark, request, store, proposal)

    return replan_on_conflict(
        attempt, rebase=Rebase.REPLAN, retries=request.conflict_retries, seconds=request.conflict_seconds
    )


def _record_failure(spark: SparkSession, request: VacuumRequest, store: LogStore) -> None:
    """Commit VACUUM END with status FAILED. If this commit fails, log its error, so that the first error is raised."""
    try:
        _commit_end(spark, request, store, "FAILED", {})
    except DeltaLiteError as error:
        _log.warning("Could not record the failed vacuum of %s in its log: %s", store.root, error)


def _delete_unneeded_records(store: LogStore, time_ms: int) -> None:
    """Delete unneeded parts of the record of loaded files. If this fails, log a warning."""
    try:
        deleted = delete_unneeded_records(store, now_ms=time_ms)
    except DeltaLiteError as error:
        _log.warning("Could not delete unneeded records of loaded files of %s: %s", store.root, error)
        return
    if deleted:
        file_text = counted(deleted, "unneeded file")
        _log.info("Deleted %s of the record of loaded files of %s.", file_text, store.root)


def _check_clock(store: LogStore, version: int) -> None:
    """Check that the clock of this machine is not far ahead of the clock of the storage.

    The check compares this machine's clock with the modification time of VACUUM START, in `version`. With a fast clock,
    files look older than they are, so the vacuum could delete files of running jobs.

    Raises:
        StorageError: the clock is more than an hour ahead.
    """
    start_file = commit_file(store, version)
    ahead_ms = 0 if start_file is None else now_ms() - start_file.modified_ms
    if ahead_ms > _MAX_CLOCK_LEAD_MS:
        raise StorageError(
            f"The vacuum of {store.root} deleted nothing: the clock of the driver is {ahead_ms / HOUR_MS:.1f} hours "
            "ahead of the clock of the storage, so the ages of files are wrong.",
            remedy="Set the clock of the machine that runs the driver.",
        )


def _check_complete(outcome: SweepResult, table: str) -> None:
    """Raise a `StorageError` if a file could not be deleted. The error has the class of the first failure."""
    first_error = outcome.files.error
    if first_error is None:
        return
    error_class = type(first_error) if isinstance(first_error, StorageError) else StorageError
    raise error_class(
        f"The vacuum of {table} deleted {counted(outcome.files.deleted, 'file')}, and could not delete "
        f"{outcome.files.failed}. The first error: {first_error.problem}",
        remedy=first_error.remedy,
    ) from first_error


def _empty_proposal(base: Snapshot, operation: Operation, txn: SetTransaction | None = None) -> Proposal:
    return Proposal(
        base=BaseState.of(base),
        operation=operation,
        txn=txn,
    )
