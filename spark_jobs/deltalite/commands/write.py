"""The write command: rows of a query become a version of a table, exactly once.

The order is the guarantee. 1 Has this run committed already? 2 May these rows enter this table? 3 Spark writes files
that nobody sees. 4 One commit makes them, and whatever they replace, visible at once. 5 What follows the commit
cannot fail it. An error in 1 to 3, or a lost race in 4, leaves the table as it was. Steps 1 and 4 look at one
snapshot, and the commit is checked against everything that was committed after it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from deltalite.commands.append_only import refuse_append_only
from deltalite.commands.change_files import change_files
from deltalite.commands.committing import committed, done_before, now_ms, operation_result
from deltalite.commands.every_row import refuse_every_row
from deltalite.commands.identity import transaction
from deltalite.commands.kept_rows import KeptRows, StagedRows
from deltalite.commands.own_sources import own_sources, pinned_sources
from deltalite.commands.replanning import Rebase, replanned
from deltalite.commands.rerun import files_of_earlier_run
from deltalite.commands.run_order import is_out_of_order, marked
from deltalite.commands.write_report import OPERATION, write_metrics, write_operation
from deltalite.commands.write_target import WriteTarget, write_target
from deltalite.commands.written_files import WrittenFiles, described, rows_counted, write_layout
from deltalite.errors import (
    ConstraintViolationError,
    InvalidRequestError,
    TableExistsError,
    TableNotFoundError,
)
from deltalite.log.file_table import removes_of
from deltalite.protocol.actions import AddCDCFile
from deltalite.protocol.features import check_writable
from deltalite.protocol.schema import StructType
from deltalite.requests import OnRerun, PartitionOverwrite, Source, WriteMode, WriteRequest
from deltalite.results import OperationResult
from deltalite.snapshot import Snapshot
from deltalite.spark.column_defaults import completed, rule_guards
from deltalite.spark.conforming import conformed
from deltalite.spark.folders import folder_of
from deltalite.spark.guards import Guard, not_null_guards, replaced_range_guard
from deltalite.spark.identity import numbered
from deltalite.spark.opening import writable_store
from deltalite.spark.replacing import Replacement, everything, matching, same_partitions
from deltalite.spark.sources import query_rows
from deltalite.spark.staging import StagedWrite, WriteLayout, foreign_entry
from deltalite.spark.text_lengths import length_guards
from deltalite.spark.types import from_spark
from deltalite.storage.versioned_path import refuse_version
from deltalite.txn.proposal import Operation, Proposal, ReadSet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltalite.spark.staging import DataFile
    from deltalite.storage.log_store import LogStore

_log = logging.getLogger(__name__)
Describer = Callable[[StagedRows], Operation]
"""What history shows of a commit that only adds these rows."""


def write(spark: SparkSession, request: WriteRequest, *, describe: Describer | None = None) -> OperationResult:
    """Write, or report what an earlier try of the same run wrote (`skipped`). What is contradicted is planned again.

    Args:
        spark: the session.
        request: what to write.
        describe: makes the operation that history shows; that of a write where it is left out.

    Raises:
        DeltaLiteError: of the class that says what is wrong; the table is then as it was (`CommitStateUnknownError` is
            the one exception, and says so).
    """
    refuse_version(request.table)
    store = writable_store(spark, request.table, single_writer=request.single_writer)
    with KeptRows() as kept:
        return replanned(
            lambda: _attempt(spark, request, store, kept, describe),
            rebase=_rebase(request),
            retries=request.conflict_retries,
            seconds=request.conflict_seconds,
        )


def _rebase(request: WriteRequest) -> Rebase:
    """Rows that come from the table itself are others on a newer snapshot; any others stay what they are."""
    return Rebase.REPLAN if own_sources(request.sources, request.table) else Rebase.REPLAN_AND_KEEP_ROWS


def _attempt(
    spark: SparkSession, request: WriteRequest, store: LogStore, kept: KeptRows, describe: Describer | None
) -> OperationResult:
    """One plan, and its commit."""
    base = _existing(spark, store)
    if base is None:
        return _Write(spark, request, store, None, kept, describe).run()
    done = done_before(base, request)
    if done is not None:
        return done
    match request.mode:
        case WriteMode.ERROR:
            raise TableExistsError(
                f"{store.root} is a Delta table already (version {base.version}), and mode is 'error'.",
                remedy="Use mode='append' or 'overwrite', or another address.",
            )
        case WriteMode.IGNORE:
            return _leave_alone(spark, store, request, base)
        case WriteMode.APPEND | WriteMode.OVERWRITE:
            return _Write(spark, request, store, base, kept, describe).run()


def _existing(spark: SparkSession, store: LogStore) -> Snapshot | None:
    """The table as it is, or None where a new one may be made."""
    try:
        return Snapshot.load(store)
    except TableNotFoundError:
        stranger = foreign_entry(folder_of(spark, store.root))
        if stranger is None:
            return None
        with suppress(TableNotFoundError):  # another writer has made the table between the two looks
            return Snapshot.load(store)
        raise InvalidRequestError(
            f"{store.root} is not a Delta table, and holds what no Delta table has written ({stranger}).",
            remedy="Choose an empty folder, or move the files away.",
        ) from None


def _leave_alone(spark: SparkSession, store: LogStore, request: WriteRequest, base: Snapshot) -> OperationResult:
    """Mode `ignore` on a table that exists: only the run is recorded, so that a retry finds itself."""
    if request.identity is None:
        return operation_result(
            store, request, OPERATION, version=base.version, read_version=base.version, committed=False
        )
    check_writable(base.protocol, base.metadata)
    proposal = Proposal(
        operation=write_operation(request, base.partition_columns, {}, {}),
        txn=transaction(request.identity, base, now_ms=now_ms()),
        read_version=base.version,
        read_protocol=base.protocol,
        read_metadata=base.metadata,
    )
    return committed(spark, store, request, proposal)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Staged:
    """Everything that step 3 made: files with statistics, and what they replace."""

    new: WrittenFiles
    copied: WrittenFiles
    replaced: Replacement | None
    changes: tuple[AddCDCFile, ...] = ()


class _Write:
    """One attempt at a write that has to be done."""

    def __init__(
        self,
        spark: SparkSession,
        request: WriteRequest,
        store: LogStore,
        base: Snapshot | None,
        kept: KeptRows,
        describe: Describer | None,
    ) -> None:
        self._spark = spark
        self._request = request
        self._store = store
        self._base = base
        self._kept = kept
        self._out_of_order: bool | None = None  # not known yet
        self._describe = describe

    def run(self) -> OperationResult:
        self._check_may_overwrite()
        rows = self._kept.rows
        if rows is not None:
            target = write_target(self._request, self._base, rows.data, now_ms=now_ms())
            if rows.are_right_for(target):
                return self._finished(rows, target, self._replaced_by_request(target))
        return self._begun()

    def _begun(self) -> OperationResult:
        """From the rows of the query on."""
        request = self._request
        with query_rows(self._spark, self._sources(), request.query, request.query_params) as given:
            data = from_spark(given.frame.schema)
            target = write_target(self._request, self._base, data, now_ms=now_ms())
            replaced = self._replaced_by_request(target)
            self._check_replaced(replaced)
            staging = self._kept.staging(folder_of(self._spark, self._store.root), self._layout(target))
            guards = self._guards(data, target)
            complete = completed(given.frame, data, target.schema, target.rules)
            unnumbered = [c for c in target.rules.identities if data.find(c.name) is None]
            with numbered(complete, unnumbered) as (numbered_rows, count):
                target = target.with_marks(unnumbered, count)
                files = self._described(staging.write(numbered_rows, target.table, guards), staging, target)
        _warn_of_null_partitions(self._store, target, data, files.rows)
        rows = StagedRows(staging=staging, files=files, data=data, target=target, source_versions=given.source_versions)
        if _rebase(self._request) is Rebase.REPLAN_AND_KEEP_ROWS and not unnumbered:
            self._kept.rows = rows
        return self._finished(rows, target, replaced)

    def _finished(self, rows: StagedRows, target: WriteTarget, known_before: Replacement | None) -> OperationResult:
        """From the files of the rows on. What is copied out of replaced files is right for this attempt alone."""
        replaced = known_before or self._replaced_by_rows(rows.files)
        self._check_replaced(replaced)
        with ExitStack() as stack:
            staged, stagings = _Staged(new=rows.files, copied=WrittenFiles.none(), replaced=replaced), [rows.staging]
            if replaced is not None and replaced.survivors is not None:
                copies = StagedWrite(folder_of(self._spark, self._store.root), self._layout(target))
                stagings.append(stack.enter_context(copies))
                staged = self._with_survivors(staged, copies, target)
            if not self._request.data_change:
                _check_only_rearranged(self._store, staged)
            return committed(self._spark, self._store, self._request, self._proposal(staged, rows, target), stagings)

    def _layout(self, target: WriteTarget) -> WriteLayout:
        request = self._request
        return write_layout(target, optimize=request.optimize_write, max_records_per_file=request.max_records_per_file)

    def _sources(self) -> Mapping[str, Source]:
        """The sources, of which those that are the table itself are read at the version that the write rests on."""
        if self._base is None:
            return self._request.sources
        return pinned_sources(self._request.sources, self._request.table, self._base.version)

    def _guards(self, data: StructType, target: WriteTarget) -> list[Guard]:
        """What every row has to keep."""
        asked = self._request.properties
        guards = not_null_guards(target.schema) + length_guards(target.schema)
        guards += rule_guards(self._spark, data, target.schema, target.rules, asked=asked)
        if self._request.replace_where is not None:
            guards.append(replaced_range_guard(self._request.replace_where))
        return guards

    def _with_survivors(self, staged: _Staged, copies: StagedWrite, target: WriteTarget) -> _Staged:
        """The rows that stay of files that are replaced in part, and the change files that this asks for."""
        replaced, base = staged.replaced, self._base
        if replaced is None or replaced.survivors is None or base is None:
            return staged
        changes: tuple[AddCDCFile, ...] = ()
        if self._request.data_change:
            changes = change_files(base, target, copies, new=staged.new, replaced=replaced)
        survivors = conformed(replaced.survivors, base.schema, target.schema)
        copied = self._described(copies.write(survivors, target.table, []), copies, target)
        return replace(staged, copied=copied, changes=changes)

    def _described(self, files: list[DataFile], staging: StagedWrite, target: WriteTarget) -> WrittenFiles:
        return described(self._store, staging, files, target, data_change=self._request.data_change)

    def _replaced_by_request(self, target: WriteTarget) -> Replacement | None:
        """What the request alone says is replaced, found before anything is written."""
        if self._request.replace_where is not None:
            refuse_every_row(
                self._spark,
                self._request.replace_where,
                target.schema if self._base is None else self._base.schema,
                parameter="replace_where",
                effect="this write would replace",
                confirmed=self._request.confirm_all_rows,
            )
        if self._base is None:
            return None
        if self._request.mode is WriteMode.OVERWRITE:
            if self._request.replace_where is not None:
                return matching(self._spark, self._base, self._request.replace_where)
            return None if self._is_dynamic else everything(self._base)
        identity = self._request.identity
        if identity is None or identity.on_rerun is not OnRerun.REPLACE:
            return None
        earlier = files_of_earlier_run(self._base, identity)
        return None if earlier is None else Replacement.of(earlier, earlier.slice(0, 0))

    def _replaced_by_rows(self, new: WrittenFiles) -> Replacement | None:
        """What is only known from the partitions that were written."""
        if self._base is None or not self._is_dynamic:
            return None
        return same_partitions(self._base, [f.partition_values for f in new.adds])

    @property
    def _is_dynamic(self) -> bool:
        """Whether only the partitions that receive rows are replaced; a table without partitions has just one."""
        wanted = self._request.partition_overwrite is PartitionOverwrite.DYNAMIC
        return wanted and self._base is not None and bool(self._base.partition_columns)

    def _check_may_overwrite(self) -> None:
        """Refuse, before a row is read, to overwrite an append-only table, also if no row would go.

        `data_change=False` only rearranges rows, which the protocol allows.
        """
        if self._base is not None and self._request.mode is WriteMode.OVERWRITE and self._request.data_change:
            refuse_append_only(self._base, "mode 'overwrite' removes rows", remedy="Append, or unset the property.")

    def _check_replaced(self, replaced: Replacement | None) -> None:
        """Refuse, before a row is written where that is known, what may not be replaced or not in this order."""
        self._check_may_remove(replaced)
        if replaced is None or self._base is None or self._request.mode is not WriteMode.OVERWRITE:
            return
        if self._out_of_order is None:
            self._out_of_order = is_out_of_order(self._base, self._request, self._reads(replaced))

    def _check_may_remove(self, replaced: Replacement | None) -> None:
        """Refuse, before a row is written, to take back an earlier append from an append-only table."""
        if self._base is not None and replaced is not None and replaced.files.num_rows and self._request.data_change:
            refuse_append_only(
                self._base,
                "this write would remove the rows of an earlier run",
                remedy="Append, or unset the property.",
            )

    def _proposal(self, staged: _Staged, rows: StagedRows, target: WriteTarget) -> Proposal:
        request = self._request
        removed = staged.replaced.files if staged.replaced is not None else None
        removes = (
            tuple(removes_of(removed, deletion_timestamp_ms=now_ms(), data_change=request.data_change))
            if removed is not None
            else ()
        )
        operation = self._operation(staged, rows, target) if self._describe is None else self._describe(rows)
        return Proposal(
            operation=marked(operation, out_of_order=bool(self._out_of_order)),
            adds=(*staged.new.adds, *staged.copied.adds),
            removes=removes,
            changes=staged.changes,
            protocol=target.changed_protocol,
            metadata=target.changed_metadata,
            txn=transaction(request.identity, self._base, now_ms=now_ms()),
            reads=self._reads(staged.replaced),
            read_version=self._base.version if self._base else -1,
            read_protocol=self._base.protocol if self._base else None,
            read_metadata=self._base.metadata if self._base else None,
        )

    def _operation(self, staged: _Staged, rows: StagedRows, target: WriteTarget) -> Operation:
        metrics = write_metrics(
            self._request, staged.new, staged.copied, staged.replaced, change_files=len(staged.changes)
        )
        return write_operation(self._request, target.partition_columns, metrics, rows.source_versions)

    def _reads(self, replaced: Replacement | None) -> ReadSet:
        """What the outcome rests on: what is replaced, and the table itself where a source reads it as it is now."""
        if own_sources(self._request.sources, self._request.table):
            return ReadSet(whole_table=True)
        return ReadSet() if replaced is None else replaced.reads


def _warn_of_null_partitions(store: LogStore, target: WriteTarget, data: StructType, count: int) -> None:
    """Log a warning if the rows lack a partition column that the table does not make itself."""
    rules = target.rules
    made = {*rules.generated, *rules.defaults, *(column.name for column in rules.identities)}
    missing = [name for name in target.partition_columns if data.find(name) is None and name not in made]
    if missing and count:
        _log.warning(
            "Writing %s rows to the NULL partition of %s: they lack the partition column %s. If that is a mistake, add "
            "the column in `query`.",
            count,
            store.root,
            ", ".join(missing),
        )


def _check_only_rearranged(store: LogStore, staged: _Staged) -> None:
    """`data_change=False` promises the same rows; at least their number can be held against it."""
    before = rows_counted(store, staged.replaced.files) if staged.replaced is not None else 0
    after = staged.new.rows + staged.copied.rows
    if before != after:
        raise ConstraintViolationError(
            f"data_change=False says that rows are only rearranged, and {before} rows would become {after}.",
            remedy="Write exactly the rows that are replaced, or leave data_change out.",
        )
