"""Totals: the DAG replaces a day, and other days do not change."""

from __future__ import annotations

import json
from datetime import date, timedelta

import pytest

from deltalite import DeltaTable
from tests.examples.dag_runs import FIRST, SECOND, example, run
from tests.examples.feeds import expected_totals

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.campaign]


def test_a_day_of_totals_is_replaced_and_other_days_stay(base, totals_runs):
    assert [totals_runs[day].state for day in (FIRST, SECOND)] == ["success", "success"]
    again = run(example("orders_replace_day"), FIRST, at=timedelta(days=30))  # another run for the same day
    replaced = again.returned["totals"]
    assert again.returned["newest_version"] == 1
    assert (replaced["version"], replaced["skipped"]) == (2, False)
    assert replaced["metrics"]["numDeletedRows"] == replaced["metrics"]["numOutputRows"] == len(expected_totals(FIRST))

    table = DeltaTable(str(base / "lake" / "order_totals"))
    totals_by_day: dict[date, dict] = {FIRST: {}, SECOND: {}}
    for row in table.to_arrow().to_pylist():
        assert row["country"] not in totals_by_day[row["day"]]
        totals_by_day[row["day"]][row["country"]] = (row["orders"], row["revenue"])
    assert totals_by_day == {FIRST: expected_totals(FIRST), SECOND: expected_totals(SECOND)}
    assert json.loads(table.history(limit=1)[0]["operationParameters"]["predicate"]) == ["day = DATE'2026-03-01'"]
