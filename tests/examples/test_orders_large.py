"""The incremental append loads each order once, and a run without new orders starts no Spark job."""

from __future__ import annotations

import pytest

from tests.examples.dag_runs import FIRST_DAY, SECOND_DAY, example, rows, run

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]


@pytest.mark.campaign
def test_a_second_run_loads_no_order_twice_and_starts_no_spark_job(lake, request):
    first = run(example("orders_large"), FIRST_DAY)
    assert first.state == "success"
    expected_rows = [row for row in rows(lake / "orders") if row["amount"] is not None and row["amount"] >= 100]
    assert rows(lake / "orders_large") == expected_rows

    # From here on, a call of spark-submit fails and creates this file.
    spark_call_marker = request.getfixturevalue("without_spark")
    second = run(example("orders_large"), SECOND_DAY)
    assert (second.state, second.return_values["load"]["skipped"]) == ("success", True)
    assert "'large orders'" in second.return_values["load"]["skip_reason"]
    assert rows(lake / "orders_large") == expected_rows and not spark_call_marker.exists()
