"""The SCD command: applies changed rows to a table with the newest row (type 1) or the history (type 2) of each key.

The steps of an attempt:

1. Compute the source once, and leave out the rows that audits reject, as a merge does.
2. Read all rows of the source's keys from the snapshot, and compute these keys' rows anew (`spark.scd`).
3. Merge the differences into the table on the same snapshot, with the merge command.

The read set contains each row of the keys, including rows that do not change. So a concurrent run that changes or adds
such a row conflicts, and the command replans: it reads the keys again. The first run finds no table. It creates the
table with rows that it computes from the source alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from deltalite.columnar.skipping.files import FileTest
from deltalite.commands.common.kept_rows import UncommittedRows
from deltalite.commands.flows.loads import Loads
from deltalite.commands.merge.candidates import Candidates, find_candidates
from deltalite.commands.merge.command import plan_merge
from deltalite.commands.merge.first_run import is_table_missing
from deltalite.commands.merge.report import first_merge_operation, merge_operation
from deltalite.commands.merge.source import MergeSource, prepare_rows
from deltalite.commands.quarantine import Quarantine, open_quarantine
from deltalite.commands.row_changes.execute import change_rows
from deltalite.commands.row_changes.plan import RowChange, WrittenChange
from deltalite.commands.scd.requests import (
    check_same_history,
    check_versions_continue,
    first_write_request,
    key_condition,
    merge_request_of,
    operation_parameters,
    with_order_policy,
)
from deltalite.commands.write import ConvertedRows, write
from deltalite.errors import ConstraintViolationError, TableExistsError
from deltalite.log.file_table import key_column
from deltalite.protocol import type_widening
from deltalite.protocol.column_rules import ColumnRules, column_rules
from deltalite.requests import ScdRequest
from deltalite.results import OperationResult
from deltalite.sizes import counted
from deltalite.snapshot import Snapshot
from deltalite.spark.columns.conforming import conform_rows
from deltalite.spark.merge.join_condition import join_condition
from deltalite.spark.row_changes.joining import measure_size
from deltalite.spark.scan.frame import scan
from deltalite.spark.scd.changes import ScdChanges
from deltalite.spark.scd.compute import compute_scd, empty_table
from deltalite.spark.scd.events import count_nulls, source_keys
from deltalite.spark.scd.layout import Layout, layout_of
from deltalite.storage.versioned_path import refuse_version
from deltalite.txn.proposal import Operation, ReadSet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SOURCE_ROWS = "numSourceRows"
_NO_RULES = ColumnRules(generated={}, defaults={})


def scd(spark: SparkSession, request: ScdRequest) -> OperationResult:
    """Apply the rows, or return the result of an earlier attempt of the same run (`skipped`).

    Raises:
        InvalidRequestError: a column does not exist, an expression is wrong, or the table is not a history table.
        SourceError: the source cannot be read or computed.
        AuditFailedError: an audit of level `quarantine` rejects more source rows than its limit allows.
        AmbiguousRowsError: rows of one key and sequence differ.
        ConstraintViolationError: a source row has no key or no sequence, a target row with the same key has no
            sequence, or a new row breaks a rule of the table.
        SchemaMismatchError: the columns of the source do not fit the table.
        SourceGapError: a recreated source begins again with versions that the table has.
        DeltaLiteError: as `change_rows`.
    """
    refuse_version(request.table)
    quarantine = open_quarantine(spark, request, write)
    if is_table_missing(spark, request):
        first_result = _write_first_rows(spark, request, quarantine)
        if first_result is not None:
            return first_result
    source = MergeSource(spark, request, quarantine, delete_when=request.delete_when)
    plan = partial(_plan_change, spark, request, source)
    describe = partial(_operation, request)
    return change_rows(spark, with_order_policy(request), plan, describe, quarantine=quarantine)


def _write_first_rows(
    spark: SparkSession, request: ScdRequest, quarantine: Quarantine | None
) -> OperationResult | None:
    """Create the table with rows that are computed from the source alone. Return None if the table exists by now."""
    counts: dict[str, int] = {}

    def convert(query_rows: DataFrame) -> ConvertedRows:
        layout = layout_of(request, query_rows, base=None, rules=_NO_RULES)
        prepared = prepare_rows(spark, request, query_rows, request.delete_when)
        source = prepared.compute()
        _check_has_keys(request, source, layout)
        table, size = empty_table(spark, layout), measure_size(source)
        changes = compute_scd(request, layout, source=source, source_size=size, table=table)
        counts.update({_SOURCE_ROWS: size.count, **changes.counts})
        return ConvertedRows(frame=changes.rows, rejected=prepared.rejected)

    def describe(rows: UncommittedRows) -> Operation:
        return _scd_operation(request, first_merge_operation(merge_request_of(request), rows), counts)

    try:
        return write(spark, first_write_request(request), describe=describe, convert=convert, quarantine=quarantine)
    except TableExistsError:
        return None


@contextmanager
def _plan_change(
    spark: SparkSession, request: ScdRequest, source: MergeSource, base: Snapshot, loads: Loads
) -> Iterator[RowChange]:
    """Plan one attempt: compute the changes on `base`, and merge them into `base`."""
    check_same_history(request, base.configuration)
    with source.computed(base, loads) as computed:
        widens = type_widening.is_enabled(base.protocol, base.metadata)
        rules = column_rules(base.protocol, base.metadata)
        layout = layout_of(request, computed.rows, base=base.schema, rules=rules, widens=widens)
        check_versions_continue(request, base.transactions, loads.ranges.values(), layout.sequence_type)
        _check_has_keys(request, computed.rows, layout)
        keys = source_keys(computed.rows, layout)
        candidates = find_candidates(base, keys, join_condition(spark, key_condition(request), base.schema, keys))
        changes = _compute_changes(spark, request, layout, base, computed.rows, candidates)
        merge_source = replace(computed, rows=changes.rows)
        with plan_merge(spark, merge_request_of(request), base, merge_source).change() as change:
            reads = _reads(change.reads, candidates, base)
            metrics = {**change.metrics, **changes.counts, _SOURCE_ROWS: candidates.source_size.count}
            yield replace(change, reads=reads, metrics=metrics, rejected=computed.rejected)


def _compute_changes(
    spark: SparkSession,
    request: ScdRequest,
    layout: Layout,
    base: Snapshot,
    source: DataFrame,
    candidates: Candidates,
) -> ScdChanges:
    table = conform_rows(scan(spark, base, candidates.files), base.schema, layout.schema)
    return compute_scd(request, layout, source=source, source_size=candidates.source_size, table=table)


def _reads(merge_reads: ReadSet, candidates: Candidates, base: Snapshot) -> ReadSet:
    """Return the read set: all files that may have a row of the source's keys, and every later such file.

    The merge has read fewer rows, because it matches only the rows that change.
    """
    if merge_reads.whole_table:
        return merge_reads
    file_test = FileTest(candidates.may_match, base.table_schema)
    return ReadSet(keys=frozenset(key_column(candidates.files).to_pylist()), row_tests=(file_test,))


def _check_has_keys(request: ScdRequest, source: DataFrame, layout: Layout) -> None:
    """Refuse source rows with a null in a key or without a sequence."""
    nulls = count_nulls(source, layout)
    if nulls.keys or nulls.sequences:
        raise ConstraintViolationError(
            f"Nothing was written to {request.table}: the source has {counted(nulls.keys, 'row')} with a null in a "
            f"key ({', '.join(request.keys)}), and {counted(nulls.sequences, 'row')} with a null as sequence "
            f"({request.sequence_by}).",
            remedy="Filter or fill these rows in `query`.",
        )


def _operation(request: ScdRequest, change: RowChange, written: WrittenChange | None) -> Operation:
    return _scd_operation(request, merge_operation(merge_request_of(request), change, written), {})


def _scd_operation(request: ScdRequest, operation: Operation, counts: Mapping[str, int]) -> Operation:
    """Return the operation with the parameters of the request and the counts of the changes."""
    return replace(
        operation,
        parameters={**operation.parameters, **operation_parameters(request)},
        metrics={**operation.metrics, **counts},
    )
