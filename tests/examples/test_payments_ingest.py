"""The DAG `payments_ingest` loads all rows of a day, or none if a row violates a constraint."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from deltalite import DeltaTable
from tests.examples.dag_runs import FIRST_DAY, SECOND_DAY, example, rows, run

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.campaign]


@pytest.fixture
def deliver_payments(airflow_db, tmp_path, monkeypatch):
    """Return a function that writes the input file of a day and returns the table's folder."""
    monkeypatch.setenv("AIRFLOW_VAR_LAKE", str(tmp_path / "lake"))
    monkeypatch.setenv("AIRFLOW_VAR_LANDING", str(tmp_path / "landing"))

    def deliver(day, *lines):
        folder = tmp_path / "landing" / "payments" / day.isoformat()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "payments.csv").write_text("\n".join(["payment_id,amount,currency", *lines]) + "\n")
        return tmp_path / "lake" / "payments"

    return deliver


def test_a_day_with_a_bad_row_is_rejected_and_loaded_after_its_correction(deliver_payments):
    table = deliver_payments(FIRST_DAY, "1,10.00,EUR", "2,0.50,USD")
    assert run(example("payments_ingest"), FIRST_DAY).state == "success"
    rows_before = rows(table)
    assert sorted((row["payment_id"], row["amount"], row["day"]) for row in rows_before) == [
        (1, Decimal("10.00"), FIRST_DAY),
        (2, Decimal("0.50"), FIRST_DAY),
    ]

    deliver_payments(SECOND_DAY, "3,5.00,EUR", "4,-1.00,EUR")
    rejected_run = run(example("payments_ingest"), SECOND_DAY)
    assert (rejected_run.state, rejected_run.try_numbers, rejected_run.return_values) == (
        "failed",
        {"load": 1},
        {"load": None},
    )
    assert DeltaTable(str(table)).version == 0 and rows(table) == rows_before

    deliver_payments(SECOND_DAY, "3,5.00,EUR", "4,1.00,EUR")
    second_run = run(example("payments_ingest"), SECOND_DAY, after_midnight=timedelta(days=1))
    assert second_run.run_id == rejected_run.run_id and second_run.state == "success"
    assert (second_run.return_values["load"]["version"], second_run.return_values["load"]["committed"]) == (1, True)
    assert len(rows(table)) == 4
