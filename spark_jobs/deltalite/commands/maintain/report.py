"""The report of a maintenance job: its log, its result, and its error if tables failed."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from deltalite.commands.common.committing import now_ms
from deltalite.errors import MaintenanceError, MaintenanceIncompleteError
from deltalite.inspection.table_rows import Outcome, Status, TableRow, by_importance, counts_by_status
from deltalite.requests import MaintainRequest, Step
from deltalite.results import OperationResult
from deltalite.sizes import counted

MAX_ROWS = 300
"""The limit on the rows of a result, because Airflow stores the result in its database."""
_MAX_NAMED_TABLES = 10
_log = logging.getLogger(__name__)


def log_rows(rows: Sequence[TableRow]) -> None:
    """Log a line for each table, the failed ones first."""
    width = max(len(row.label) for row in rows)
    for row in by_importance(rows):
        level = logging.WARNING if row.status is Status.FAILED else logging.INFO
        _log.log(level, "%-11s  %s  %s", row.status, row.label.ljust(width), row.summary)


def result_of(request: MaintainRequest, rows: Sequence[TableRow]) -> OperationResult:
    """Return the result with the rows of at most `MAX_ROWS` tables, the failed and the changed ones first."""
    shown_rows = by_importance(rows)[:MAX_ROWS]
    steps = [step for row in rows for step in row.steps if step.outcome is Outcome.DONE]
    metrics = {
        **counts_by_status(rows),
        **({} if request.catalog_schema is None else {"numSkippedTables": _count_skipped(rows)}),
        "numOptimizedTables": sum(step.step is Step.OPTIMIZE for step in steps),
        "numCheckpoints": sum(step.step is Step.CHECKPOINT for step in steps),
        "numVacuumedTables": sum(step.step is Step.VACUUM for step in steps),
        "numOmittedRows": len(rows) - len(shown_rows),
    }
    identity = request.identity
    return OperationResult(
        table=request.table,
        operation=request.operation,
        version=None,
        read_version=None,
        committed=any(step.step is not Step.CHECKPOINT for step in steps),
        skipped=False,
        app_id=identity.app_id if identity else None,
        txn_version=identity.txn_version if identity else None,
        timestamp=now_ms(),
        metrics=metrics,
        tables=tuple(row.as_dict() for row in shown_rows),
    )


def _count_skipped(rows: Sequence[TableRow]) -> int:
    """Return the number of entries of the catalog that are not Delta tables."""
    return sum(row.status is Status.SKIPPED for row in rows)


def raise_for_failed_tables(rows: Sequence[TableRow], result: OperationResult) -> None:
    """Raise an error with the result if the maintenance of a table failed.

    Raises:
        MaintenanceIncompleteError: a retry can succeed for at least one table.
        MaintenanceError: a retry can succeed for no table.
    """
    errors = {row.name or row.table: row.error for row in by_importance(rows) if row.error is not None}
    if not errors:
        return
    named_tables = [f"{table} ({error.kind})" for table, error in list(errors.items())[:_MAX_NAMED_TABLES]]
    more = "" if len(errors) <= _MAX_NAMED_TABLES else f" and {len(errors) - _MAX_NAMED_TABLES} more"
    is_retryable = any(error.is_retryable for error in errors.values())
    error_class = MaintenanceIncompleteError if is_retryable else MaintenanceError
    table_count = len(rows) - _count_skipped(rows)
    failure = error_class(
        f"The maintenance of {len(errors)} of {counted(table_count, 'table')} failed: {', '.join(named_tables)}{more}.",
        remedy="Read the line of each failed table in the log. All other tables were tried, as far as the budget "
        "allows. A retry does not repeat the steps that committed.",
    )
    failure.result = result
    raise failure
