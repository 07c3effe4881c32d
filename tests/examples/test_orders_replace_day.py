"""The DAG `orders_replace_day` replaces the totals of a day, and other days do not change."""

from __future__ import annotations

import json
from datetime import date, timedelta

import pytest

from deltalite import DeltaTable
from tests.examples.dag_runs import FIRST_DAY, SECOND_DAY, example, run
from tests.examples.feeds import expected_totals

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.campaign]


def test_a_day_of_totals_is_replaced_and_other_days_stay(examples_home, totals_runs):
    assert [totals_runs[day].state for day in (FIRST_DAY, SECOND_DAY)] == ["success", "success"]
    # This is another run for the same day.
    second_run = run(example("orders_replace_day"), FIRST_DAY, after_midnight=timedelta(days=30))
    second_totals = second_run.return_values["totals"]
    assert second_run.return_values["newest_version"] == 1
    assert (second_totals["version"], second_totals["skipped"]) == (2, False)
    assert (
        second_totals["metrics"]["numDeletedRows"]
        == second_totals["metrics"]["numOutputRows"]
        == len(expected_totals(FIRST_DAY))
    )

    table = DeltaTable(str(examples_home / "lake" / "order_totals"))
    totals_by_day: dict[date, dict] = {FIRST_DAY: {}, SECOND_DAY: {}}
    for row in table.to_arrow().to_pylist():
        assert row["country"] not in totals_by_day[row["day"]]
        totals_by_day[row["day"]][row["country"]] = (row["orders"], row["revenue"])
    assert totals_by_day == {FIRST_DAY: expected_totals(FIRST_DAY), SECOND_DAY: expected_totals(SECOND_DAY)}
    assert json.loads(table.history(limit=1)[0]["operationParameters"]["predicate"]) == ["day = DATE'2026-03-01'"]
