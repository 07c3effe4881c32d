"""The common steps of delete, update and merge: from the snapshot of the plan to the commit.

If an earlier attempt of the run has committed, the command only returns the result of that attempt. After a conflict
with another writer, the command replans on the newest snapshot. A run that changes no row commits its transaction
identifier alone, so that a retry finds the run. Without a run identity, such a run commits nothing. delta-spark records
no transaction for a DELETE that matches no row.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from deltalite.commands.common.append_only import refuse_if_append_only
from deltalite.commands.common.auditing import Auditor, staged_rows
from deltalite.commands.common.committing import commit_proposal, find_earlier_result, now_ms, operation_result
from deltalite.commands.common.effort import EXECUTION_TIME
from deltalite.commands.common.existing_table import existing_table
from deltalite.commands.common.replanning import Rebase, replan_on_conflict
from deltalite.commands.common.run_identity import transaction
from deltalite.commands.common.run_order import check_run_order, with_out_of_order
from deltalite.commands.flows.loads import Loads, plan_loads
from deltalite.commands.flows.lost_files import LostFiles
from deltalite.commands.quarantine import Quarantine
from deltalite.commands.row_changes.files import write_change
from deltalite.commands.row_changes.plan import RowChange, WrittenChange
from deltalite.protocol.column_mapping import TableSchema
from deltalite.protocol.features import check_writable
from deltalite.requests import RowsRequest
from deltalite.results import OperationResult
from deltalite.snapshot import Snapshot
from deltalite.spark.audits.measuring import AuditedRows
from deltalite.spark.hadoop.opening import writable_store
from deltalite.spark.write.staging import StagedWrite
from deltalite.storage.versioned_path import refuse_version
from deltalite.txn.proposal import BaseState, Operation, Proposal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltalite.storage.log_store import LogStore

Planner = Callable[[Snapshot, Loads], AbstractContextManager[RowChange]]
"""Plans the operation on a snapshot, with the loads of incremental sources. The context manager releases the resources
of the plan's rows."""
Describer = Callable[[RowChange, WrittenChange | None], Operation]
"""Builds the operation for the table's history, without times. The second argument is None if no row changes."""


def change_rows(
    spark: SparkSession,
    request: RowsRequest,
    plan: Planner,
    describe: Describer,
    *,
    quarantine: Quarantine | None = None,
) -> OperationResult:
    """Change rows, or return the result of an earlier attempt of the same run (`skipped`).

    The result is `skipped` too if the incremental sources have nothing new. `quarantine` gets the rows that the plan
    rejects. The plan must call `quarantine.begin` before it computes these rows.

    Raises:
        TableNotFoundError: there is no table.
        AppendOnlyError: the table is append-only, and the operation would change or remove rows.
        DeltaLiteError: the operation failed; the class says why. The table is unchanged, except perhaps after a
            `CommitStateUnknownError`.
    """
    refuse_version(request.table)
    store = writable_store(spark, request.table, single_writer=request.single_writer)
    auditor = Auditor.of(spark, request, store, has_new_rows=request.no_new_rows is None)
    load = partial(plan_loads, spark, request, LostFiles())
    result = replan_on_conflict(
        lambda: _attempt(spark, request, store, load, plan, auditor, describe, quarantine),
        rebase=Rebase.REPLAN,
        retries=request.conflict_retries,
        seconds=request.conflict_seconds,
    )
    if quarantine is not None and result.skip_reason is not None:
        quarantine.withdraw(existing_table(spark, store))
    return result


def _attempt(
    spark: SparkSession,
    request: RowsRequest,
    store: LogStore,
    load: Callable[[Snapshot], Loads],
    plan: Planner,
    auditor: Auditor,
    describe: Describer,
    quarantine: Quarantine | None,
) -> OperationResult:
    """Plan and commit once, and return the result."""
    base = Snapshot.load(store)
    earlier_result = find_earlier_result(request, base)
    if earlier_result is not None:
        return earlier_result
    check_writable(base.protocol, base.metadata)
    loads = load(base)
    result = loads.result_if_nothing_new(request, base)
    if result is not None:
        return result
    start_s = time.monotonic()
    with ExitStack() as stack:
        change = stack.enter_context(plan(base, loads))
        planned_s = time.monotonic()
        _check_may_remove(base, change)
        # The log, and not the data interval, decides what a flow loads. So the runs of a flow may have any order.
        checks_order = change.changes_rows and not loads.ranges
        out_of_order = checks_order and check_run_order(request, base, change.reads)
        audits = auditor.resolve(change.target.schema)
        written = None
        if change.changes_rows:
            written = write_change(spark, base, change, stack, keeps_new_rows=auditor.needs_new_rows)
        operation = describe(change, written)
        if request.identity is None and _is_empty(change, written) and not loads.ranges:
            if quarantine is not None:  # an attempt that lost a race may have stored rows
                quarantine.commit(None, base)
            version = base.version
            result = operation_result(
                request, store, operation.name, version=version, read_version=version, committed=False
            )
            return result if quarantine is None else replace(result, quarantine=quarantine.result)
        times = {
            EXECUTION_TIME: _milliseconds(time.monotonic() - start_s),
            "scanTimeMs": _milliseconds(planned_s - start_s),
            "rewriteTimeMs": _milliseconds(time.monotonic() - planned_s),
        }
        operation = replace(
            operation,
            metrics={**operation.metrics, **times},
            parameters={**operation.parameters, **loads.parameters},
        )
        operation = with_out_of_order(operation, out_of_order=out_of_order)
        proposal = _proposal(request, base, change, written, operation, loads)
        pending_files = () if written is None else written.pending_files
        stagings = [files for files in pending_files if isinstance(files, StagedWrite)]
        table = change.target.table if written is None else written.target.table
        new_rows = _new_rows(spark, store, table, written)
        measured = None if change.rejected is None else change.rejected.results()
        proposal = auditor.audit(audits, base, proposal, table, new_rows, stagings, measured=measured)
        if quarantine is not None:
            rejected_rows = None if change.rejected is None else change.rejected.frame(spark)
            # A cleared run that reads the complete source again also reads the rows that it has rejected before.
            quarantine.commit(rejected_rows, base, replaces_committed=not loads.is_partial)
            proposal = replace(proposal, operation=quarantine.extended_operation(proposal.operation))
        proposal = replace(proposal, offsets=loads.record())
        return commit_proposal(spark, request, store, proposal, pending_files)


def _new_rows(spark: SparkSession, store: LogStore, table: TableSchema, written: WrittenChange | None) -> AuditedRows:
    """Return the rows that the operation inserts and updates, for its audits."""
    if written is not None and written.new_rows is not None:
        frame = written.new_rows
        return AuditedRows(frame=lambda: frame)
    return staged_rows(spark, store, table, () if written is None else written.data_files.adds)


def _is_empty(change: RowChange, written: WrittenChange | None) -> bool:
    """Whether a commit would have neither files nor metadata, and the quarantine no row."""
    has_files = written is not None and bool(written.adds or written.removes)
    has_rejected_rows = change.rejected is not None and change.rejected.row_count > 0
    return not has_files and not has_rejected_rows and change.target.changed_metadata is None


def _proposal(
    request: RowsRequest,
    base: Snapshot,
    change: RowChange,
    written: WrittenChange | None,
    operation: Operation,
    loads: Loads,
) -> Proposal:
    target = change.target if written is None else written.target
    return Proposal(
        base=BaseState.of(base),
        operation=operation,
        adds=() if written is None else written.adds,
        removes=() if written is None else written.removes,
        changes=() if written is None else written.changes,
        protocol=target.changed_protocol,
        metadata=target.changed_metadata,
        txn=transaction(request.identity, base, now_ms=now_ms()),
        reads=loads.extended_reads(change.reads),
        row_level=change.row_level,
    )


def _check_may_remove(base: Snapshot, change: RowChange) -> None:
    """Refuse to remove rows from an append-only table, before a row is written."""
    if change.whole_files.num_rows > 0 or change.touched is not None:
        refuse_if_append_only(
            base, "this operation would change or remove rows", remedy="Only insert rows, or unset the property."
        )


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
