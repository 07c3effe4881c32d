"""The DAG `orders_table` creates its table in the first run. The second run does not change the definition."""

from __future__ import annotations

import pytest

from deltalite import DeltaTable
from tests.examples.dag_runs import FIRST_DAY, SECOND_DAY, example, rows, run

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.campaign]


def test_the_table_is_declared_once_and_loaded_each_day(airflow_db, tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFLOW_VAR_LAKE", str(tmp_path))
    monkeypatch.setenv("AIRFLOW_VAR_LANDING", str(tmp_path / "landing"))
    for number, day in enumerate((FIRST_DAY, SECOND_DAY)):
        folder = tmp_path / "landing" / "declared_orders" / f"{day}"
        folder.mkdir(parents=True)
        (folder / "a.csv").write_text(f"order_id,amount,ordered_at\n{number},2.50,{day}T10:00:00Z\n")
    first, second = (run(example("orders_table"), day) for day in (FIRST_DAY, SECOND_DAY))
    assert (first.state, second.state) == ("success", "success")
    assert [
        (r.return_values["declare"]["committed"], r.return_values["declare"]["version"]) for r in (first, second)
    ] == [
        (True, 0),
        (False, 1),
    ]
    table = DeltaTable(str(tmp_path / "declared_orders"))
    assert table.version == 2 and table.metadata.description == "One row for each order"
    assert [(row["order_id"], row["day"], row["state"]) for row in rows(tmp_path / "declared_orders")] == [
        (0, FIRST_DAY, "new"),
        (1, SECOND_DAY, "new"),
    ]
