"""The maintenance of one table: the due steps in their order, each by the command of the same name.

Each table has a separate Spark session, because commands set SQL settings for a while. After the first error of a
table, its later steps do not run. No error leaves this module, so one table cannot end the maintenance of the others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from deltalite.commands.checkpoint import checkpoint
from deltalite.commands.common.committing import now_ms
from deltalite.commands.maintain.budget import Deadline
from deltalite.commands.maintain.step_identity import EARLIER_ATTEMPT, identity_of_step
from deltalite.commands.optimize import optimize
from deltalite.commands.vacuum import vacuum
from deltalite.errors import VersionNotFoundError
from deltalite.inspection.health import read_health
from deltalite.inspection.table_rows import Outcome, RowError, StepOutcome, TableRow
from deltalite.requests import (
    CheckpointRequest,
    MaintainRequest,
    OptimizeRequest,
    Step,
    VacuumMode,
    VacuumRequest,
)
from deltalite.sizes import counted, format_bytes
from deltalite.snapshot import Snapshot
from deltalite.spark.hadoop.opening import readable_store
from deltalite.spark.runtime.session import isolated_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltalite.results import OperationResult

_log = logging.getLogger(__name__)


def maintain_table(spark: SparkSession, request: MaintainRequest, row: TableRow, deadline: Deadline) -> TableRow:
    """Run the due steps of a table, and return its row with their outcomes and the measures afterwards."""
    try:
        session = isolated_session(spark)
        spark.sparkContext.setJobDescription(f"maintenance of {row.table}")  # of this thread only
    except Exception as error:  # noqa: BLE001  see the module docstring
        return replace(row, error=RowError.of(error))
    for step in row.steps:
        if step.outcome is Outcome.DUE:
            row = _run_if_possible(session, request, row, step, deadline)
    return _measure_again(session, request, row)


def _run_if_possible(
    session: SparkSession, request: MaintainRequest, row: TableRow, step: StepOutcome, deadline: Deadline
) -> TableRow:
    """Run a due step, unless the time is used up or an earlier step failed. Return the row with its outcome."""
    stop_reason = deadline.reason_to_stop if row.error is None else "an earlier step failed"
    if stop_reason is not None:
        return row.with_step(replace(step, outcome=Outcome.NOT_REACHED, reason=f"{stop_reason}; {step.reason}"))
    try:
        return row.with_step(_run(session, request, row.table, step))
    except Exception as error:  # noqa: BLE001  see the module docstring
        _log.warning("The step %s of %s failed.", step.step, row.table, exc_info=True)
        failed_step = replace(step, outcome=Outcome.FAILED, reason=f"{type(error).__name__}; {step.reason}")
        return replace(row.with_step(failed_step), error=RowError.of(error))


def _measure_again(session: SparkSession, request: MaintainRequest, row: TableRow) -> TableRow:
    """Return the row, with new measures if the table has changed. Raise no error, because the steps have succeeded."""
    if all(step.outcome is not Outcome.DONE for step in row.steps):
        return row
    try:
        snapshot = Snapshot.load(readable_store(session, row.table))
        health = read_health(snapshot, request.thresholds, now_ms=now_ms(), earlier=row.before)
        return replace(row, after=health)
    except Exception:  # noqa: BLE001  the steps have succeeded
        _log.warning("Could not measure %s after its maintenance, which has succeeded.", row.table, exc_info=True)
        return row


def _run(session: SparkSession, request: MaintainRequest, table: str, step: StepOutcome) -> StepOutcome:
    """Run a step, and return its outcome. A command returns its result and a text about its effect."""
    commands: dict[Step, Callable[[SparkSession, MaintainRequest, str], tuple[OperationResult, str]]] = {
        Step.OPTIMIZE: _optimize,
        Step.CHECKPOINT: _checkpoint,
        Step.VACUUM: _vacuum,
    }
    result, effect = commands[step.step](session, request, table)
    if not result.skipped:
        outcome, reason = Outcome.DONE, f"{effect}; {step.reason}"
    elif step.step is Step.CHECKPOINT:
        outcome, reason = Outcome.NOT_NEEDED, f"version {result.version} has a checkpoint"
    else:
        outcome, reason = Outcome.DONE_EARLIER, EARLIER_ATTEMPT
    return replace(step, outcome=outcome, reason=reason, version=result.version)


def _optimize(session: SparkSession, request: MaintainRequest, table: str) -> tuple[OperationResult, str]:
    result = optimize(
        session,
        OptimizeRequest(
            table=table,
            single_writer=request.single_writer,
            identity=identity_of_step(request.identity, Step.OPTIMIZE),
            user_metadata=request.user_metadata,
            conflict_retries=request.conflict_retries,
            conflict_seconds=request.conflict_seconds,
            target_file_size=request.target_file_size,
            max_deleted_rows_ratio=request.max_deleted_rows_ratio,
        ),
    )
    metrics = result.metrics  # after several commits, the sums have other names
    removed = metrics.get("totalNumRemovedFiles", metrics.get("numRemovedFiles", 0))
    added = metrics.get("totalNumAddedFiles", metrics.get("numAddedFiles", 0))
    return result, f"{counted(removed, 'file')} became {added}"


def _checkpoint(session: SparkSession, request: MaintainRequest, table: str) -> tuple[OperationResult, str]:
    result = checkpoint(session, CheckpointRequest(table=table, single_writer=request.single_writer))
    return result, f"checkpoint of version {result.version}"


def _vacuum(session: SparkSession, request: MaintainRequest, table: str) -> tuple[OperationResult, str]:
    """Vacuum the table. If the log lacks the commits that a lite vacuum needs, run a full vacuum."""
    vacuum_request = VacuumRequest(
        table=table,
        single_writer=request.single_writer,
        identity=identity_of_step(request.identity, Step.VACUUM),
        user_metadata=request.user_metadata,
        conflict_retries=request.conflict_retries,
        conflict_seconds=request.conflict_seconds,
        mode=request.vacuum_mode,
    )
    try:
        result = vacuum(session, vacuum_request)
    except VersionNotFoundError as error:
        if request.vacuum_mode is not VacuumMode.LITE:
            raise
        _log.info("Starting a full vacuum of %s, because a lite vacuum is not possible: %s", table, error.problem)
        result = vacuum(session, replace(vacuum_request, mode=VacuumMode.FULL))
    metrics = result.metrics
    deleted = format_bytes(metrics.get("sizeOfDataToDelete", 0))
    return result, f"{counted(metrics.get('numDeletedFiles', 0), 'file')} of {deleted} deleted"
