"""The delete command: removes the rows for which a condition is true.

A delete without a condition, or with a condition on partition columns alone, reads no file and removes whole files.
Any other delete first selects the files that may hold a matching row. Only files with a matching row are rewritten,
or get a deletion vector. Rows for which the condition is NULL stay. delta-spark: DeleteCommand.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from deltalite.commands.common.append_only import refuse_if_append_only
from deltalite.commands.common.every_row import refuse_every_row
from deltalite.commands.common.write_target import unchanged_target
from deltalite.commands.flows.loads import Loads
from deltalite.commands.row_changes.execute import change_rows
from deltalite.commands.row_changes.plan import RowChange, WrittenChange
from deltalite.commands.row_changes.report import (
    file_metrics,
    predicate_parameter,
    row_operation,
    vector_metrics,
    whole_file_row_count,
)
from deltalite.commands.row_changes.selected_rows import selected_change
from deltalite.requests import DeleteRequest
from deltalite.results import OperationResult
from deltalite.snapshot import Snapshot
from deltalite.spark.row_changes.row_actions import RowActionResolver
from deltalite.txn.proposal import Operation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPERATION = "DELETE"


def delete(spark: SparkSession, request: DeleteRequest) -> OperationResult:
    """Delete rows, or return the result of an earlier attempt of the same run (`skipped`).

    Raises:
        InvalidRequestError: the condition is wrong, is non-deterministic or holds a subquery. Or it is true for every
            row, and `confirm_all_rows` is not set.
        AppendOnlyError: the table is append-only, even if no row matches.
        DeltaLiteError: as `change_rows`.
    """
    return change_rows(spark, request, partial(_plan, spark, request), partial(_operation, request))


@contextmanager
def _plan(spark: SparkSession, request: DeleteRequest, base: Snapshot, _loads: Loads) -> Iterator[RowChange]:
    refuse_if_append_only(base, "DELETE removes rows", remedy="Append rows only, or unset the property.")
    target = unchanged_target(base)
    action = RowActionResolver.on_table(spark, base.schema, target.rules).delete_action(request.condition, "condition")
    if request.condition is not None:
        refuse_every_row(
            spark,
            request.condition,
            base.schema,
            parameter="condition",
            effect="this operation would delete",
            confirmed=request.confirm_all_rows,
        )
    yield selected_change(spark, base, request.condition, action, target)


def _operation(request: DeleteRequest, change: RowChange, written: WrittenChange | None) -> Operation:
    metrics = file_metrics(written) | vector_metrics(written)
    whole_file_rows = whole_file_row_count(change)
    if whole_file_rows is not None:
        changed_rows = 0 if change.touched is None else change.touched.changed_row_count
        metrics["numDeletedRows"] = whole_file_rows + changed_rows
    metrics["numCopiedRows"] = 0 if written is None else written.data_files.row_count
    return row_operation(request, OPERATION, {"predicate": predicate_parameter([request.condition])}, metrics)
