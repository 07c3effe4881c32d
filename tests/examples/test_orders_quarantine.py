"""The DAGs `orders_quarantine` and `orders_repair`: a bad record and a bad row, and the repair of the row."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.examples.dag_runs import FIRST_DAY, SECOND_DAY, example, rows, run
from tests.support.copying import write_file

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.campaign]


def test_bad_records_go_to_the_quarantine_and_a_repaired_row_is_loaded_once(airflow_db, tmp_path, monkeypatch):
    lake, landing = tmp_path / "lake", tmp_path / "landing"
    monkeypatch.setenv("AIRFLOW_VAR_LAKE", str(lake))
    monkeypatch.setenv("AIRFLOW_VAR_LANDING", str(landing))
    good_lines = "".join(f"{number},{number}.5\n" for number in range(1, 9))
    file = write_file(landing, "orders.csv", f"order_id,amount\n{good_lines}9,ten\n10,-1\n")
    dag_run = run(example("orders_quarantine"), FIRST_DAY)
    assert dag_run.state == "success"
    assert sorted(row["order_id"] for row in rows(lake / "good_orders")) == [*range(1, 9), 10]
    assert [row["order_id"] for row in rows(lake / "published_orders")] == list(range(1, 9))
    rejected, bad = sorted(rows(lake / "bad_orders"), key=lambda row: row["line"] or 0)
    assert (bad["file"], bad["line"], bad["record"]) == (str(file), 10, "9,ten")
    assert (rejected["audit"], rejected["record"]) == ("amounts", '{"order_id":10,"amount":-1.00}')
    result = dag_run.return_values["load"]
    assert result["quarantine"] == {"table": str(lake / "bad_orders"), "version": 0, "rows": 1}
    assert bad["run"] == result["app_id"]

    for day in (FIRST_DAY, SECOND_DAY):  # the second run finds nothing to repair
        repair_run = run(example("orders_repair"), day)
        assert repair_run.state == "success"
        published = {row["order_id"]: row["amount"] for row in rows(lake / "published_orders")}
        assert len(rows(lake / "published_orders")) == 9 and published[10] == Decimal("1.00")
        assert [row["record"] for row in rows(lake / "bad_orders")] == ["9,ten"]
