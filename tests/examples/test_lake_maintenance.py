"""The maintenance of a lake: one task reports the health of all tables, and then maintains the ones that need it."""

from __future__ import annotations

import deltalake
import pyarrow as pa
import pytest

from deltalite import DeltaTable
from tests.examples.dag_runs import FIRST_DAY, SECOND_DAY, example, run

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]
FILES = 12


@pytest.fixture
def small_lake(tmp_path, monkeypatch):
    """Two tables with many small files, a healthy table, and a folder that is not a table."""
    lake = tmp_path / "lake"
    for name, count in (("a b", FILES), ("orders", FILES), ("idle", 1)):
        for number in range(count):
            deltalake.write_deltalake(str(lake / name), pa.table({"id": [number]}), mode="append")
    (lake / "landing").mkdir()
    monkeypatch.setenv("AIRFLOW_VAR_LAKE", str(lake))
    return lake


@pytest.mark.campaign
def test_the_tables_of_the_lake_that_need_it_are_maintained_by_one_task(airflow_db, small_lake):
    report = run(example("lake_maintenance"), FIRST_DAY, conf={"dry_run": True})
    assert report.state == "success"
    assert [row["status"] for row in report.return_values["maintain"]["tables"]] == ["due", "due", "healthy"]
    assert not (small_lake / "orders" / "_delta_log" / f"{FILES:020}.json").exists()

    maintenance = run(example("lake_maintenance"), SECOND_DAY)  # a new DAG, because `dag.test` stores the conf
    assert maintenance.state == "success"
    result = maintenance.return_values["maintain"]
    assert [(row["table"], row["status"]) for row in result["tables"]] == [
        (f"{small_lake}/a b", "changed"), (f"{small_lake}/orders", "changed"), (f"{small_lake}/idle", "healthy"),
    ]  # fmt: skip
    assert result["metrics"]["numOptimizedTables"] == result["metrics"]["numCheckpoints"] == 2
    for name in ("a b", "orders"):
        table = DeltaTable(str(small_lake / name))
        assert table.history(limit=1)[0]["operation"] == "OPTIMIZE"
        assert table.files().num_rows == 1
        assert (small_lake / name / "_delta_log" / f"{FILES:020}.checkpoint.parquet").exists()
        delta_rs_rows = deltalake.DeltaTable(str(small_lake / name)).to_pyarrow_table()
        assert sorted(delta_rs_rows["id"].to_pylist()) == sorted(table.to_arrow()["id"].to_pylist()) == [*range(FILES)]


@pytest.mark.campaign
def test_the_dag_of_the_button_maintains_the_table_of_its_conf_only(airflow_db, small_lake):
    """The page *Delta tables* starts the DAG with such a `conf`."""
    maintenance = run(example("table_maintenance"), FIRST_DAY, conf={"table": str(small_lake / "a b")})
    assert maintenance.state == "success"
    [row] = maintenance.return_values["maintain"]["tables"]
    assert (row["table"], row["status"]) == (f"{small_lake}/a b", "changed")
    assert DeltaTable(str(small_lake / "a b")).files().num_rows == 1
    assert DeltaTable(str(small_lake / "orders")).files().num_rows == FILES
