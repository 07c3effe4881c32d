"""The update command: sets columns of the rows for which a condition is true.

A value is a SQL expression over the columns of the old row. Columns without a new value stay, and generated columns are
computed again. The command reads only files that may hold a matching row. Without a condition, or with a condition on
partition columns alone, every row of these files changes. delta-spark: UpdateCommand.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from deltalite.commands.common.append_only import refuse_if_append_only
from deltalite.commands.common.write_target import unchanged_target
from deltalite.commands.flows.loads import Loads
from deltalite.commands.row_changes.execute import change_rows
from deltalite.commands.row_changes.plan import RowChange, WrittenChange
from deltalite.commands.row_changes.report import (
    copied_row_count,
    file_metrics,
    predicate_parameter,
    row_operation,
    vector_metrics,
)
from deltalite.commands.row_changes.selected_rows import selected_change
from deltalite.requests import UpdateRequest
from deltalite.results import OperationResult
from deltalite.snapshot import Snapshot
from deltalite.spark.row_changes.row_actions import RowActionResolver
from deltalite.txn.proposal import Operation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPERATION = "UPDATE"


def update(spark: SparkSession, request: UpdateRequest) -> OperationResult:
    """Update rows, or return the result of an earlier attempt of the same run (`skipped`).

    Raises:
        InvalidRequestError: the condition or a value is wrong, or a column does not exist.
        SchemaMismatchError: a value has a type that the column cannot take.
        ConstraintViolationError: a new row breaks a rule of the table.
        AppendOnlyError: the table is append-only, even if no row matches.
        DeltaLiteError: as `change_rows`.
    """
    return change_rows(spark, request, partial(_plan, spark, request), partial(_operation, request))


@contextmanager
def _plan(spark: SparkSession, request: UpdateRequest, base: Snapshot, _loads: Loads) -> Iterator[RowChange]:
    refuse_if_append_only(base, "UPDATE changes rows", remedy="Append rows only, or unset the property.")
    target = unchanged_target(base)
    resolver = RowActionResolver.on_table(spark, base.schema, target.rules)
    assignments = resolver.assignments(request.set, "set")
    action = resolver.update_action(request.condition, assignments, "set")
    yield selected_change(spark, base, request.condition, action, target)


def _operation(request: UpdateRequest, change: RowChange, written: WrittenChange | None) -> Operation:
    updated_rows = 0 if change.touched is None else change.touched.changed_row_count
    metrics = file_metrics(written) | vector_metrics(written)
    metrics |= {"numUpdatedRows": updated_rows, "numCopiedRows": copied_row_count(written, updated_rows)}
    return row_operation(request, OPERATION, {"predicate": predicate_parameter([request.condition])}, metrics)
