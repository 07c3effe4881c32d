"""Rows that are computed once, whatever is done with them afterwards.

They are kept by the executors, and what led to them is forgotten: rows of a source that changes, or of a query that
gives others each time, stay what they were, and where an executor is lost that kept some of them the job fails, rather
than going on with others.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from deltalite.spark.errors import SPARK_ERRORS, data_error


def computed_once(rows: DataFrame) -> DataFrame:
    """The rows, computed now.

    Raises:
        SourceError: a row cannot be computed, or a file of the input cannot be read.
    """
    try:
        return rows.localCheckpoint()
    except SPARK_ERRORS as error:
        if (typed := data_error(error)) is None:
            raise
        raise typed from error
