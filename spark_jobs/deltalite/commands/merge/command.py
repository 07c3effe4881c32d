"""The merge command: source rows update, delete and insert rows of a table.

The steps:

1. Compute the source once, so that every step sees the same rows. Leave out the rows that audits reject.
2. Skip files by the conditions of ON on the table, and by the join keys of the source.
3. Match the rows of the remaining files, reading only the columns that ON and the conditions name.
4. Read the files with changed rows again, with all columns. A target row finds its match by file and row position, so
   the table is never shuffled. With deletion vectors, this step is left out if the matches have all new values.
5. Write the changed rows and the new rows together.

A merge is rejected if several source rows match one target row and the clauses do not say which applies.
delta-spark: MergeIntoCommand.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.columnar.predicates.predicate import Constant, Or, Predicate
from deltalite.columnar.skipping.files import FileTest, prune
from deltalite.commands.common.self_reads import self_reads
from deltalite.commands.common.write_target import WriteTarget, evolved_target
from deltalite.commands.flows.loads import Loads
from deltalite.commands.merge.candidates import find_candidates
from deltalite.commands.merge.first_run import create_by_merge
from deltalite.commands.merge.report import NOT_MATCHED_BY_SOURCE_PREDICATES, merge_operation
from deltalite.commands.merge.source import ComputedSource, MergeSource
from deltalite.commands.quarantine import open_quarantine
from deltalite.commands.row_changes.execute import change_rows
from deltalite.commands.row_changes.plan import (
    RowChange,
    ScannedRows,
    TouchedRows,
    WrittenChange,
    uses_deletion_vectors,
)
from deltalite.commands.write import write
from deltalite.log.file_table import key_column
from deltalite.protocol import type_widening
from deltalite.requests import MergeRequest
from deltalite.results import OperationResult
from deltalite.sizes import counted
from deltalite.snapshot import Snapshot
from deltalite.spark.columns.types import from_spark
from deltalite.spark.expressions.predicates import parse_predicate
from deltalite.spark.merge.clauses import MergeActions, evolved_schema, merge_actions, updates_read_target
from deltalite.spark.merge.join_condition import JoinCondition, join_condition
from deltalite.spark.merge.matching import Matches, ResolvedMerge, SourceRows, check_single_matches, find_matches
from deltalite.spark.merge.result_rows import (
    counts_without_match,
    inserted_rows,
    merged_rows,
    rows_updated_by_source,
)
from deltalite.spark.row_changes.row_actions import ActionKind, RowAction
from deltalite.spark.row_changes.touched_rows import NewRows, RowColumns
from deltalite.spark.runtime.errors import computing, reading_table
from deltalite.spark.scan.frame import AddressedRows, file_numbers, scan_addressed
from deltalite.spark.scan.row_positions import (
    MAX_FEW_POSITIONS,
    few_positions_by_file,
    positions_by_file,
    positions_of_addresses,
)
from deltalite.storage.versioned_path import refuse_version
from deltalite.txn.proposal import Operation, ReadSet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)
_CLAUSES_WITHOUT_SOURCE_ROW = "when_not_matched_by_source"


def merge(spark: SparkSession, request: MergeRequest) -> OperationResult:
    """Merge the rows, or return the result of an earlier attempt of the same run (`skipped`).

    Raises:
        InvalidRequestError: ON, a condition or a value is wrong, or a column does not exist.
        SourceError: the source cannot be read or computed.
        AuditFailedError: an audit of level `quarantine` rejects more source rows than its limit allows.
        MultipleMatchesError: several source rows match one target row, and the clauses do not say which applies.
        SchemaMismatchError: a value has a type that the column cannot take, or the source lacks a column.
        ConstraintViolationError: a new row breaks a rule of the table.
        DeltaLiteError: as `change_rows`.
    """
    refuse_version(request.table)
    quarantine = open_quarantine(spark, request, write)
    if request.create_if_missing:
        first_result = create_by_merge(spark, request, quarantine)
        if first_result is not None:
            return first_result
    plan = partial(_plan_change, spark, request, MergeSource(spark, request, quarantine))
    return change_rows(spark, request, plan, partial(_operation, request), quarantine=quarantine)


@contextmanager
def _plan_change(
    spark: SparkSession, request: MergeRequest, source: MergeSource, base: Snapshot, loads: Loads
) -> Iterator[RowChange]:
    parameters: dict[str, str] = {}
    if loads.is_partial and request.when_not_matched_by_source:
        _log.info(
            "Leaving out when_not_matched_by_source: an incremental source has only its new rows, so the other rows of "
            "%s would count as not matched.",
            request.table,
        )
        request, parameters = replace(request, when_not_matched_by_source=()), {NOT_MATCHED_BY_SOURCE_PREDICATES: "[]"}
    with source.computed(base, loads) as computed, plan_merge(spark, request, base, computed).change() as change:
        yield replace(change, rejected=computed.rejected, parameters=parameters)


def plan_merge(spark: SparkSession, request: MergeRequest, base: Snapshot, source: ComputedSource) -> MergePlan:
    """Resolve the clauses, number the source rows, and return the plan with the files that source rows may match."""
    source_schema = from_spark(source.rows.schema)
    widens = type_widening.is_enabled(base.protocol, base.metadata)
    target = evolved_target(base, evolved_schema(request, base.schema, source_schema, widens=widens))
    schema = target.schema
    actions = merge_actions(spark, request, source.rows, base_schema=base.schema, schema=schema, rules=target.rules)
    on = join_condition(spark, request.on, base.schema, source.rows)
    candidates = find_candidates(base, source.rows, on)
    columns = RowColumns.unused_in(base.schema, schema, source_schema)
    return MergePlan(
        spark=spark,
        request=request,
        base=base,
        target=target,
        on=on,
        merge=ResolvedMerge(
            source=SourceRows.of(source.rows, candidates.source_size, columns.key),
            actions=actions,
            base_schema=base.schema,
            schema=schema,
            columns=columns,
            row_ids=base.row_ids,
        ),
        source_versions=source.versions,
        may_match=candidates.may_match,
        may_lack_match=_predicate_of_unmatched_rows(spark, request, base),
        candidates=candidates.files,
    )


def _predicate_of_unmatched_rows(spark: SparkSession, request: MergeRequest, base: Snapshot) -> Predicate:
    """Return the predicate `MergePlan.may_lack_match`."""
    conditions = [clause.condition for clause in request.when_not_matched_by_source]
    predicates = [
        Constant(truth=True)
        if text is None
        else parse_predicate(spark, text, base.schema, parameter=f"{_CLAUSES_WITHOUT_SOURCE_ROW}[{n}]")
        for n, text in enumerate(conditions)
    ]
    return Or(tuple(predicates))


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePlan:
    """One merge on one snapshot, before its rows are matched.

    - `may_match`: a predicate that is true for each target row that a source row may match.
    - `may_lack_match`: a predicate that is true for each target row that a `when_not_matched_by_source` clause may
      change.
    - `candidates`: the files that may have rows with a match.
    """

    spark: SparkSession
    request: MergeRequest
    base: Snapshot
    target: WriteTarget
    on: JoinCondition
    merge: ResolvedMerge
    source_versions: Mapping[str, int]
    may_match: Predicate
    may_lack_match: Predicate
    candidates: pa.Table

    @contextmanager
    def change(self) -> Iterator[RowChange]:
        """Match the rows, and yield the row change of the merge."""
        base, merge, columns = self.base, self.merge, self.merge.columns
        rows = self._rows_of(self.candidates)
        with find_matches(
            rows.frame, self.candidates, merge, self.on, on_text=self.request.on, root=base.store.root
        ) as all_matches:
            if not _allows_several_matches(merge.actions):
                check_single_matches(all_matches, self.on, columns)
            matches = all_matches.one_for_each_row(columns)
            counts = {path: Counter(file.by_action) for path, file in rows.by_path(matches.by_file).items()}
            for path, by_action in self._counts_without_match(matches).items():
                counts.setdefault(path, Counter()).update(by_action)
            file_test = FileTest(Or((self.may_match, self.may_lack_match)), base.table_schema)
            total: Counter[int] = sum(counts.values(), Counter())
            changed_paths = [path for path, by_action in counts.items() if by_action.total()]
            yield RowChange(
                target=self.target,
                reads=self._reads(list(counts), file_test),
                actions=merge.actions.all,
                columns=columns,
                whole_files=self._files(()),
                touched=self._touched(matches, changed_paths, total.total()),
                # `matches` has one source row for each target row. The other source rows have a match too.
                inserts=self._inserts(all_matches),
                shuffles_partitions=bool(base.partition_columns),
                metrics=_source_and_target_row_metrics(merge.actions, total, merge.source.size.count),
                source_versions=self.source_versions,
            )

    def _reads(self, paths: Sequence[str], file_test: FileTest) -> ReadSet:
        """Return the read set: the files at `paths`, and every later file that passes `file_test`.

        In a self read, the read set is the whole table.
        """
        if self_reads(self.request.sources, self.request.table):
            return ReadSet(whole_table=True)
        return ReadSet(keys=frozenset(key_column(self._files(paths)).to_pylist()), row_tests=(file_test,))

    def _counts_without_match(self, matches: Matches) -> dict[str, dict[int, int]]:
        """Return the number of target rows that no source row matches, by file path and action."""
        if not self.merge.actions.not_matched_by_source:
            return {}
        rows = self._rows_of(prune(self.base.files, self.may_lack_match, self.base.table_schema))
        with reading_table(self.base.store.root), computing(_CLAUSES_WITHOUT_SOURCE_ROW, "its conditions"):
            return rows.by_path(counts_without_match(rows.frame, matches, self.merge))

    def _touched(self, matches: Matches, paths: Sequence[str], row_count: int) -> TouchedRows | None:
        if not paths:
            return None
        files, merge = self._files(paths), self.merge

        def scan() -> ScannedRows:
            rows = self._rows_of(files, with_row_ids=True)
            return ScannedRows(rows=merged_rows(rows.frame, matches, merge), numbers=rows.numbers)

        touched = TouchedRows(files=files, scan=scan, changed_row_count=row_count)
        if merge.actions.not_matched_by_source or not uses_deletion_vectors(self.base):
            return touched
        # Each changed row has a match, and no file is rewritten. So the matches have all that the commit needs, except
        # values of the target rows.
        touched = replace(touched, positions=partial(self._changed_positions, matches, files))
        updates = [action for action in merge.actions.matched.values() if action.kind is ActionKind.UPDATE]
        needs_old_rows = merge.row_ids is not None or updates_read_target(
            self.spark, merge.source.frame, merge.base_schema, updates
        )
        if not updates or needs_old_rows:
            return touched
        return replace(touched, updated=rows_updated_by_source(matches, merge))

    def _changed_positions(self, matches: Matches, files: pa.Table) -> Iterator[tuple[int, pa.Int64Array]]:
        """Yield the positions of the rows that the pairs change, by the position of the file in `files`."""
        columns = self.merge.columns
        numbers = file_numbers(self.base, files)
        addresses = matches.changed_addresses()
        if addresses is not None:
            positions_of_files = positions_of_addresses(addresses)
        else:
            # `matches.count` also counts pairs that change no row.
            collect = few_positions_by_file if matches.count <= MAX_FEW_POSITIONS else positions_by_file
            pairs = matches.changing_pairs(columns)
            positions_of_files = collect(pairs, file=columns.pair_file, row=columns.pair_row)
        return ((numbers[number], positions) for number, positions in positions_of_files)

    def _inserts(self, matches: Matches) -> NewRows | None:
        if not self.merge.actions.not_matched or not self.merge.source.size.count:
            return None
        return inserted_rows(matches, self.merge)

    def _rows_of(self, files: pa.Table, *, with_row_ids: bool = False) -> AddressedRows:
        columns = self.merge.columns
        return scan_addressed(
            self.spark, self.base, files, file=columns.file, row=columns.row, with_row_ids=with_row_ids
        )

    def _files(self, paths: Iterable[str]) -> pa.Table:
        files = self.base.files
        return files.filter(pc.is_in(files["path"], value_set=pa.array(list(paths), pa.string())))


def _operation(request: MergeRequest, change: RowChange, written: WrittenChange | None) -> Operation:
    """Return the operation, and log a warning if an inserted row has no value for a partition column."""
    operation = merge_operation(request, change, written)
    inserts = [action for action in change.actions.values() if action.kind is ActionKind.INSERT]
    missing_columns = dict.fromkeys(
        name for action in inserts for name in change.target.null_partition_columns(action.set_columns)
    )
    inserted_row_count = operation.metrics["numTargetRowsInserted"]
    if missing_columns and inserted_row_count:
        _log.warning(
            "Inserting %s into %s: an insert clause has no value for the partition column %s, so its rows go to "
            "the NULL partition. If the rows belong to another partition, add the column to the clause, or to `query` "
            "if the clause is '*'.",
            counted(inserted_row_count, "row"),
            request.table,
            ", ".join(missing_columns),
        )
    return operation


def _allows_several_matches(actions: MergeActions) -> bool:
    """Whether several source rows may match one target row.

    Several matches are allowed if there is no `when_matched` clause, or if the only one deletes without a condition.
    """
    match list(actions.matched.values()):
        case []:
            return True
        case [action]:
            return action.kind is ActionKind.DELETE and action.condition is None
        case _:
            return False


def _source_and_target_row_metrics(actions: MergeActions, rows: Mapping[int, int], source_rows: int) -> dict[str, int]:
    """Return delta-spark's metrics of the source rows, and of the target rows that are updated or deleted.

    `rows` has the number of target rows of each action.
    """

    def count_rows(clauses: Mapping[int, RowAction], kind: ActionKind) -> int:
        return sum(rows.get(number, 0) for number, action in clauses.items() if action.kind is kind)

    return {
        "numSourceRows": source_rows,
        "numTargetRowsMatchedUpdated": count_rows(actions.matched, ActionKind.UPDATE),
        "numTargetRowsMatchedDeleted": count_rows(actions.matched, ActionKind.DELETE),
        "numTargetRowsNotMatchedBySourceUpdated": count_rows(actions.not_matched_by_source, ActionKind.UPDATE),
        "numTargetRowsNotMatchedBySourceDeleted": count_rows(actions.not_matched_by_source, ActionKind.DELETE),
    }
