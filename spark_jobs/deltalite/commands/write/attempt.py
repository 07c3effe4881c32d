"""One attempt of a write: stages the rows, decides which files they replace, audits, and commits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from deltalite.commands.common.append_only import refuse_if_append_only
from deltalite.commands.common.auditing import Auditor, staged_rows
from deltalite.commands.common.change_data_files import write_change_files
from deltalite.commands.common.committing import commit_proposal, now_ms
from deltalite.commands.common.every_row import refuse_every_row
from deltalite.commands.common.kept_rows import KeptRows, UncommittedRows
from deltalite.commands.common.load_plan import LoadPlan
from deltalite.commands.common.rejected_rows import RejectedRows
from deltalite.commands.common.replanning import Rebase
from deltalite.commands.common.run_identity import transaction
from deltalite.commands.common.run_order import check_run_order, with_out_of_order
from deltalite.commands.common.self_reads import pinned_sources, self_reads
from deltalite.commands.common.write_target import WriteTarget, write_target
from deltalite.commands.common.written_files import PublishedFiles, live_row_count, publish_files, write_layout
from deltalite.commands.quarantine import Quarantine
from deltalite.commands.write.filling import RowFiller
from deltalite.commands.write.report import write_metrics, write_operation
from deltalite.commands.write.rerun import files_of_earlier_run
from deltalite.errors import ConstraintViolationError
from deltalite.log.file_table import removes_of
from deltalite.phases import PHASES, Phase
from deltalite.protocol.actions import AddCDCFile
from deltalite.protocol.row_tracking import row_id_names
from deltalite.protocol.schema import StructType
from deltalite.requests import OnRerun, PartitionOverwrite, Source, WriteMode, WriteRequest
from deltalite.requests.quarantine import rejecting_audits
from deltalite.results import OperationResult
from deltalite.sizes import counted
from deltalite.snapshot import Snapshot
from deltalite.spark.audits.resolving import ResolvedAudit
from deltalite.spark.columns.conforming import conform_columns
from deltalite.spark.columns.guards import Guard, not_null_guards, replaced_range_guard
from deltalite.spark.columns.names import column_named
from deltalite.spark.columns.text_lengths import length_guards
from deltalite.spark.columns.types import from_spark
from deltalite.spark.hadoop.folders import folder_of
from deltalite.spark.row_changes.replacing import (
    Replacement,
    replacement_of_all_files,
    replacement_of_matching_rows,
    replacement_of_partitions,
)
from deltalite.spark.write.checking import CheckedRows, count_valid_rows
from deltalite.spark.write.column_defaults import rule_guards
from deltalite.spark.write.staging import StagedWrite, WriteLayout
from deltalite.txn.proposal import BaseState, Operation, Proposal, ReadSet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from deltalite.spark.write.staging import DataFile
    from deltalite.storage.log_store import LogStore

_log = logging.getLogger(__name__)
Describer = Callable[[UncommittedRows], Operation]
"""Builds the `Operation` of a commit that only adds these rows."""
RowConverter = Callable[["DataFrame"], "ConvertedRows"]
"""Converts the rows of the query to the rows of the table, without the rows that audits reject."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedRows:
    """The rows of the table, and the rows of the query that audits reject (None without such audits)."""

    frame: DataFrame
    rejected: RejectedRows | None = None


def rebase_of(request: WriteRequest) -> Rebase:
    """Return `REPLAN` for a self read, whose rows depend on the snapshot; else `REPLAN_AND_KEEP_ROWS`."""
    return Rebase.REPLAN if self_reads(request.sources, request.table) else Rebase.REPLAN_AND_KEEP_ROWS


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedParts:
    """The parts of a write that all its attempts share. `commands.write.command.write` explains the functions."""

    spark: SparkSession
    request: WriteRequest
    store: LogStore
    kept_rows: KeptRows
    auditor: Auditor
    describe: Describer | None = None
    convert: RowConverter | None = None
    quarantine: Quarantine | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _FileChanges:
    """The files that the commit adds and removes.

    - `new`: the files with the rows of the query.
    - `copied`: the files with the rows that survive from rewritten files.
    - `replaced`: the files that the write removes from the table, None if it only adds rows.
    - `changes`: the change data files.
    """

    new: PublishedFiles
    copied: PublishedFiles
    replaced: Replacement | None
    changes: tuple[AddCDCFile, ...] = ()


class WriteAttempt:
    """One attempt to write and commit. `base` is None for a new table."""

    def __init__(self, shared: SharedParts, base: Snapshot | None, loads: LoadPlan) -> None:
        self._spark = shared.spark
        self._request = shared.request
        self._store = shared.store
        self._base = base
        self._loads = loads
        self._kept_rows = shared.kept_rows
        self._auditor = shared.auditor
        self._out_of_order: bool | None = None  # None until it is checked
        self._describe = shared.describe
        self._convert = shared.convert
        # A converter separates the rejected rows itself, because its audits read the rows of the query.
        self._rejecting_audits = () if shared.convert is not None else rejecting_audits(shared.request.audits)
        self._quarantine = shared.quarantine

    def run(self) -> OperationResult:
        """Stage the rows, unless an earlier attempt has staged the same rows, and commit them."""
        self._check_may_overwrite()
        rows = self._kept_rows.rows
        if rows is not None and rows.loaded == self._loads.loaded:
            target = write_target(self._request, self._base, rows.row_schema, now_ms=now_ms())
            if rows.fit(target):
                replaced = self._replaced_by_request(target)
                return self._commit(rows, target, replaced, self._auditor.resolve(target.schema))
        return self._stage_and_commit()

    def count_valid_rows(self, row_count: int) -> CheckedRows:
        """Check up to `row_count` rows of the query, and return the numbers of valid rows and of rejected rows."""
        if self._quarantine is not None:
            self._quarantine.begin()
        with self._loads.rows(self._spark, self._sources(), self._request) as query:
            row_schema = from_spark(query.frame.schema)
            target = write_target(self._request, self._base, row_schema, now_ms=now_ms())
            guards = self._guards(row_schema, target)
            filler = RowFiller(self._spark, row_schema, target, self._rejecting_audits)
            with filler.fill(query.frame.limit(row_count)) as filled:
                return count_valid_rows(filled.rows, filled.target.table, guards, filled.mark_column)

    def _stage_and_commit(self) -> OperationResult:
        """Compute and stage the rows of the query, then commit them."""
        if self._quarantine is not None:
            self._quarantine.begin()
        with self._loads.rows(self._spark, self._sources(), self._request) as query:
            rows = ConvertedRows(frame=query.frame) if self._convert is None else self._convert(query.frame)
            row_schema = from_spark(rows.frame.schema)
            target = write_target(self._request, self._base, row_schema, now_ms=now_ms())
            replaced = self._replaced_by_request(target)
            self._check_replaced(replaced)
            audits = self._auditor.resolve(target.schema)
            filler = RowFiller(self._spark, row_schema, target, self._rejecting_audits)
            staging = self._kept_rows.start_staging(
                folder_of(self._spark, self._store.root), self._layout(target), is_first_write=self._base is None
            )
            guards = self._guards(row_schema, target)
            PHASES.begin(Phase.WRITE)
            with filler.fill(rows.frame) as filled:
                target = filled.target
                staged_files = staging.write(filled.rows, target.table, guards, marks=filled.mark_column)
                files = self._publish([file for file in staged_files if file.has_good_rows], staging, target)
                rejected = rows.rejected or self._rejected_rows(staged_files, files, target)
        _warn_of_null_partitions(self._store, target, row_schema, files.row_count)
        uncommitted_rows = UncommittedRows(
            staging=staging,
            files=files,
            row_schema=row_schema,
            target=target,
            source_versions=query.source_versions,
            loaded=self._loads.loaded,
            rejected=rejected,
        )
        # The executors that keep rejected rows of the query may be lost before the next attempt.
        stays_valid = not filler.numbers_rows and rows.rejected is None
        if rebase_of(self._request) is Rebase.REPLAN_AND_KEEP_ROWS and stays_valid:
            self._kept_rows.rows = uncommitted_rows
        return self._commit(uncommitted_rows, target, replaced, audits)

    def _commit(
        self,
        rows: UncommittedRows,
        target: WriteTarget,
        replaced_by_request: Replacement | None,
        audits: Sequence[ResolvedAudit],
    ) -> OperationResult:
        """Commit the written rows. Rows that are copied from replaced files are valid for this attempt only."""
        replaced = replaced_by_request or self._replaced_by_rows(rows.files)
        self._check_replaced(replaced)
        with ExitStack() as stack:
            file_changes = _FileChanges(new=rows.files, copied=PublishedFiles.empty(), replaced=replaced)
            stagings = [rows.staging]
            if replaced is not None and replaced.survivors is not None:
                copies = StagedWrite(folder_of(self._spark, self._store.root), self._layout(target))
                stagings.append(stack.enter_context(copies))
                file_changes = self._copy_survivors(file_changes, copies, target)
            if not self._request.data_change:
                _check_only_rearranged(self._store, file_changes)
            proposal = self._proposal(file_changes, rows, target)
            new_rows = staged_rows(self._spark, self._store, target.table, rows.files.adds)
            measured = None if rows.rejected is None else rows.rejected.results()
            proposal = self._auditor.audit(
                audits, self._base, proposal, target.table, new_rows, stagings, measured=measured
            )
            if self._quarantine is not None:
                self._quarantine.commit(
                    None if rows.rejected is None else rows.rejected.frame(self._spark),
                    self._base,
                    replaces_committed=self._request.replaces_earlier_rows,
                )
            proposal = replace(proposal, offsets=self._loads.record())
            proposal = replace(proposal, operation=self._with_loads(proposal.operation))
            return commit_proposal(self._spark, self._request, self._store, proposal, stagings)

    def _layout(self, target: WriteTarget) -> WriteLayout:
        request = self._request
        return write_layout(target, optimize=request.optimize_write, max_records_per_file=request.max_records_per_file)

    def _sources(self) -> Mapping[str, Source]:
        """Return the sources, with each self read pinned to the version that the write is based on."""
        if self._base is None:
            return self._request.sources
        return pinned_sources(self._request.sources, self._request.table, self._base.version)

    def _guards(self, row_schema: StructType, target: WriteTarget) -> list[Guard]:
        """Return the checks that each row must pass."""
        guards = not_null_guards(target.schema) + length_guards(target.schema)
        guards += rule_guards(
            self._spark, row_schema, target.schema, target.rules, requested_keys=self._request.properties
        )
        if self._request.replace_where is not None:
            guards.append(replaced_range_guard(self._request.replace_where))
        return guards

    def _rejected_rows(
        self, staged_files: Sequence[DataFile], files: PublishedFiles, target: WriteTarget
    ) -> RejectedRows | None:
        """Return the rows that audits reject, or None without such audits. Check the limits of the audits."""
        if not self._rejecting_audits:
            return None
        rejected_files = [file for file in staged_files if not file.has_good_rows]
        rejected = RejectedRows.of_files(
            self._store, self._rejecting_audits, target.table, rejected_files, files.row_count
        )
        rejected.check_limits(self._spark)
        return rejected

    def _copy_survivors(self, file_changes: _FileChanges, copies: StagedWrite, target: WriteTarget) -> _FileChanges:
        """Copy the surviving rows of rewritten files, and write the change data files. Return all file changes."""
        replaced, base = file_changes.replaced, self._base
        if replaced is None or replaced.survivors is None or base is None:
            return file_changes
        PHASES.begin(Phase.WRITE)
        changes: tuple[AddCDCFile, ...] = ()
        if self._request.data_change:
            changes = write_change_files(base, target, copies, new_files=file_changes.new, replaced=replaced)
        ids = map(column_named, row_id_names(target.row_ids))
        survivors = replaced.survivors.select(*conform_columns(base.schema, target.schema), *ids)
        copied = self._publish(copies.write(survivors, target.copied_table, []), copies, target)
        return replace(file_changes, copied=copied, changes=changes)

    def _publish(self, staged_files: list[DataFile], staging: StagedWrite, target: WriteTarget) -> PublishedFiles:
        return publish_files(self._store, staging, staged_files, target, data_change=self._request.data_change)

    def _replaced_by_request(self, target: WriteTarget) -> Replacement | None:
        """Return the replacement if it depends on the request alone, else None.

        Refuse a `replace_where` that is always true.
        """
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
                return replacement_of_matching_rows(self._spark, self._base, self._request.replace_where)
            return None if self._is_dynamic else replacement_of_all_files(self._base)
        identity = self._request.identity
        if identity is None or identity.on_rerun is not OnRerun.REPLACE:
            return None
        earlier_files = files_of_earlier_run(self._base, identity)
        return None if earlier_files is None else Replacement.of(earlier_files, earlier_files.slice(0, 0))

    def _replaced_by_rows(self, new: PublishedFiles) -> Replacement | None:
        """Return the replacement of the written partitions by a dynamic partition overwrite; None for other writes."""
        if self._base is None or not self._is_dynamic:
            return None
        return replacement_of_partitions(self._base, [f.partition_values for f in new.adds])

    @property
    def _is_dynamic(self) -> bool:
        """Whether the write replaces only the partitions that receive rows."""
        is_requested = self._request.partition_overwrite is PartitionOverwrite.DYNAMIC
        return is_requested and self._base is not None and bool(self._base.partition_columns)

    def _check_may_overwrite(self) -> None:
        """Refuse to overwrite an append-only table, before a row is read and even if no row would be removed.

        The protocol allows `data_change=False`, which only rearranges rows.
        """
        if self._base is not None and self._request.mode is WriteMode.OVERWRITE and self._request.data_change:
            refuse_if_append_only(self._base, "mode 'overwrite' removes rows", remedy="Append, or unset the property.")

    def _check_replaced(self, replaced: Replacement | None) -> None:
        """Refuse a replacement that the table forbids or that is out of order.

        The attempt calls this method before the commit, and before it writes rows if the replacement is known by then.
        """
        self._check_may_remove(replaced)
        if replaced is None or self._base is None or self._request.mode is not WriteMode.OVERWRITE:
            return
        if self._out_of_order is None:
            self._out_of_order = check_run_order(self._request, self._base, self._reads(replaced))

    def _check_may_remove(self, replaced: Replacement | None) -> None:
        """Refuse to remove the rows of an earlier append from an append-only table."""
        if self._base is not None and replaced is not None and replaced.files.num_rows and self._request.data_change:
            refuse_if_append_only(
                self._base,
                "this write would remove the rows of an earlier run",
                remedy="Append, or unset the property.",
            )

    def _proposal(self, file_changes: _FileChanges, rows: UncommittedRows, target: WriteTarget) -> Proposal:
        request, replaced = self._request, file_changes.replaced
        removes = (
            tuple(removes_of(replaced.files, deletion_timestamp_ms=now_ms(), data_change=request.data_change))
            if replaced is not None
            else ()
        )
        operation = self._operation(file_changes, rows, target) if self._describe is None else self._describe(rows)
        return Proposal(
            base=BaseState.of(self._base),
            operation=with_out_of_order(operation, out_of_order=bool(self._out_of_order)),
            adds=(*file_changes.new.adds, *file_changes.copied.adds),
            removes=removes,
            changes=file_changes.changes,
            protocol=target.changed_protocol,
            metadata=target.changed_metadata,
            txn=transaction(request.identity, self._base, now_ms=now_ms()),
            reads=self._reads(replaced),
            # A write without a data change takes the rearranged rows from its query. These rows have no ids.
            keeps_row_ids=request.data_change,
        )

    def _with_loads(self, operation: Operation) -> Operation:
        """Return the operation with the parameters and metrics of the loads, which are complete after `record`.

        If there is a quarantine, also add its parameters and metrics, which are complete after its commit.
        """
        operation = replace(
            operation,
            parameters={**operation.parameters, **self._loads.parameters},
            metrics={**operation.metrics, **self._loads.metrics},
        )
        return operation if self._quarantine is None else self._quarantine.extended_operation(operation)

    def _operation(self, file_changes: _FileChanges, rows: UncommittedRows, target: WriteTarget) -> Operation:
        metrics = write_metrics(
            self._request,
            file_changes.new,
            file_changes.copied,
            file_changes.replaced,
            change_file_count=len(file_changes.changes),
        )
        return write_operation(self._request, target.partition_columns, metrics, rows.source_versions)

    def _reads(self, replaced: Replacement | None) -> ReadSet:
        """Return the read set: transactions of the loads, and the replaced files, or the whole table in a self read."""
        if self_reads(self._request.sources, self._request.table):
            return self._loads.extended_reads(ReadSet(whole_table=True))
        return self._loads.extended_reads(ReadSet() if replaced is None else replaced.reads)


def _warn_of_null_partitions(store: LogStore, target: WriteTarget, row_schema: StructType, row_count: int) -> None:
    """Log a warning if the rows lack a partition column and the table does not generate its values."""
    row_columns = [name for name in target.partition_columns if row_schema.find(name) is not None]
    missing = target.null_partition_columns(row_columns)
    if missing and row_count:
        _log.warning(
            "Writing %s to the NULL partition of %s: the rows lack the partition column %s. If the rows belong to "
            "another partition, add the column in `query`.",
            counted(row_count, "row"),
            store.root,
            ", ".join(missing),
        )


def _check_only_rearranged(store: LogStore, file_changes: _FileChanges) -> None:
    """Refuse a `data_change=False` write that changes the number of rows.

    The option promises the same rows. Only their number is checked.
    """
    rows_before = live_row_count(store, file_changes.replaced.files) if file_changes.replaced is not None else 0
    rows_after = file_changes.new.row_count + file_changes.copied.row_count
    if rows_before != rows_after:
        raise ConstraintViolationError(
            f"data_change=False promises that rows are only rearranged, but {counted(rows_before, 'row')} would become "
            f"{counted(rows_after, 'row')} in {store.root}.",
            remedy="Write exactly the rows that are replaced, or leave data_change out.",
        )
