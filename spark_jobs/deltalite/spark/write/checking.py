"""The check of rows without a write: the rows are computed and pass the guards, and no file is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.protocol.column_mapping import TableSchema
from deltalite.spark.columns.guards import Guard, violation, with_guards
from deltalite.spark.columns.names import column_named, unused_name
from deltalite.spark.columns.stored_columns import stored_columns
from deltalite.spark.runtime.errors import SPARK_ERRORS, data_error
from deltalite.spark.write.row_marks import GOOD, for_good_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRows:
    """The number of rows that a write would commit, and the number of rows that audits would reject."""

    valid: int
    rejected: int

    @property
    def total(self) -> int:
        """The number of all rows."""
        return self.valid + self.rejected


def count_valid_rows(
    frame: DataFrame, table: TableSchema, guards: Sequence[Guard], marks: str | None = None
) -> CheckedRows:
    """Compute the rows as a write would, and count the valid and the rejected rows. Write nothing.

    `marks` is the name of the column with the marks (`row_marks`), None without audits that reject rows.

    Raises:
        ConstraintViolationError: a row breaks a guard.
        SourceError, AmbiguousRowsError, StorageError, InvalidRequestError: see `data_error`.
    """
    observation = Observation()
    mark_name = unused_name(table.physical, "mark")
    checks, mark = (guards, F.lit(GOOD)) if marks is None else (for_good_rows(guards, marks), column_named(marks))
    rows = with_guards(frame, checks, table.logical.names).select(*stored_columns(table), mark.alias(mark_name))
    is_good = F.when(column_named(mark_name) == GOOD, F.lit(1))
    observed = rows.observe(observation, F.count(F.lit(1)).alias("rows"), F.count(is_good).alias("good"))
    try:
        observed.write.format("noop").mode("overwrite").save()
    except SPARK_ERRORS as error:
        if (typed_error := violation(error, guards) or data_error(error)) is None:
            raise
        raise typed_error from error
    values = observation.get
    return CheckedRows(valid=int(values["good"]), rejected=int(values["rows"]) - int(values["good"]))
