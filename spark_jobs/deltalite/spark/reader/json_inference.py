"""The columns of JSON records, inferred by Spark from texts. Spark infers them from files without this module."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from deltalite.spark.runtime.java_classes import java_class
from deltalite.spark.runtime.session import settings


def inferred_columns(spark: SparkSession, texts: DataFrame, options: Mapping[str, str]) -> spark_types.StructType:
    """Return the columns of the records. Texts that are not JSON are ignored.

    A name that an object has twice, or with two spellings, occurs twice in the result.

    Args:
        spark: the session.
        texts: the records, as one STRING column.
        options: the options of the JSON source.
    """
    java_reader: Any = spark.read.options(**{**options, "mode": "DROPMALFORMED"})._jreader
    encoder = java_class(spark._jvm, "org.apache.spark.sql.Encoders").STRING()
    # Otherwise Spark merges names that differ only in case.
    with settings(spark, {"spark.sql.caseSensitive": "true"}):
        rows = java_reader.json(getattr(texts._jdf, "as")(encoder))  # `json` of PySpark 4.0 accepts no DataFrame
        return spark_types.StructType.fromJson(json.loads(rows.schema().json()))
