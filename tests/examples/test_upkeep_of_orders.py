"""Examples of upkeep: undo a bad load, z-order the last days, convert a folder."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltalite import DeltaTable
from tests.examples.dag_runs import FIRST_DAY, SECOND_DAY, example, rows, run

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.campaign]
OLD_DAY = date(2026, 2, 1)


@pytest.fixture
def orders(airflow_db, tmp_path, monkeypatch):
    """Orders of three days, with two loads and so two files for each day."""
    monkeypatch.setenv("AIRFLOW_VAR_LAKE", str(tmp_path))
    for number, day in enumerate((OLD_DAY, FIRST_DAY, SECOND_DAY) * 2):
        append_orders(tmp_path / "orders", day, amount=number)
    return tmp_path / "orders"


def append_orders(table, day, *, amount):
    amounts = pa.array([Decimal(amount)], pa.decimal128(12, 2))
    columns = {"customer": [f"c{amount}"], "country": ["DE"], "amount": amounts, "day": [day]}
    deltalake.write_deltalake(str(table), pa.table(columns), mode="append", partition_by=["day"])


def test_the_table_is_restored_to_the_newest_version_without_a_negative_amount(orders):
    rows_before = rows(orders)
    append_orders(orders, SECOND_DAY, amount=-1)
    append_orders(orders, FIRST_DAY, amount=7)
    dag_run = run(example("orders_undo"), FIRST_DAY)
    assert (dag_run.state, dag_run.return_values["newest_valid_version"]) == ("success", 5)
    assert (
        dag_run.return_values["restore"]["version"],
        dag_run.return_values["restore"]["metrics"]["numRemovedFiles"],
    ) == (8, 2)
    assert rows(orders) == rows_before


def test_only_the_last_days_are_z_ordered(orders):
    rows_before = rows(orders)
    dag_run = run(example("orders_z_order"), SECOND_DAY)
    assert dag_run.state == "success"
    metrics = dag_run.return_values["z_order"]["metrics"]
    assert (metrics["numRemovedFiles"], metrics["numAddedFiles"]) == (4, 2)
    assert rows(orders) == rows_before
    files = DeltaTable(str(orders)).files().to_pylist()
    assert sorted(dict(file["partition_values"])["day"] for file in files) == [
        f"{day}" for day in (OLD_DAY, OLD_DAY, FIRST_DAY, SECOND_DAY)
    ]


def test_a_folder_of_parquet_files_becomes_a_table_in_place(airflow_db, tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFLOW_VAR_LANDING", str(tmp_path))
    for day in (FIRST_DAY, SECOND_DAY):
        folder = tmp_path / "clicks" / f"day={day}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"url": [f"/{day}"]}), folder / "part-0.parquet")
    dag_run = run(example("landing_convert"), FIRST_DAY)
    assert dag_run.state == "success"
    assert dag_run.return_values["convert"]["metrics"]["numConvertedFiles"] == 2
    assert rows(tmp_path / "clicks") == [{"url": f"/{day}", "day": day} for day in (FIRST_DAY, SECOND_DAY)]
