"""The values of resolved audits, with as few Spark jobs as possible.

- All aggregates of one scope (`rows`, `aggregate`, `freshness`, and the row count) are computed in one pass.
- `unique` and `references` need a query each.
- `row_count` uses the row counts in the log, if the caller knows them, and then needs no query.
- If SQL cannot be computed for a row, the pass fails, and each of its audits gets a separate pass. Then only the audits
  with such SQL have no value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.protocol.schema import StructType
from deltalite.requests import AuditKind, AuditScope
from deltalite.spark.audits.resolving import (
    ResolvedAudit,
    key_fields,
    reference_fields,
    repeated_key_row_count,
    rows_without_reference,
)
from deltalite.spark.runtime.errors import SPARK_ERRORS, reading_table, row_problem
from deltalite.spark.scan.frame import scan
from deltalite.txn.audits import Measurement, Number

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MAX_ERROR_CHARACTERS = 200
_ROW_COUNT = "rows"
_Aggregates = Mapping[str, Number | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedRows:
    """The rows of one scope.

    - `frame`: makes the frame of the rows.
    - `row_count`: counts the rows without a Spark job; None if only Spark can count them.
    """

    frame: Callable[[], DataFrame]
    row_count: Callable[[], int] | None = None


def measure_audits(
    spark: SparkSession,
    audits: Sequence[ResolvedAudit],
    scopes: Mapping[AuditScope, AuditedRows],
    schema: StructType,
    *,
    root: str,
    row_count_before: Callable[[], int | None],
) -> list[Measurement]:
    """Return the measurement of each audit: its value, or an error if its SQL cannot be computed for a row.

    Args:
        spark: the session.
        audits: the audits, resolved on `schema`.
        scopes: the rows of each scope that the audits examine.
        schema: the columns of the rows.
        root: the address of the audited table.
        row_count_before: returns the number of rows of the version before, None without such a version.

    Raises:
        CorruptDataFileError, UnsupportedFeatureError: a file cannot be read (`reading_table`).
    """
    with reading_table(root):
        return _Measuring(spark, audits, scopes, schema, root, row_count_before).measurements()


def bad_references(
    spark: SparkSession,
    resolved: ResolvedAudit,
    rows: DataFrame,
    table_rows: Callable[[], DataFrame],
    schema: StructType,
) -> DataFrame:
    """Return the values of `references` that no row of the other table has, as the columns `key0` and so on.

    `table_rows` returns the rows of the audited table, to which the audit may refer.
    """
    other_snapshot = resolved.other_snapshot
    other_schema = schema if other_snapshot is None else other_snapshot.schema
    fields, other_fields = reference_fields(resolved.audit, schema, other_schema)
    other_rows = table_rows() if other_snapshot is None else scan(spark, other_snapshot)
    return rows_without_reference(rows, fields, other_rows, other_fields)


class _Measuring:
    """Measures audits, and makes each frame, pass and row count once."""

    def __init__(
        self,
        spark: SparkSession,
        audits: Sequence[ResolvedAudit],
        scopes: Mapping[AuditScope, AuditedRows],
        schema: StructType,
        root: str,
        row_count_before: Callable[[], int | None],
    ) -> None:
        self._spark = spark
        self._audits = audits
        self._scopes = scopes
        self._schema = schema
        self._root = root
        self._row_counts = {
            scope: cache(rows.row_count) for scope, rows in scopes.items() if rows.row_count is not None
        }
        self._row_count_before = cache(row_count_before)
        self._frames: dict[AuditScope, DataFrame] = {}

    def measurements(self) -> list[Measurement]:
        numbered = list(enumerate(self._audits))
        aggregates = {
            scope: self._aggregates_or_none([(n, resolved) for n, resolved in numbered if resolved.scope is scope])
            for scope in {resolved.scope for resolved in self._audits}
        }
        return [self._measurement(n, resolved, aggregates[resolved.scope]) for n, resolved in numbered]

    def _aggregates_or_none(self, audits: Sequence[tuple[int, ResolvedAudit]]) -> _Aggregates | None:
        """Return the aggregates of the audits, or None if SQL of one of them cannot be computed for a row."""
        try:
            return self._aggregates(audits)
        except SPARK_ERRORS as error:
            if row_problem(error) is None:
                raise
            return None

    def _aggregates(self, audits: Sequence[tuple[int, ResolvedAudit]]) -> _Aggregates:
        """Compute the aggregates of audits of one scope, by name: the number of the audit, or `rows`."""
        columns = [r.aggregate.alias(str(n)) for n, r in audits if r.aggregate is not None]
        needs_count = any(_needs_row_count(resolved) for _, resolved in audits)
        scope = audits[0][1].scope
        if not columns and not (needs_count and scope not in self._row_counts):
            return {}
        (row,) = self._frame(scope).agg(F.count(F.lit(1)).alias(_ROW_COUNT), *columns).collect()
        values: _Aggregates = row.asDict()
        return values

    def _measurement(self, number: int, resolved: ResolvedAudit, aggregates: _Aggregates | None) -> Measurement:
        """Measure an audit. `aggregates` is None if the audit needs a separate pass."""
        try:
            if aggregates is None:
                aggregates = self._aggregates([(number, resolved)])
            return self._measurement_with(aggregates, number, resolved)
        except SPARK_ERRORS as error:
            problem = row_problem(error)
            if problem is None:
                raise
            return Measurement(value=None, error=problem[:_MAX_ERROR_CHARACTERS])

    def _measurement_with(self, aggregates: _Aggregates, number: int, resolved: ResolvedAudit) -> Measurement:
        """Measure an audit with the aggregates of its scope, and with a separate query if it needs one."""
        audit = resolved.audit
        version = None if resolved.other_snapshot is None else resolved.other_snapshot.version
        count = self._row_count(resolved, aggregates)
        measure = partial(Measurement, rows=count, version=version)
        match audit.kind:
            case AuditKind.ROWS | AuditKind.AGGREGATE | AuditKind.FRESHNESS:
                return measure(value=aggregates[str(number)])
            case AuditKind.ROW_COUNT:
                before = self._row_count_before() if audit.max_change is not None else None
                return Measurement(value=count, before=before)
            case AuditKind.UNIQUE:
                keys = key_fields(audit, self._schema)
                (row,) = repeated_key_row_count(self._frame(resolved.scope), keys).collect()
                return measure(value=row[0] or 0)
            case AuditKind.REFERENCES:
                return measure(value=self._count_without_reference(resolved))

    def _count_without_reference(self, resolved: ResolvedAudit) -> int:
        # One query reads both tables, so an error names both. Its message has the address of the unreadable file.
        other_snapshot = resolved.other_snapshot
        with reading_table(self._root if other_snapshot is None else f"{self._root} or {other_snapshot.store.root}"):
            rows, table_rows = self._frame(resolved.scope), partial(self._frame, AuditScope.TABLE)
            return bad_references(self._spark, resolved, rows, table_rows, self._schema).count()

    def _row_count(self, resolved: ResolvedAudit, aggregates: _Aggregates) -> int | None:
        """Return the number of rows in the scope, or None if the audit does not need it and no pass has counted it."""
        if _ROW_COUNT in aggregates:
            return int(aggregates[_ROW_COUNT] or 0)
        count_rows = self._row_counts.get(resolved.scope)
        return count_rows() if _needs_row_count(resolved) and count_rows is not None else None

    def _frame(self, scope: AuditScope) -> DataFrame:
        if scope not in self._frames:
            self._frames[scope] = self._scopes[scope].frame()
        return self._frames[scope]


def _needs_row_count(resolved: ResolvedAudit) -> bool:
    """Whether the audit measures the number of rows in the scope, or limits a share of them."""
    return resolved.audit.kind is AuditKind.ROW_COUNT or resolved.audit.share_limit is not None
