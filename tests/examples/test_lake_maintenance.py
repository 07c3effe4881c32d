"""The maintenance of a lake: a mapped task group runs its steps for each table."""

from __future__ import annotations

import os

import deltalake
import pyarrow as pa
import pytest

from deltalite import DeltaTable
from tests.examples.dag_runs import FIRST_DAY, example, run

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]
STEPS = ("optimize", "checkpoint", "vacuum")


@pytest.fixture(params=[["a b"], ["a b", "orders"]], ids=len)
def names(request):
    """The names of the tables. Each step of each table starts a JVM, so the campaign has the second table."""
    return request.param


@pytest.fixture
def small_lake(tmp_path, monkeypatch, names):
    """Tables with four small files and an old orphaned file each, and a folder that is not a table."""
    lake = tmp_path / "lake"
    for name in names:
        for number in range(4):
            deltalake.write_deltalake(str(lake / name), pa.table({"id": [number]}), mode="append")
        (lake / name / "orphan.parquet").write_bytes(b"x")
        os.utime(lake / name / "orphan.parquet", (0, 0))
    (lake / "landing").mkdir()
    monkeypatch.setenv("AIRFLOW_VAR_LAKE", str(lake))
    return lake


@pytest.mark.campaign
def test_each_table_of_the_lake_is_optimized_checkpointed_and_vacuumed(airflow_db, small_lake, names):
    dag_run = run(example("lake_maintenance"), FIRST_DAY)
    assert dag_run.state == "success"
    assert dag_run.return_values["tables"] == [str(small_lake / name) for name in names]
    versions = {step: [result["version"] for result in dag_run.return_values[f"maintenance.{step}"]] for step in STEPS}
    assert versions == {step: [version] * len(names) for step, version in zip(STEPS, (4, 4, 6), strict=True)}
    for name in names:
        table = DeltaTable(str(small_lake / name))
        assert [commit["operation"] for commit in table.history(limit=3)] == ["VACUUM END", "VACUUM START", "OPTIMIZE"]
        assert table.files().num_rows == 1
        assert (small_lake / name / "_delta_log" / f"{4:020}.checkpoint.parquet").exists()
        assert not (small_lake / name / "orphan.parquet").exists()
        delta_rs_rows = deltalake.DeltaTable(str(small_lake / name)).to_pyarrow_table()
        assert sorted(delta_rs_rows["id"].to_pylist()) == sorted(table.to_arrow()["id"].to_pylist()) == [0, 1, 2, 3]
