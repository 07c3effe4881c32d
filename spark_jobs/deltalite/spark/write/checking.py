"""The check of rows without a write: the rows are computed and pass the guards, and no file is written."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.protocol.column_mapping import TableSchema
from deltalite.spark.columns.guards import Guard, violation, with_guards
from deltalite.spark.columns.stored_columns import stored_columns
from deltalite.spark.runtime.errors import SPARK_ERRORS, data_error


def count_valid_rows(frame: DataFrame, table: TableSchema, guards: Sequence[Guard]) -> int:
    """Compute the rows as a write would, and return their number. Write nothing.

    Raises:
        ConstraintViolationError: a row breaks a guard.
        SourceError: a row cannot be computed.
    """
    counted = Observation()
    rows = with_guards(frame, guards, table.logical.names).select(*stored_columns(table))
    try:
        rows.observe(counted, F.count(F.lit(1)).alias("rows")).write.format("noop").mode("overwrite").save()
    except SPARK_ERRORS as error:
        if (typed_error := violation(error, guards) or data_error(error)) is None:
            raise
        raise typed_error from error
    return int(counted.get["rows"])
