"""The measured size of rows: what is broadcast must not be larger than it seems."""

from __future__ import annotations

import pytest

from deltalite.spark.row_changes.joining import measure_size

pytestmark = pytest.mark.spark

TEXT = "repeat('x', 10000)"


@pytest.mark.parametrize(
    "value",
    [
        TEXT,
        f"CAST({TEXT} AS BINARY)",
        f"named_struct('a', array({TEXT}))",
        f"map('k', {TEXT})",
        f"""parse_json('{{"a": "' || {TEXT} || '"}}')""",
    ],
    ids=["text", "binary", "struct", "map", "variant"],
)
def test_a_wide_value_of_any_type_counts_with_its_width(spark, value):
    size = measure_size(spark.sql(f"SELECT {value} AS `a.b` FROM range(3)"))
    assert size.count == 3 and 30_000 <= size.size_bytes < 40_000


def test_values_that_are_null_count_little(spark):
    assert measure_size(spark.sql("SELECT CAST(NULL AS STRING) AS s, CAST(NULL AS VARIANT) AS v")).size_bytes < 100
