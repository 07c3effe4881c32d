"""The maintenance command: reads the logs of many tables, and runs the steps that are due.

1. List the tables of the request (`requested_tables.py`).
2. Measure each table, and decide which steps are due (`inspection/due_steps.py`). Steps that an earlier attempt of the
   run committed are not due.
3. Run the due steps, `parallelism` tables at a time, the largest gain first, until the budget is used up.
4. Report a row for each table. If the maintenance of a table failed, the job fails after all tables.

Optimize and vacuum record their run in the log, and a version gets only one checkpoint. So after a kill, a retry
measures again, leaves out the completed steps, and runs the remaining steps.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from functools import partial
from typing import TYPE_CHECKING

from deltalite.commands.common.committing import now_ms
from deltalite.commands.maintain.budget import Deadline, limit_bytes
from deltalite.commands.maintain.one_table import maintain_table
from deltalite.commands.maintain.report import log_rows, raise_for_failed_tables, result_of
from deltalite.commands.maintain.requested_tables import find_tables
from deltalite.commands.maintain.step_identity import with_earlier_steps
from deltalite.errors import TableNotFoundError
from deltalite.inspection.lake_health import health_rows
from deltalite.inspection.table_rows import TableRow
from deltalite.phases import PHASES, Phase
from deltalite.requests import MaintainRequest
from deltalite.results import OperationResult
from deltalite.sizes import counted
from deltalite.spark.hadoop.opening import source_store
from deltalite.spark.runtime.termination import cancel_jobs_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)


def maintain(spark: SparkSession, request: MaintainRequest) -> OperationResult:
    """Maintain the tables of a request, or report their health with `dry_run`. Return a row for each table.

    Raises:
        TableNotFoundError: no table matches the pattern, or the catalog lacks the schema, or the schema has no table.
        MaintenanceError: the maintenance of some tables failed. The error has the result.
        StorageError: the folder of the pattern, or the catalog, cannot be listed.
    """
    deadline = Deadline(request.max_seconds)
    rows = _measure_tables(spark, request)
    if not request.dry_run:
        rows = list(_run_due_steps(spark, request, rows, deadline))
    log_rows(rows)
    result = result_of(request, rows)
    if not request.dry_run:
        raise_for_failed_tables(rows, result)
    return result


def _measure_tables(spark: SparkSession, request: MaintainRequest) -> list[TableRow]:
    """Read the log of each table. Return a row with its measures and due steps. Folders without a table have no row."""
    requested = find_tables(spark, request)
    source = counted(len(request.tables), "listed table") if request.tables else f"the tables of {request.table}"
    _log.info("Reading the logs of %s.", source)
    rows = health_rows(
        requested.tables,
        requested.folders,
        partial(source_store, spark),
        request.thresholds,
        now_ms=now_ms(),
        parallelism=request.parallelism,
        complete_row=None if request.dry_run else partial(with_earlier_steps, request),
    )
    all_rows = [*map(requested.with_catalog_name, rows), *requested.other_rows]
    if not all_rows:
        raise TableNotFoundError(
            f"No Delta table matches the pattern {request.pattern}.", remedy="Check the pattern and the folder."
        )
    return all_rows


def _run_due_steps(
    spark: SparkSession, request: MaintainRequest, rows: Sequence[TableRow], deadline: Deadline
) -> Iterator[TableRow]:
    """Run the due steps of each table, and yield its row after them.

    If the job is stopped, no further step starts. The Spark jobs of running steps are cancelled, so that the steps
    remove their uncommitted files.
    """
    rows = limit_bytes(sorted(rows, key=lambda row: -row.gain_bytes), request.max_bytes)
    due_rows = [row for row in rows if row.has_due_steps]
    yield from (row for row in rows if not row.has_due_steps)
    _log.info("Maintaining %s of %s, %s at a time.", len(due_rows), counted(len(rows), "table"), request.parallelism)
    PHASES.begin(Phase.MAINTAIN)
    with ThreadPoolExecutor(max_workers=request.parallelism, thread_name_prefix="maintain") as pool:
        futures = [pool.submit(maintain_table, spark, request, row, deadline) for row in due_rows]
        try:
            for number, future in enumerate(as_completed(futures), start=1):
                row = future.result()
                _log.info("Finished table %s of %s: %s: %s", number, len(due_rows), row.table, row.summary)
                yield row
        except BaseException:
            deadline.stop()
            for future in futures:
                future.cancel()
            running = [future for future in futures if not future.cancelled()]
            cancel_jobs_until(lambda seconds: not wait(running, timeout=seconds).not_done, spark.sparkContext)
            raise
