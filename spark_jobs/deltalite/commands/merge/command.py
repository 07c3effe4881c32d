"""The merge command: source rows update, delete and insert rows of a table.

The steps:

1. Compute the source once, so that every step sees the same rows.
2. Skip files by the conditions of ON on the table, and by the keys of the source.
3. Match the other files, reading only the columns that ON and the conditions name.
4. Read the files with changed rows again, with all columns, and write them. A target row finds its match by file and
   row position, so the table is never shuffled. New rows are written beside them.

A merge is rejected if several source rows match one target row and the clauses do not say which applies.
delta-spark: MergeIntoCommand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.columnar.predicate import Constant, Or, Predicate, conjunction
from deltalite.columnar.skipping import FileTest, prune
from deltalite.commands.common.self_reads import pinned_sources, self_reads
from deltalite.commands.common.write_target import evolved_target
from deltalite.commands.merge.first_rows import merge_first_rows
from deltalite.commands.merge.report import described
from deltalite.commands.row_changes.execute import change_rows
from deltalite.commands.row_changes.plan import RowChange, TouchedRows
from deltalite.log.file_table import key_column
from deltalite.requests import MergeRequest
from deltalite.results import OperationResult
from deltalite.snapshot import Snapshot
from deltalite.spark.columns.types import from_spark
from deltalite.spark.expressions.predicates import parse_predicate
from deltalite.spark.merge.clauses import MergeActions, evolved, merge_actions
from deltalite.spark.merge.join_condition import join_condition
from deltalite.spark.merge.matching import Matches, SourceRows, check_single_matches, matches
from deltalite.spark.merge.result_rows import counts_without_match, inserted_rows, merged_rows
from deltalite.spark.merge.source_keys import by_ranges, source_keys
from deltalite.spark.reader.sources import query_rows
from deltalite.spark.row_changes.row_actions import ActionKind, RowAction
from deltalite.spark.row_changes.touched_rows import NewRows, RowColumns
from deltalite.spark.runtime.computed_once import computed_once
from deltalite.spark.runtime.errors import computing, reading_table
from deltalite.spark.scan.frame import AddressedRows, scan_addressed
from deltalite.storage.versioned_path import refuse_version
from deltalite.txn.proposal import ReadSet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BY_SOURCE = "when_not_matched_by_source"
# A test of one file against many ranges takes a millisecond.
_MOST_FILES_BY_RANGES = 5_000


def merge(spark: SparkSession, request: MergeRequest) -> OperationResult:
    """Merge the rows, or return the result of an earlier attempt of the same run (`skipped`).

    Raises:
        InvalidRequestError: ON, a condition or a value is wrong, or a column does not exist.
        SourceError: the source cannot be read or computed.
        MultipleMatchesError: several source rows match one target row, and the clauses do not say which applies.
        SchemaMismatchError: a value has a type that the column cannot take, or the source lacks a column.
        ConstraintViolationError: a new row breaks a rule of the table.
        DeltaLiteError: as `change_rows`.
    """
    if request.create_if_missing:
        refuse_version(request.table)
        made = merge_first_rows(spark, request)
        if made is not None:
            return made
    source = _Source(spark, request)
    return change_rows(spark, request, partial(_plan, spark, request, source), partial(described, request, source))


class _Source:
    """The rows of the source. They are kept for the next attempt, unless a source is a self read."""

    def __init__(self, spark: SparkSession, request: MergeRequest) -> None:
        self._spark = spark
        self._request = request
        self._computed: DataFrame | None = None
        self.versions: Mapping[str, int] = {}

    def rows(self, base: Snapshot) -> DataFrame:
        request = self._request
        if self._computed is None or self_reads(request.sources, request.table):
            sources = pinned_sources(request.sources, request.table, base.version)
            with query_rows(self._spark, sources, request.query, request.query_params) as given:
                from_spark(given.frame.schema)  # raises for duplicate column names
                self._computed, self.versions = computed_once(given.frame), given.source_versions
        return self._computed


@contextmanager
def _plan(spark: SparkSession, request: MergeRequest, source: _Source, base: Snapshot) -> Iterator[RowChange]:
    with _Merge(spark, request, base, source.rows(base)).change() as change:
        yield change


class _Merge:
    """One merge on one snapshot."""

    def __init__(self, spark: SparkSession, request: MergeRequest, base: Snapshot, incoming: DataFrame) -> None:
        self._spark = spark
        self._request = request
        self._base = base
        given = from_spark(incoming.schema)
        self._target = evolved_target(base, evolved(request, base.schema, given))
        schema, rules = self._target.schema, self._target.rules
        self._actions = merge_actions(spark, request, incoming, have=base.schema, schema=schema, rules=rules)
        self._on = join_condition(spark, request.on, base.schema, incoming)
        keys = source_keys(incoming, self._on.keys, base.partition_columns)
        self._may_match = conjunction([self._on.on_target, keys.on_target])
        self._candidates = prune(base.files, self._may_match, base.table_schema)
        if keys.spread and 1 < self._candidates.num_rows <= _MOST_FILES_BY_RANGES:
            self._may_match = conjunction([self._may_match, by_ranges(incoming, keys)])
            self._candidates = prune(self._candidates, self._may_match, base.table_schema)
        self._may_lack_match = self._by_source_predicate()
        self._columns = RowColumns.beside(base.schema, schema, given)
        self._source = SourceRows.of(incoming, keys.size, self._columns.key)

    @contextmanager
    def change(self) -> Iterator[RowChange]:
        """Yield the row change of the merge."""
        base, request, actions, columns = self._base, self._request, self._actions, self._columns
        rows = self._rows_of(self._candidates)
        with matches(rows.frame, self._source, self._on, request.on, actions.matched, columns, base.store.root) as all_:
            if not _deletes_whatever_matches(actions):
                check_single_matches(all_, self._on, columns)
            pairs = all_.one_for_a_row(columns)
            counts = {path: Counter(own.by_action) for path, own in rows.by_path(pairs.by_file).items()}
            for path, own in self._without_match(pairs).items():
                counts.setdefault(path, Counter()).update(own)
            test = FileTest(Or((self._may_match, self._may_lack_match)), base.table_schema)
            total: Counter[int] = sum(counts.values(), Counter())
            yield RowChange(
                target=self._target,
                reads=self._reads(list(counts), test),
                actions=actions.all,
                columns=columns,
                gone=self._files(()),
                touched=self._touched(pairs, [path for path, own in counts.items() if own.total()], total.total()),
                inserts=self._inserts(all_),  # a pair that was not kept still counts as a match of its source row
                gathers=bool(base.partition_columns),
                counts=_counted(actions, total, self._source.size.count),
            )

    def _reads(self, paths: Sequence[str], test: FileTest) -> ReadSet:
        """Return what the merge has read: the files with matches, and the rows that could match; all in a self read."""
        if self_reads(self._request.sources, self._request.table):
            return ReadSet(whole_table=True)
        return ReadSet(keys=frozenset(key_column(self._files(paths)).to_pylist()), rows=(test,))

    def _without_match(self, pairs: Matches) -> dict[str, dict[int, int]]:
        """Count, by file path and action, the target rows that no source row matches."""
        if not self._actions.by_source:
            return {}
        rows = self._rows_of(prune(self._base.files, self._may_lack_match, self._base.table_schema))
        with reading_table(self._base.store.root), computing(_BY_SOURCE, "its conditions"):
            return rows.by_path(counts_without_match(rows.frame, pairs, self._columns, self._actions.by_source))

    def _touched(self, pairs: Matches, paths: Sequence[str], changed: int) -> TouchedRows | None:
        if not paths:
            return None
        rows = self._rows_of(self._files(paths))
        merged = merged_rows(
            rows.frame,
            pairs,
            self._source,
            self._columns,
            have=self._base.schema,
            schema=self._target.schema,
            matched=self._actions.matched,
            by_source=self._actions.by_source,
        )
        return TouchedRows(files=rows.files, rows=merged, numbers=rows.numbers, changed=changed)

    def _inserts(self, pairs: Matches) -> NewRows | None:
        actions = self._actions.not_matched
        if not actions or not self._source.size.count:
            return None
        return inserted_rows(self._source, pairs, self._columns, schema=self._target.schema, not_matched=actions)

    def _rows_of(self, files: pa.Table) -> AddressedRows:
        return scan_addressed(self._spark, self._base, files, file=self._columns.file, row=self._columns.row)

    def _files(self, paths: Iterable[str]) -> pa.Table:
        files = self._base.files
        return files.filter(pc.is_in(files["path"], value_set=pa.array(list(paths), pa.string())))

    def _by_source_predicate(self) -> Predicate:
        """Return a predicate that is true for each row that a `when_not_matched_by_source` clause may change."""
        conditions = [clause.condition for clause in self._request.when_not_matched_by_source]
        parts = [
            Constant(truth=True)
            if text is None
            else parse_predicate(self._spark, text, self._base.schema, parameter=f"{_BY_SOURCE}[{n}]")
            for n, text in enumerate(conditions)
        ]
        return Or(tuple(parts))


def _deletes_whatever_matches(actions: MergeActions) -> bool:
    """Whether the result is the same whichever source row matches, and however many match."""
    match list(actions.matched.values()):
        case []:
            return True
        case [only]:
            return only.kind is ActionKind.DELETE and only.condition is None
        case _:
            return False


def _counted(actions: MergeActions, rows: Mapping[int, int], source_rows: int) -> dict[str, int]:
    """Return Spark's metrics of the matched rows; `rows` counts how often each action applies."""

    def number(found: Mapping[int, RowAction], kind: ActionKind) -> int:
        return sum(rows.get(n, 0) for n, action in found.items() if action.kind is kind)

    return {
        "numSourceRows": source_rows,
        "numTargetRowsMatchedUpdated": number(actions.matched, ActionKind.UPDATE),
        "numTargetRowsMatchedDeleted": number(actions.matched, ActionKind.DELETE),
        "numTargetRowsNotMatchedBySourceUpdated": number(actions.by_source, ActionKind.UPDATE),
        "numTargetRowsNotMatchedBySourceDeleted": number(actions.by_source, ActionKind.DELETE),
    }
