"""The optimize command: moves rows into files of the target size, or clusters them, without changing a row.

The steps:

1. Plan on a snapshot (`optimize_plan.py`): bins of files, grouped into batches.
2. Write and commit each batch on the newest snapshot. A bin is dropped if another writer has changed one of its files.
3. Plan the dropped bins again, within the limits on retries and time. After that they are left to the next run.
4. Record the run's `txn` in the last commit, or in a commit of its own if no bin is left to commit.

A run that was killed between two commits continues in its next attempt, because the plan leaves out optimized files.
delta-spark: OptimizeTableCommand.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deltalite.commands.common.committing import commit_proposal, find_earlier_result, now_ms, operation_result
from deltalite.commands.common.replanning import LONGEST_PAUSE, Rebase, replan_on_conflict
from deltalite.commands.common.run_identity import transaction, user_metadata
from deltalite.commands.common.write_target import unchanged_target
from deltalite.commands.optimize.files import WrittenBins, active_keys, keys_of, write_bins
from deltalite.commands.optimize.plan import Batch
from deltalite.commands.optimize.report import Totals, metrics, parameters
from deltalite.commands.optimize.table_plan import OptimizePlan, plan_for
from deltalite.errors import (
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentModificationException,
)
from deltalite.protocol.features import check_writable
from deltalite.requests import OptimizeRequest
from deltalite.results import OperationResult
from deltalite.snapshot import Snapshot
from deltalite.spark.hadoop.opening import writable_store
from deltalite.spark.runtime.errors import reading_table
from deltalite.storage.versioned_path import refuse_version
from deltalite.txn.compatible_changes import files_stay_valid
from deltalite.txn.proposal import BaseState, Operation, Proposal, ReadSet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltalite.protocol.actions import AddFile, RemoveFile
    from deltalite.storage.log_store import LogStore

OPERATION = "OPTIMIZE"
_TOUCHED = (ConcurrentDeleteDeleteException, ConcurrentDeleteReadException)

_log = logging.getLogger(__name__)


def optimize(spark: SparkSession, request: OptimizeRequest) -> OperationResult:
    """Rearrange the rows of a table, or return the result of an earlier attempt of the same run (`skipped`).

    Raises:
        TableNotFoundError: there is no table.
        InvalidRequestError: `where` is wrong or names a column that does not partition the table, or a column of
            `z_order_by` cannot be used.
        DeltaLiteError: the operation failed; the class says why. Earlier commits of the run stay; none changes a row.
    """
    refuse_version(request.table)
    store = writable_store(spark, request.table, single_writer=request.single_writer)
    run = _Run(spark=spark, request=request, store=store)
    return replan_on_conflict(
        run.attempt,
        rebase=Rebase.REPLAN,
        retries=request.conflict_retries,
        seconds=request.conflict_seconds,
    )


@dataclass(slots=True, kw_only=True)
class _Lost:
    """The files of one plan that other writers changed, by number, and the last conflict."""

    error: ConcurrentModificationException | None = None
    files: int = 0

    def keeps(self, keys: frozenset[str], there: frozenset[str]) -> bool:
        """Return whether all of the files are still active; if not, record the conflict."""
        if keys <= there:
            return True
        self.files += len(keys)
        self.error = ConcurrentDeleteDeleteException(
            f"{OPERATION} was to rearrange the rows of {len(keys)} files, and another writer changed or removed one of "
            "them first.",
            remedy="Run the task again: it will start from the table as it is now.",
        )
        return False


@dataclass(slots=True, kw_only=True)
class _Run:
    """One run of the command. `totals` counts the commits of all its attempts."""

    spark: SparkSession
    request: OptimizeRequest
    store: LogStore
    totals: Totals = field(default_factory=Totals)
    attempts: int = 0
    begun: float = field(default_factory=time.monotonic)

    def attempt(self) -> OperationResult:
        """Plan, then commit batch after batch.

        Raises:
            ConcurrentModificationException: a bin was dropped, and has to be planned again.
        """
        self.attempts += 1
        base = Snapshot.load(self.store)
        if (done := find_earlier_result(base, self.request)) is not None:
            return done
        check_writable(base.protocol, base.metadata)
        plan = plan_for(self.spark, base, self.request)
        lost = _Lost()
        for number, batch in enumerate(plan.batches, start=1):
            _log.info("Commit %s of %s: %s bins.", number, len(plan.batches), len(batch.bins))
            ended = self._batch(plan, batch, lost, is_last=number == len(plan.batches))
            if ended is not None:
                return ended
        if lost.error is not None:
            if not self._gives_up:
                raise lost.error
            _log.warning("%s They are left to a later run.", lost.error.problem)
        return self._end(lost)

    @property
    def _gives_up(self) -> bool:
        """Whether the limit on retries or time is reached."""
        late = time.monotonic() - self.begun + LONGEST_PAUSE >= self.request.conflict_seconds
        return self.attempts > self.request.conflict_retries or late

    def _batch(self, plan: OptimizePlan, batch: Batch, lost: _Lost, *, is_last: bool) -> OperationResult | None:
        """Write and commit the bins of a batch whose files are unchanged.

        Return the result if this commit ends the run, else None. Only the commit that ends the run records it.
        """
        base = Snapshot.load(self.store)
        if (done := find_earlier_result(base, self.request)) is not None:
            return done
        check_writable(base.protocol, base.metadata)
        there = active_keys(base, plan)
        bins = [own for own in batch.bins if lost.keeps(keys_of(plan, own.files), there)]
        empty = [file for file in batch.empty if lost.keeps(keys_of(plan, [file]), there)]
        target = unchanged_target(base)
        with ExitStack() as stack:
            with reading_table(self.store.root):
                written = write_bins(self.spark, base, target, plan, bins, empty, stack)
            while written.bins:
                ends = is_last and (lost.error is None or self._gives_up)
                proposal = self._proposal(base, written, lost if ends else None)
                try:
                    result = commit_proposal(self.spark, self.store, self.request, proposal, (written.staging,))
                except _TOUCHED as error:
                    base = Snapshot.load(self.store)
                    if (done := find_earlier_result(base, self.request)) is not None:
                        return done
                    if not files_stay_valid(target.protocol, base.protocol, target.metadata, base.metadata):
                        raise
                    lost.error = error
                    there = active_keys(base, plan)
                    lost.files += sum(len(own.keys) for own in written.bins if not own.keys <= there)
                    written = written.within(there)
                    continue
                self.totals.add(proposal.operation.metrics)
                return result if ends or result.skipped else None
        return None

    def _proposal(self, base: Snapshot, written: WrittenBins, at_the_end: _Lost | None) -> Proposal:
        """Return the proposal of a batch; the last one of the run also has the `txn` and the number of files left."""
        return Proposal(
            base=BaseState.of(base),
            operation=self._operation(written.adds, written.removes, at_the_end),
            adds=written.adds,
            removes=written.removes,
            txn=None if at_the_end is None else transaction(self.request.identity, base, now_ms=now_ms()),
            reads=ReadSet(keys=written.keys),
        )

    def _operation(self, adds: Sequence[AddFile], removes: Sequence[RemoveFile], at_the_end: _Lost | None) -> Operation:
        """Return the operation that the table's history shows for a commit."""
        left = 0 if at_the_end is None else at_the_end.files
        return Operation(
            name=OPERATION,
            parameters=parameters(self.request),
            metrics=metrics(adds, removes, self.totals, left=left),
            user_metadata=user_metadata(self.request.identity, self.request.user_metadata),
        )

    def _end(self, lost: _Lost) -> OperationResult:
        """Record a run that has no more bins to commit."""
        base = Snapshot.load(self.store)
        if (done := find_earlier_result(base, self.request)) is not None:
            return done
        operation = self._operation((), (), lost)
        if self.request.identity is None:
            return operation_result(
                self.store,
                self.request,
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
        return commit_proposal(self.spark, self.store, self.request, proposal)
