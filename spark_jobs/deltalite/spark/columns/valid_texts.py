"""Texts that are valid UTF-8, as the Parquet format needs them.

Spark's text reader accepts bytes that are not UTF-8, and Spark writes these bytes to Parquet unchanged. Other readers
then refuse the file.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows
from pyspark.sql import types as spark_types

from deltalite.spark.columns.names import column_named


def with_valid_texts(rows: DataFrame) -> DataFrame:
    """Return the rows with U+FFFD in place of bytes that are not UTF-8, in each STRING column."""
    names = [field.name for field in rows.schema.fields if isinstance(field.dataType, spark_types.StringType)]
    return rows.withColumns({name: F.make_valid_utf8(column_named(name)) for name in names})
