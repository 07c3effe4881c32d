"""The DAG `prices_history` gives the same history for days in any order."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from tests.examples.dag_runs import FIRST_DAY, SECOND_DAY, example, rows, run

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.campaign]

LINES = {
    FIRST_DAY: ["pen,1.00,7,2026-03-01T08:00:00Z,", "ink,5.00,2,2026-03-01T08:00:00Z,"],
    SECOND_DAY: [
        "pen,1.00,3,2026-03-02T08:00:00Z,",
        "pen,1.20,3,2026-03-02T12:00:00Z,",
        "ink,,,2026-03-02T09:00:00Z,true",
    ],
}


@pytest.fixture
def folder(airflow_db, tmp_path, monkeypatch):
    """The folder of the DAG, with the folders `landing` and `lake`."""
    monkeypatch.setenv("AIRFLOW_VAR_LAKE", str(tmp_path / "lake"))
    monkeypatch.setenv("AIRFLOW_VAR_LANDING", str(tmp_path / "landing"))
    return tmp_path


def deliver(folder: Path, day: date, lines: list[str]) -> None:
    """Write the changes of a day."""
    day_folder = folder / "landing" / "prices" / day.isoformat()
    day_folder.mkdir(parents=True)
    (day_folder / "changes.csv").write_text("\n".join(["product,price,stock,changed_at,removed", *lines]) + "\n")


def test_a_price_that_is_no_number_fails_and_writes_nothing(folder, capfd):
    deliver(folder, FIRST_DAY, ["pen,abc,7,2026-03-01T08:00:00Z,"])
    assert run(example("prices_history"), FIRST_DAY).state == "failed"
    output = capfd.readouterr().out
    assert "SourceError: Nothing was written" in output and "/changes.csv: " in output
    assert not (folder / "lake" / "prices_history" / "_delta_log").exists()


def test_the_second_day_first_gives_the_same_history(folder):
    for day, lines in LINES.items():
        deliver(folder, day, lines)
    results = [run(example("prices_history"), day).return_values["history"] for day in (SECOND_DAY, FIRST_DAY)]
    assert [(result["operation"], result["version"]) for result in results] == [("MERGE", 0), ("MERGE", 1)]
    assert results[1]["metrics"]["numLateRows"] == 2 and not results[1].get("out_of_order")

    def at(text: str) -> datetime:
        return datetime.fromisoformat(f"2026-03-{text}:00+00:00")

    history = [
        (row["product"], row["price"], row["stock"], row["valid_from"], row["valid_to"], row["is_current"])
        for row in rows(folder / "lake" / "prices_history")
    ]
    assert sorted(history, key=lambda row: (row[0], row[3])) == [
        ("ink", Decimal("5.00"), 2, at("01T08:00"), at("02T09:00"), False),
        ("pen", Decimal("1.00"), 3, at("01T08:00"), at("02T12:00"), False),
        ("pen", Decimal("1.20"), 3, at("02T12:00"), None, True),
    ]
