"""The DAG `orders_checked` publishes the orders of a day after they passed their audits, and checks the version."""

from __future__ import annotations

import pytest

from demo.feed import write_feed
from tests.examples.dag_runs import FIRST_DAY, example, run
from tests.examples.feeds import ORDERS

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.campaign]


def test_the_orders_of_a_day_are_published_after_their_audits(examples_home):
    write_feed(examples_home / "landing", FIRST_DAY, orders=ORDERS)
    run_of_day = run(example("orders_checked"), FIRST_DAY)
    assert run_of_day.state == "success"
    loaded, checked = run_of_day.return_values["load"], run_of_day.return_values["check"]
    assert [audit["name"] for audit in loaded["audits"]] == [
        "not empty",
        "usual volume",
        "customers",
        "amounts",
        "fresh",
    ]
    assert all(audit["passed"] for audit in loaded["audits"] if audit["level"] == "fail")
    assert (checked["version"], checked["metrics"]) == (loaded["version"], {"numAudits": 2, "numAuditsNotPassed": 0})
