"""The write command: commits the rows of a query as a new version of a table, exactly once per run.

The steps:

1. Look for an earlier commit of this run.
2. Check that the rows fit the table.
3. Let Spark write data files that no version of the table refers to yet.
4. Run the audits on these files.
5. Commit the new files, and the removal of the replaced files, in one version.
6. Run the post-commit upkeep, which cannot fail the write.

An error in steps 1 to 4, or a conflict in step 5, leaves the table unchanged. Steps 1 and 5 use the same snapshot, and
the commit is checked against every commit that is newer than this snapshot.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from deltalite.commands.common.auditing import Auditor
from deltalite.commands.common.committing import find_earlier_result, record_run
from deltalite.commands.common.existing_table import existing_table
from deltalite.commands.common.kept_rows import KeptRows
from deltalite.commands.common.load_plan import LoadPlan, LoadPlanner
from deltalite.commands.common.replanning import replan_on_conflict
from deltalite.commands.flows.loads import plan_loads
from deltalite.commands.flows.lost_files import LostFiles
from deltalite.commands.quarantine import Quarantine, open_quarantine
from deltalite.commands.write.attempt import Describer, RowConverter, SharedParts, WriteAttempt, rebase_of
from deltalite.commands.write.report import write_operation
from deltalite.errors import TableExistsError
from deltalite.requests import WriteMode, WriteRequest
from deltalite.results import OperationResult
from deltalite.snapshot import Snapshot
from deltalite.spark.hadoop.opening import writable_store
from deltalite.spark.write.checking import CheckedRows
from deltalite.storage.versioned_path import refuse_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltalite.storage.log_store import LogStore


def write(
    spark: SparkSession,
    request: WriteRequest,
    *,
    describe: Describer | None = None,
    convert: RowConverter | None = None,
    plan: LoadPlanner | None = None,
    quarantine: Quarantine | None = None,
) -> OperationResult:
    """Write the rows, or return the result of an earlier attempt of the same run (`skipped`).

    A conflict with another writer makes the command replan.

    Args:
        spark: the session.
        request: the rows, the table and the write mode.
        describe: builds the operation that the table's history shows; by default a WRITE operation.
        convert: converts the rows of the query before the write.
        plan: plans what an attempt loads; by default the new versions of incremental sources.
        quarantine: the quarantine of the command; by default that of the request, if it has one.

    Raises:
        DeltaLiteError: the write failed; the class says why. The table is unchanged, except perhaps after a
            `CommitStateUnknownError`.
    """
    refuse_version(request.table)
    store = writable_store(spark, request.table, single_writer=request.single_writer)
    quarantine = quarantine or open_quarantine(spark, request, write)
    with KeptRows() as kept_rows:
        shared = SharedParts(
            spark=spark,
            request=request,
            store=store,
            kept_rows=kept_rows,
            auditor=Auditor.of(spark, request, store, has_new_rows=True),
            describe=describe,
            convert=convert,
            quarantine=quarantine,
        )
        plan = plan or partial(plan_loads, spark, request, LostFiles())
        result = replan_on_conflict(
            lambda: _attempt(shared, plan),
            rebase=rebase_of(request),
            retries=request.conflict_retries,
            seconds=request.conflict_seconds,
        )
    if quarantine is not None and result.skip_reason is not None:
        quarantine.withdraw(existing_table(spark, store))
    return result


def _attempt(shared: SharedParts, plan: LoadPlanner) -> OperationResult:
    """Plan and commit once, and return the result."""
    spark, request, store = shared.spark, shared.request, shared.store
    base = existing_table(spark, store)
    if base is None:
        return _load(shared, plan, None)
    earlier_result = find_earlier_result(request, base)
    if earlier_result is not None:
        return earlier_result
    match request.mode:
        case WriteMode.ERROR:
            raise TableExistsError(
                f"{store.root} is a Delta table already (version {base.version}), and mode is 'error'.",
                remedy="Use mode='append' or 'overwrite', or another address.",
            )
        case WriteMode.IGNORE:
            if shared.quarantine is not None:
                shared.quarantine.withdraw(base)
            return record_run(spark, request, store, base, write_operation(request, base.partition_columns, {}, {}))
        case WriteMode.APPEND | WriteMode.OVERWRITE:
            return _load(shared, plan, base)


def _load(shared: SharedParts, plan: LoadPlanner, base: Snapshot | None) -> OperationResult:
    """Plan what to load, and write it unless there is nothing new. Return the result."""
    loads = plan(base)
    result = loads.result_if_nothing_new(shared.request, base)
    return result or WriteAttempt(shared, base, loads).run()


def check_rows(
    spark: SparkSession,
    request: WriteRequest,
    store: LogStore,
    base: Snapshot | None,
    loads: LoadPlan,
    row_count: int,
    *,
    quarantine: Quarantine | None,
) -> CheckedRows:
    """Check up to `row_count` rows like a write does, and return the numbers of valid and rejected rows. Write nothing.

    Raises:
        DeltaLiteError: as `write`.
    """
    with KeptRows() as kept_rows:
        shared = SharedParts(
            spark=spark,
            request=request,
            store=store,
            kept_rows=kept_rows,
            auditor=Auditor(spark, (), store, has_new_rows=True),
            quarantine=quarantine,
        )
        return WriteAttempt(shared, base, loads).count_valid_rows(row_count)
