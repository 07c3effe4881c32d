"""Rows that are computed once for several uses.

The executors keep the rows, and the plan behind them is dropped. So the rows stay the same even if the source changes
or the query is non-deterministic. If an executor with some of the rows is lost, the job fails instead of computing
other rows.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from deltalite.spark.runtime.errors import SPARK_ERRORS, data_error


def compute_once(rows: DataFrame) -> DataFrame:
    """Compute the rows now, and return the computed rows.

    Raises:
        SourceError: a row cannot be computed, or a file of the input cannot be read.
    """
    try:
        return rows.localCheckpoint()
    except SPARK_ERRORS as error:
        if (typed_error := data_error(error)) is None:
            raise
        raise typed_error from error
