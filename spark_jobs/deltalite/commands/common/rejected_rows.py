"""The rows that audits of level `quarantine` reject, as a write has staged them.

The write puts the rejected rows into separate files, in the pass that writes the other rows (`spark.write.row_marks`).
No commit to the target refers to these files. The row counts in their footers are the measurements of the audits, so
the audits read no row. A row that breaks several audits counts for each of them, and is one row in the quarantine: its
`audit` is the first audit in the order of the request, and its `reason` names all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from deltalite.columnar.parquet.files import read_footers
from deltalite.commands.common.auditing import listed_files, raise_if_failed
from deltalite.commands.common.committing import now_ms
from deltalite.protocol.actions import AddFile
from deltalite.protocol.column_mapping import TableSchema
from deltalite.protocol.paths import encode_path
from deltalite.requests import Audit, AuditScope
from deltalite.requests.audits import DEFAULT_MAX_REJECTED_SHARE
from deltalite.results import AuditResult
from deltalite.spark.audits.measuring import AuditedRows
from deltalite.spark.audits.resolving import ResolvedAudit
from deltalite.spark.audits.sampling import sample_rows
from deltalite.spark.columns.names import unused_name
from deltalite.spark.reader.quarantined_rows import rows_as_records
from deltalite.spark.scan.frame import scan_rows
from deltalite.spark.write.row_marks import broken_conditions
from deltalite.spark.write.staging import DataFile
from deltalite.txn.audits import Measurement, audit_result, failed_audits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from deltalite.storage.log_store import LogStore


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRows:
    """The rejected rows of one staged write.

    - `audits`: the audits of level `quarantine`. The mark of a file has a digit for each of them.
    - `table`: the schema with which the files were written.
    - `files`: the files with rejected rows.
    - `row_counts`: the number of rows of each file.
    - `good_row_count`: the number of the other rows of the write.
    """

    store: LogStore
    audits: tuple[Audit, ...]
    table: TableSchema
    files: tuple[DataFile, ...]
    row_counts: tuple[int, ...]
    good_row_count: int

    @classmethod
    def of(
        cls,
        store: LogStore,
        audits: tuple[Audit, ...],
        table: TableSchema,
        files: Sequence[DataFile],
        good_row_count: int,
    ) -> RejectedRows:
        """Read the row counts of the files with rejected rows, which may be empty."""
        counts = [footer.num_rows for footer in read_footers(store, [file.name for file in files])]
        files_and_counts = [pair for pair in zip(files, counts, strict=True) if pair[1]]
        return cls(
            store=store,
            audits=audits,
            table=table,
            files=tuple(file for file, _ in files_and_counts),
            row_counts=tuple(count for _, count in files_and_counts),
            good_row_count=good_row_count,
        )

    @property
    def row_count(self) -> int:
        """The number of rejected rows."""
        return sum(self.row_counts)

    def results(self) -> dict[str, AuditResult]:
        """Return the results of the audits by name."""
        counts = [0] * len(self.audits)
        for file, row_count in zip(self.files, self.row_counts, strict=True):
            for number in broken_conditions(file.mark or ""):
                counts[number] += row_count
        time_ms, rows = now_ms(), self.good_row_count + self.row_count
        return {
            audit.name: audit_result(audit, AuditScope.NEW_ROWS, Measurement(value=count, rows=rows), now_ms=time_ms)
            for audit, count in zip(self.audits, counts, strict=True)
        }

    def check_limits(self, spark: SparkSession) -> None:
        """Check that no audit rejects more rows than its limit allows, nor all audits with the default limit together.

        Log the result of each audit if the check fails.

        Raises:
            AuditFailedError: an audit rejects more rows. The error has samples of them.
        """
        results, effect = self.results(), "Nothing was committed."
        if not failed_audits(results.values()):
            common_problem = self._problem_of_default_limits()
            if common_problem is None:
                return
            defaults = {audit.name for audit in self.audits if audit.has_default_limit}
            results = {
                name: replace(result, passed=False) if name in defaults else result for name, result in results.items()
            }
            effect = f"{common_problem} {effect}"
        samples = sample_rows(
            spark,
            [ResolvedAudit(audit=audit, scope=AuditScope.NEW_ROWS) for audit in self.audits],
            results,
            {AuditScope.NEW_ROWS: AuditedRows(frame=lambda: self._scan(spark, {}))},
            self.table.logical,
        )
        raise_if_failed(self.store.root, list(results.values()), effect, samples)

    def _problem_of_default_limits(self) -> str | None:
        """Return the problem if the audits with the default limit together reject more rows than it allows."""
        numbers = {number for number, audit in enumerate(self.audits) if audit.has_default_limit}
        count = sum(n for file, n in zip(self.files, self.row_counts, strict=True) if _breaks(file, numbers))
        row_count = self.good_row_count + self.row_count
        if count <= DEFAULT_MAX_REJECTED_SHARE * row_count:
            return None
        names = ", ".join(f"'{audit.name}'" for number, audit in enumerate(self.audits) if number in numbers)
        return (
            f"{names} together reject {count} of {row_count} rows. Audits without another limit may together reject a "
            f"share of {DEFAULT_MAX_REJECTED_SHARE}."
        )

    def frame(self, spark: SparkSession) -> DataFrame | None:
        """Return the rows with the columns `audit`, `reason` and `record` of a quarantine; None without rows."""
        if not self.files:
            return None
        broken_audits = [[self.audits[number] for number in broken_conditions(f.mark or "")] for f in self.files]
        audit, reason = unused_name(self.table.logical, "audit"), unused_name(self.table.logical, "reason")
        by_file = {
            audit: pa.array([audits[0].name for audits in broken_audits], pa.string()),
            reason: pa.array([reason_text(audits) for audits in broken_audits], pa.string()),
        }
        rows = self._scan(spark, by_file)
        return rows_as_records(rows, self.table.logical.names, {"audit": audit, "reason": reason})

    def _scan(self, spark: SparkSession, by_file: Mapping[str, pa.Array]) -> DataFrame:
        """Return the rejected rows, with additional columns that have one value for each file."""
        return scan_rows(spark, self.store.root, self.table, self._listed(), rows={}, by_file=by_file)

    def _listed(self) -> pa.Table:
        """Return the files as the log would list them."""
        keys = self.table.partition_keys
        adds = [
            AddFile(
                path=encode_path(file.name),
                partition_values={keys[name]: text for name, text in file.partition_values.items()},
                size_bytes=file.size_bytes,
                modification_time_ms=file.modified_ms,
                data_change=True,
            )
            for file in self.files
        ]
        return listed_files(adds)


def _breaks(file: DataFile, numbers: Collection[int]) -> bool:
    """Whether the rows of a file break an audit with one of these numbers."""
    return any(number in numbers for number in broken_conditions(file.mark or ""))


def reason_text(audits: Sequence[Audit]) -> str:
    """Return the reason for which audits reject a row, as a sentence."""
    texts = [f"audit '{audit.name}' rejects rows for which ({audit.rows}) is true" for audit in audits]
    return f"The {', and the '.join(texts)}."
