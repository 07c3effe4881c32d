"""The DAG `orders_landing` loads each file once, and a run without a new file commits nothing."""

from __future__ import annotations

import pytest

from tests.examples.dag_runs import FIRST_DAY, SECOND_DAY, example, rows, run
from tests.support.copying import write_file

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.campaign]


def test_each_file_is_loaded_by_one_run(airflow_db, tmp_path, monkeypatch):
    lake, landing = tmp_path / "lake", tmp_path / "landing"
    monkeypatch.setenv("AIRFLOW_VAR_LAKE", str(lake))
    monkeypatch.setenv("AIRFLOW_VAR_LANDING", str(landing))
    write_file(landing, "orders.csv", "order_id,amount\n1,10.5\n2,20.0\n")
    first = run(example("orders_landing"), FIRST_DAY)
    assert first.state == "success"
    assert [row["order_id"] for row in rows(lake / "orders_landing")] == [1, 2]

    second = run(example("orders_landing"), SECOND_DAY)
    assert (second.state, second.return_values["load"]["skipped"]) == ("success", True)
    assert "has loaded all matching files" in second.return_values["load"]["skip_reason"]
    assert len(rows(lake / "orders_landing")) == 2
