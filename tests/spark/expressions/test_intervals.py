"""The library and Spark accept the same intervals in table properties."""

from __future__ import annotations

from py4j.java_gateway import get_field
from pyspark.errors import IllegalArgumentException

from tests.unit.protocol.interval_spellings import DAY, SPELLINGS


def spark_interval_ms(spark, text: str) -> int | None:
    """Parse an interval as delta-spark does.

    Return its length in milliseconds, or None for invalid text, months and negative lengths.
    """
    jvm = spark._jvm
    utf8_text = jvm.org.apache.spark.unsafe.types.UTF8String.fromString(text)
    try:
        interval = jvm.org.apache.spark.sql.catalyst.util.IntervalUtils.stringToInterval(utf8_text)
    except IllegalArgumentException:
        return None
    months, days, micros = (get_field(interval, name) for name in ("months", "days", "microseconds"))
    total_ms = (days * DAY * 1000 + micros) // 1000
    return None if months or total_ms < 0 else total_ms


def test_spark_parses_each_interval_to_the_expected_length(spark):
    assert {text: spark_interval_ms(spark, text) for text in SPELLINGS} == SPELLINGS
