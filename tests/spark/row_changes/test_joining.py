"""The measured size of rows includes long values. A join uses it to decide whether to broadcast the rows."""

from __future__ import annotations

import pytest

from deltalite.spark.row_changes.joining import measure_size

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

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
def test_the_measured_size_includes_the_length_of_a_value_of_any_type(spark, value):
    size = measure_size(spark.sql(f"SELECT {value} AS `a.b` FROM range(3)"))
    assert size.count == 3 and 30_000 <= size.size_bytes < 40_000


def test_null_values_add_few_bytes_to_the_measured_size(spark):
    assert measure_size(spark.sql("SELECT CAST(NULL AS STRING) AS s, CAST(NULL AS VARIANT) AS v")).size_bytes < 100
