"""Payments: the constraints of the table accept all rows of a day or none."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from deltalite import DeltaTable
from tests.examples.dag_runs import FIRST, SECOND, example, rows, run

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.campaign]


@pytest.fixture
def payments(airflow_db, tmp_path, monkeypatch):
    """Return a function that writes the input file of a day and returns the table's folder."""
    monkeypatch.setenv("AIRFLOW_VAR_LAKE", str(tmp_path / "lake"))
    monkeypatch.setenv("AIRFLOW_VAR_LANDING", str(tmp_path / "landing"))

    def deliver(day, *lines):
        folder = tmp_path / "landing" / "payments" / day.isoformat()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "payments.csv").write_text("\n".join(["payment_id,amount,currency", *lines]) + "\n")
        return tmp_path / "lake" / "payments"

    return deliver


def test_a_day_with_a_bad_row_is_rejected_and_loaded_after_its_correction(payments):
    table = payments(FIRST, "1,10.00,EUR", "2,0.50,USD")
    assert run(example("payments_ingest"), FIRST).state == "success"
    before = rows(table)
    assert sorted((row["payment_id"], row["amount"], row["day"]) for row in before) == [
        (1, Decimal("10.00"), FIRST),
        (2, Decimal("0.50"), FIRST),
    ]

    payments(SECOND, "3,5.00,EUR", "4,-1.00,EUR")
    rejected = run(example("payments_ingest"), SECOND)
    assert (rejected.state, rejected.try_numbers, rejected.returned) == ("failed", {"load": 1}, {"load": None})
    assert DeltaTable(str(table)).version == 0 and rows(table) == before

    payments(SECOND, "3,5.00,EUR", "4,1.00,EUR")
    again = run(example("payments_ingest"), SECOND, at=timedelta(days=1))
    assert again.run_id == rejected.run_id and again.state == "success"
    assert (again.returned["load"]["version"], again.returned["load"]["committed"]) == (1, True)
    assert len(rows(table)) == 4
