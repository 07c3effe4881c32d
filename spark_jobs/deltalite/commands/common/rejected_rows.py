"""The rows that audits of level `quarantine` reject.

A write puts the rejected rows into separate files, in the pass that writes the other rows (`spark.write.row_marks`). No
commit to the target refers to these files. The row counts in their footers are the measurements of the audits, so the
audits read no row. A merge keeps the rejected rows of its source on the executors (`spark.audits.rejecting`).

A row that breaks several audits counts for each of them, but is only one row in the quarantine. Its `audit` is the
first of them in the request, and its `reason` names all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from deltalite.columnar.parquet.files import read_footers
from deltalite.commands.common.auditing import listed_files, raise_if_failed
from deltalite.commands.common.committing import now_ms
from deltalite.commands.common.written_files import add_of_data_file
from deltalite.protocol.column_mapping import TableSchema
from deltalite.protocol.schema import StructType
from deltalite.requests import Audit, AuditScope
from deltalite.requests.audits import DEFAULT_MAX_REJECTED_SHARE
from deltalite.results import AuditResult
from deltalite.sizes import counted
from deltalite.spark.audits.measuring import AuditedRows
from deltalite.spark.audits.rejecting import SeparatedRows
from deltalite.spark.audits.resolving import ResolvedAudit
from deltalite.spark.audits.sampling import sample_rows
from deltalite.spark.columns.names import unused_name
from deltalite.spark.reader.quarantined_rows import rejected_rows_as_records
from deltalite.spark.scan.frame import scan_rows
from deltalite.spark.write.row_marks import GOOD, true_conditions
from deltalite.spark.write.staging import DataFile
from deltalite.txn.audits import Measurement, audit_result, failed_audits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from deltalite.storage.log_store import LogStore


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRows:
    """The rejected rows of one write or merge.

    - `root`: the address of the target.
    - `audits`: the audits of level `quarantine`. The mark of a row has one digit for each of them (`row_marks`).
    - `schema`: the columns of the rows.
    - `row_counts`: the number of rejected rows by mark.
    - `good_row_count`: the number of the other rows.
    - `mark_column`: the column with the marks.
    - `scan`: returns the rejected rows with their marks. Each call returns the same rows.
    """

    root: str
    audits: tuple[Audit, ...]
    schema: StructType
    row_counts: Mapping[str, int]
    good_row_count: int
    mark_column: str
    scan: Callable[[SparkSession], DataFrame]

    @classmethod
    def of_files(
        cls,
        store: LogStore,
        audits: tuple[Audit, ...],
        table: TableSchema,
        files: Sequence[DataFile],
        good_row_count: int,
    ) -> RejectedRows:
        """Return the rejected rows in staged files. Read the row counts from the footers of the files.

        `table` is the schema with which the files were written. `files` may be empty. `good_row_count` is the number of
        the other rows of the write.
        """
        counts = [footer.num_rows for footer in read_footers(store, [file.name for file in files])]
        row_counts: Counter[str] = Counter()
        for file, row_count in zip(files, counts, strict=True):
            row_counts[file.mark or GOOD] += row_count
        mark_column = unused_name(table.logical, "mark")

        def scan(spark: SparkSession) -> DataFrame:
            by_file = {mark_column: pa.array([file.mark for file in files], pa.string())}
            return scan_rows(spark, store.root, table, _listed(table, files), rows={}, by_file=by_file)

        return cls(
            root=store.root,
            audits=audits,
            schema=table.logical,
            row_counts=row_counts,
            good_row_count=good_row_count,
            mark_column=mark_column,
            scan=scan,
        )

    @classmethod
    def of_source(cls, root: str, audits: tuple[Audit, ...], rows: SeparatedRows) -> RejectedRows:
        """Return the rejected rows of a merge's computed source."""
        return cls(
            root=root,
            audits=audits,
            schema=rows.schema,
            row_counts={mark: count for mark, count in rows.row_counts.items() if mark != GOOD},
            good_row_count=rows.row_counts.get(GOOD, 0),
            mark_column=rows.mark_column,
            scan=lambda _spark: rows.rejected,
        )

    @property
    def row_count(self) -> int:
        """The number of rejected rows."""
        return sum(self.row_counts.values())

    def results(self) -> dict[str, AuditResult]:
        """Return the results of the audits by name."""
        time_ms, all_row_count = now_ms(), self.good_row_count + self.row_count
        return {
            audit.name: audit_result(
                audit,
                AuditScope.NEW_ROWS,
                Measurement(value=self._count_breaking({number}), rows=all_row_count),
                now_ms=time_ms,
            )
            for number, audit in enumerate(self.audits)
        }

    def check_limits(self, spark: SparkSession) -> None:
        """Check that each audit rejects at most as many rows as its limit allows.

        The audits with the default limit may together reject no more than this limit. If the check fails, log the
        result of each audit.

        Raises:
            AuditFailedError: audits reject more rows than a limit allows. The error has samples of these rows.
        """
        results, effect = self.results(), "Nothing was committed."
        if not failed_audits(results.values()):
            common_problem = self._problem_of_default_limits()
            if common_problem is None:
                return
            names = {audit.name for audit in self.audits if audit.has_default_limit}
            results = {
                name: replace(result, passed=False) if name in names else result for name, result in results.items()
            }
            effect = f"{common_problem} {effect}"
        samples = sample_rows(
            spark,
            [ResolvedAudit(audit=audit, scope=AuditScope.NEW_ROWS) for audit in self.audits],
            results,
            {AuditScope.NEW_ROWS: AuditedRows(frame=lambda: self.scan(spark))},
            self.schema,
        )
        raise_if_failed(self.root, list(results.values()), effect, samples)

    def _problem_of_default_limits(self) -> str | None:
        """Return the problem if the audits with the default limit together exceed this limit, else None."""
        numbers = {number for number, audit in enumerate(self.audits) if audit.has_default_limit}
        count = self._count_breaking(numbers)
        row_count = self.good_row_count + self.row_count
        if count <= DEFAULT_MAX_REJECTED_SHARE * row_count:
            return None
        names = ", ".join(f"'{audit.name}'" for number, audit in enumerate(self.audits) if number in numbers)
        return (
            f"{names} together reject {count} of {counted(row_count, 'row')}. Audits with the default limit may "
            f"together reject at most a share of {DEFAULT_MAX_REJECTED_SHARE}."
        )

    def _count_breaking(self, numbers: Collection[int]) -> int:
        """Return the number of rows that break an audit with one of these numbers."""
        return sum(
            count
            for mark, count in self.row_counts.items()
            if any(number in numbers for number in true_conditions(mark))
        )

    def frame(self, spark: SparkSession) -> DataFrame | None:
        """Return the rows with the columns `audit`, `reason` and `record` of a quarantine; None without rows."""
        if not self.row_count:
            return None
        reasons = {
            audit.name: f"audit '{audit.name}' rejects rows for which ({audit.rows}) is true" for audit in self.audits
        }
        return rejected_rows_as_records(self.scan(spark), self.schema.names, self.mark_column, reasons)


def _listed(table: TableSchema, files: Sequence[DataFile]) -> pa.Table:
    """Return staged files as the log would list them."""
    keys = table.partition_keys
    return listed_files(add_of_data_file(file, keys, data_change=True) for file in files)
