"""The tutorial: each step has the result that its pages describe."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from deltalite import DeltaTable
from tests.examples.dag_runs import FIRST_DAY, SECOND_DAY, example, rows, run

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def examples_home(airflow_db, tmp_path, monkeypatch):
    """The folder of the input files and tables, with the input of two days."""
    monkeypatch.setenv("AIRFLOW_VAR_LAKE", str(tmp_path / "lake"))
    monkeypatch.setenv("AIRFLOW_VAR_LANDING", str(tmp_path / "landing"))
    orders = tmp_path / "landing" / "orders"
    orders.mkdir(parents=True)
    (orders / f"{FIRST_DAY}.csv").write_text("order_id,customer,amount\n1,ann,10.00\n2,bob,0.50\n")
    (orders / f"{SECOND_DAY}.csv").write_text("order_id,customer,amount\n3,ann,4.00\n")
    return tmp_path


@pytest.mark.campaign
def test_a_second_run_of_a_day_appends_nothing_and_the_merged_table_has_all_orders(examples_home):
    first = run(example("tutorial"), FIRST_DAY)
    assert (first.state, first.return_values["load"]["version"], first.return_values["load"]["skipped"]) == (
        "success",
        0,
        False,
    )

    second_run = run(example("tutorial"), FIRST_DAY, after_midnight=timedelta(hours=30))
    assert second_run.run_id != first.run_id
    assert (second_run.return_values["load"]["version"], second_run.return_values["load"]["skipped"]) == (0, True)

    assert run(example("tutorial"), SECOND_DAY).state == "success"
    assert len(rows(examples_home / "lake" / "orders")) == 3
    assert rows(examples_home / "lake" / "customers") == [
        {"customer": "ann", "orders": 2, "spent": Decimal("14.00")},
        {"customer": "bob", "orders": 1, "spent": Decimal("0.50")},
    ]
    report = run(example("tutorial_report"), SECOND_DAY)
    assert report.return_values["report"] == [{"customer": "ann", "orders": 2}, {"customer": "bob", "orders": 1}]
    bad_day = SECOND_DAY + timedelta(days=1)
    (examples_home / "landing" / "orders" / f"{bad_day}.csv").write_text("order_id,customer,amount\n4,eve,-1.00\n")
    assert run(example("tutorial"), bad_day).state == "failed"
    assert DeltaTable(str(examples_home / "lake" / "orders")).version == 1
    assert report.return_values["wait"]["version"] == DeltaTable(str(examples_home / "lake" / "customers")).version
