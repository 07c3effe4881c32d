"""The optimize command: moves rows into files of the target size, or clusters them, without changing a row.

The steps:

1. Plan on a snapshot (`table_plan.py`): bins of files, grouped into batches.
2. Write and commit each batch on the newest snapshot. A bin is dropped if another writer has changed one of its files.
3. Replan the dropped bins until a limit on retries or time is reached. The next run rewrites the remaining bins.
4. Record the run's `txn` in the last commit, or in a separate commit if no bin is left to commit.

If a run is killed between two commits, the next attempt continues it, because the plan leaves out optimized files.
delta-spark: OptimizeTableCommand.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from deltalite.commands.common.committing import commit_proposal, find_earlier_result, now_ms, operation_result
from deltalite.commands.common.replanning import LONGEST_PAUSE, Rebase, replan_on_conflict
from deltalite.commands.common.run_identity import transaction, user_metadata
from deltalite.commands.common.write_target import unchanged_target
from deltalite.commands.optimize.files import WrittenBins, active_keys, keys_of, write_bins
from deltalite.commands.optimize.report import Totals, metrics, parameters
from deltalite.commands.optimize.table_plan import OptimizePlan, check_same_order, plan_for
from deltalite.errors import (
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentModificationException,
)
from deltalite.phases import PHASES, Phase
from deltalite.protocol.features import check_writable
from deltalite.requests import OptimizeRequest
from deltalite.results import OperationResult
from deltalite.sizes import counted
from deltalite.snapshot import Snapshot
from deltalite.spark.hadoop.opening import writable_store
from deltalite.spark.runtime.errors import reading_table
from deltalite.storage.versioned_path import refuse_version
from deltalite.txn.compatible_changes import files_stay_valid
from deltalite.txn.proposal import BaseState, Operation, Proposal, ReadSet
from deltalite.upkeep.optimize_plan import Batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltalite.protocol.actions import AddFile, RemoveFile
    from deltalite.storage.log_store import LogStore

OPERATION = "OPTIMIZE"
_FILE_CONFLICTS = (ConcurrentDeleteDeleteException, ConcurrentDeleteReadException)

_log = logging.getLogger(__name__)


def optimize(spark: SparkSession, request: OptimizeRequest) -> OperationResult:
    """Rearrange the rows of a table, or return the result of an earlier attempt of the same run (`skipped`).

    Raises:
        TableNotFoundError: there is no table.
        InvalidRequestError: `where` is wrong or names a column that does not partition the table, or a column of
            `z_order_by` cannot be used.
        DeltaLiteError: the operation failed; the class says why. Earlier commits of the run stay, and change no row.
    """
    refuse_version(request.table)
    store = writable_store(spark, request.table, single_writer=request.single_writer)
    return rewrite_files(spark, request, store, partial(plan_for, spark, request))


def rewrite_files(
    spark: SparkSession, request: OptimizeRequest, store: LogStore, make_plan: Callable[[Snapshot], OptimizePlan]
) -> OperationResult:
    """Rewrite files in bounded commits without a change of rows, and return the result.

    `make_plan` returns the plan for a snapshot. Each attempt after a conflict calls it again.

    Raises:
        DeltaLiteError: as `optimize`.
    """
    run = _Run(spark=spark, request=request, store=store, make_plan=make_plan)
    return replan_on_conflict(
        run.attempt,
        rebase=Rebase.REPLAN,
        retries=request.conflict_retries,
        seconds=request.conflict_seconds,
    )


@dataclass(slots=True, kw_only=True)
class _DroppedBins:
    """The last conflict of the bins that one attempt drops, and the number of files in these bins."""

    error: ConcurrentModificationException | None = None
    file_count: int = 0

    def drop_if_changed(self, keys: frozenset[str], active: frozenset[str]) -> bool:
        """Return whether any of the files is no longer active. If so, record the conflict."""
        if keys <= active:
            return False
        self.file_count += len(keys)
        self.error = ConcurrentDeleteDeleteException(
            f"{OPERATION} did not rearrange the rows of {counted(len(keys), 'file')}, because another writer "
            "changed or removed a file first.",
            remedy="Run the task again: it starts from the newest version.",
        )
        return True


@dataclass(slots=True, kw_only=True)
class _Run:
    """One run of the command.

    `totals` counts the commits of all attempts. `cluster_by` has the names of the table's clustering columns.
    """

    spark: SparkSession
    request: OptimizeRequest
    store: LogStore
    make_plan: Callable[[Snapshot], OptimizePlan]
    totals: Totals = field(default_factory=Totals)
    attempts: int = 0
    cluster_by: tuple[str, ...] = ()
    start_s: float = field(default_factory=time.monotonic)

    def attempt(self) -> OperationResult:
        """Plan, commit batch after batch, and return the result.

        Raises:
            ConcurrentModificationException: a bin was dropped, so the command has to replan.
        """
        self.attempts += 1
        base = Snapshot.load(self.store)
        if (earlier_result := find_earlier_result(self.request, base)) is not None:
            return earlier_result
        check_writable(base.protocol, base.metadata)
        plan = self.make_plan(base)
        self.cluster_by = plan.order.names if plan.order is not None and plan.order.provider is not None else ()
        dropped = _DroppedBins()
        for number, batch in enumerate(plan.batches, start=1):
            _log.info("Starting commit %s of %s: %s.", number, len(plan.batches), counted(len(batch.bins), "bin"))
            final_result = self._commit_batch(plan, batch, dropped, is_last=number == len(plan.batches))
            if final_result is not None:
                return final_result
        if dropped.error is not None:
            if not self._is_at_retry_limit:
                raise dropped.error
            _log.warning("%s A later run will rearrange these rows.", dropped.error.problem)
        return self._finish(dropped)

    @property
    def _is_at_retry_limit(self) -> bool:
        """Whether the limit on retries or on their time is reached."""
        is_late = time.monotonic() - self.start_s + LONGEST_PAUSE >= self.request.conflict_seconds
        return self.attempts > self.request.conflict_retries or is_late

    def _commit_batch(
        self, plan: OptimizePlan, batch: Batch, dropped: _DroppedBins, *, is_last: bool
    ) -> OperationResult | None:
        """Write and commit those bins of a batch that have only unchanged files.

        Return the result if this commit ends the run, or if an earlier attempt has ended it. Return None if batches
        remain, or if no bin is left to commit. Only the commit that ends the run records the run.

        Raises:
            MetadataChangedException: another writer changed the clustering columns since the plan.
            ConcurrentModificationException: another writer changed the table so that the new files do not fit it.
        """
        PHASES.begin(Phase.PLAN)
        base = Snapshot.load(self.store)
        if (earlier_result := find_earlier_result(self.request, base)) is not None:
            return earlier_result
        check_writable(base.protocol, base.metadata)
        target = unchanged_target(base)
        check_same_order(plan, self.request, target)
        active = active_keys(base, plan)
        bins = [b for b in batch.bins if not dropped.drop_if_changed(keys_of(plan, b.files), active)]
        empty_files = [f for f in batch.empty_files if not dropped.drop_if_changed(keys_of(plan, [f]), active)]
        with ExitStack() as stack:
            with reading_table(self.store.root):
                written = write_bins(self.spark, base, target, plan, bins, empty_files, stack)
            while written.bins:
                is_final = is_last and (dropped.error is None or self._is_at_retry_limit)
                proposal = self._proposal(base, written, dropped if is_final else None)
                try:
                    result = commit_proposal(self.spark, self.request, self.store, proposal, (written.staging,))
                except _FILE_CONFLICTS as error:
                    base = Snapshot.load(self.store)
                    if (earlier_result := find_earlier_result(self.request, base)) is not None:
                        return earlier_result
                    if not files_stay_valid(target.protocol, base.protocol, target.metadata, base.metadata):
                        raise
                    dropped.error = error
                    active = active_keys(base, plan)
                    dropped.file_count += sum(len(b.keys) for b in written.bins if not b.keys <= active)
                    written = written.drop_changed(active)
                    continue
                self.totals.add(proposal.operation.metrics)
                return result if is_final or result.skipped else None
        return None

    def _proposal(self, base: Snapshot, written: WrittenBins, dropped: _DroppedBins | None) -> Proposal:
        """Return the proposal of a batch.

        `dropped` is None except in the last proposal of the run, which has the run's `txn` and the number of dropped
        files.
        """
        return Proposal(
            base=BaseState.of(base),
            operation=self._operation(written.adds, written.removes, dropped),
            adds=written.adds,
            removes=written.removes,
            txn=None if dropped is None else transaction(self.request.identity, base, now_ms=now_ms()),
            reads=ReadSet(keys=written.keys),
        )

    def _operation(
        self, adds: Sequence[AddFile], removes: Sequence[RemoveFile], dropped: _DroppedBins | None
    ) -> Operation:
        """Return the operation that the table's history shows for a commit."""
        dropped_files = 0 if dropped is None else dropped.file_count
        return Operation(
            name=OPERATION,
            parameters=parameters(self.request, self.cluster_by),
            metrics=metrics(adds, removes, self.totals, dropped_files=dropped_files),
            user_metadata=user_metadata(self.request.identity, self.request.user_metadata),
        )

    def _finish(self, dropped: _DroppedBins) -> OperationResult:
        """Record a run that has no more bins to commit, and return its result."""
        PHASES.begin(Phase.PLAN)
        base = Snapshot.load(self.store)
        if (earlier_result := find_earlier_result(self.request, base)) is not None:
            return earlier_result
        operation = self._operation((), (), dropped)
        if self.request.identity is None:
            return operation_result(
                self.request,
                self.store,
                OPERATION,
                version=base.version,
                read_version=base.version,
                committed=self.totals.commits > 0,
                metrics=dict(operation.metrics),
            )
        proposal = Proposal(
            base=BaseState.of(base),
            operation=operation,
            txn=transaction(self.request.identity, base, now_ms=now_ms()),
        )
        return commit_proposal(self.spark, self.request, self.store, proposal)
